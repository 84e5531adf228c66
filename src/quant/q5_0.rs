//! Q5_0: 32 values of five bits and a scale; value `i` is `d * (q[i] - 16)`.
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::{dot_i8, reciprocal};
use super::blocks::{dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks, put_fifth_bits};
use super::packed::{Codes, Packing, Scales, Values};
use super::q4_0::{pack_nibbles, truncate, unpack_nibbles};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block.
pub const BYTES: usize = 22;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q5_0,
    tensor_type: 6,
    name: "Q5_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U5,
        values: Values::Minus(16),
        scales: Scales::F16,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// The upper bit of the values, value `i` in bit `i`.
    high: [u8; 4],
    /// Their lower four bits: byte `i` holds those of value `i` in its low nibble and of value `i + 16` in
    /// its high nibble.
    low: [u8; 16],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Numbers of 0..=31 from their fifth bits and their nibbles.
#[inline]
pub(super) fn unpack_five_bits(high: [u8; 4], low: &[u8; LEN / 2]) -> [i8; LEN] {
    let mut q = unpack_nibbles(low);
    let high = u32::from_le_bytes(high);
    for (i, q) in q.iter_mut().enumerate() {
        *q |= ((high >> i & 1) << 4) as i8;
    }
    q
}

/// The inverse of [`unpack_five_bits`].
pub(super) fn pack_five_bits(q: &[i8; LEN]) -> ([u8; 4], [u8; LEN / 2]) {
    let high = q.iter().rev().fold(0u32, |high, &q| high << 1 | u32::from(q >= 16));
    (high.to_le_bytes(), pack_nibbles(&q.map(|q| q & 15)))
}

/// The scale and the values in units of it, in -16..=15.
#[inline]
fn unpack(packed: &Packed) -> (f32, [i8; LEN]) {
    (scale(packed.d), unpack_five_bits(packed.high, &packed.low).map(|q| q - 16))
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values: &mut [f32; LEN]| {
        let (d, q) = unpack(packed);
        for (value, q) in values.iter_mut().zip(q) {
            *value = d * f32::from(q);
        }
    });
}

/// Packs values: `d` is the (first) value of largest magnitude divided by -16, so that this value is exact.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    pack_row(src, dst, |values: &[f32; LEN]| {
        let largest = values.iter().fold(values[0], |a, &x| if x.abs() > a.abs() { x } else { a });
        let d = largest / -16.0;
        let inverse = reciprocal(d);
        let (high, low) = pack_five_bits(&values.map(|x| truncate(x * inverse + 16.5, 31)));
        Packed { d: scale_bytes(d), high, low }
    });
}

/// `Σ d·x.d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, [x]: &[Q8Block; 1]| {
        let (d, q) = unpack(packed);
        d * x.d * dot_i8(&q, &x.qs) as f32
    })
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U5, Scales::F16);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let (low, high) = out.split_at_mut(Codes::U4.bytes());
        blocks.words(offset_of!(Packed, low), low);
        let mut words = [0; _];
        blocks.words(offset_of!(Packed, high), &mut words);
        put_fifth_bits(&words, high);
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| [Scale { d: packed.d, ..Scale::ZERO }]);
}
