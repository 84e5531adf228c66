//! TQ1_0: 256 values of -1, 0 and 1 and a scale; value `i` is `d * q[i]`. Five values to a byte, as the
//! digits of a number in base three (<https://compilade.net/blog/ternary-packing>).
//! <https://github.com/ggml-org/llama.cpp/pull/8151>
#![forbid(unsafe_code)]

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::pack::{Rows, Transpose, pack_groups};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 54;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::TQ1_0,
    tensor_type: 34,
    name: "TQ1_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U8,
        values: Values::Parts(PARTS),
        scales: Scales::Halves,
        pack: pack_group,
    }),
};

/// Values are integer multiples of one over this number.
const PARTS: u8 = 1;

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Packed {
    /// Values 0..160, five to a byte: digit `k` of byte `i` is value `32k + i`.
    pub a: [u8; 32],
    /// Values 160..240, five to a byte: digit `k` of byte `i` is value `160 + 16k + i`.
    pub b: [u8; 16],
    /// Values 240..256, four to a byte: digit `k` of byte `i` is value `240 + 4k + i`.
    pub c: [u8; 4],
    /// The scale `d`, a binary16.
    pub d: [u8; 2],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Writes digit `k` of byte `i`, less 1, to place `k * N + i`. A byte `b` stands for the fraction `b / 256`, whose first
/// digit after the point is the first value: tripling brings the next digit to the front, and the carry is dropped.
#[inline]
fn digits<const N: usize>(bytes: &[u8; N], q: &mut [i8]) {
    for (tripled, q) in [1u8, 3, 9, 27, 81].into_iter().zip(q.as_chunks_mut::<N>().0) {
        for (q, byte) in q.iter_mut().zip(bytes) {
            *q = ((u16::from(byte.wrapping_mul(tripled)) * 3) >> 8) as i8 - 1;
        }
    }
}

#[inline]
fn unpack(packed: &Packed) -> Groups<8, 32> {
    let mut q = [[0; 32]; 8];
    let values = q.as_flattened_mut();
    digits(&packed.a, &mut values[..160]);
    digits(&packed.b, &mut values[160..240]);
    digits(&packed.c, &mut values[240..]);
    Groups { d: scale(packed.d), scales: [1; 8], q }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values| unpack(packed).dequantize(values));
}

/// `Σ d·x.d · Σ scale · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    pack_groups::<Packed, PARTS, _, _>(rows, transpose, out, unpack);
}
