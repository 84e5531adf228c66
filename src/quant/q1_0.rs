//! Q1_0: 128 values of one bit and a scale; value `i` is `d` where bit `i` is set, and `-d` elsewhere.
//! <https://github.com/ggml-org/ggml>, `block_q1_0`
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::dot_i8;
use super::blocks::{dot_row, unpack_row};
use super::f16::scale;
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 128;
/// Bytes per block.
pub const BYTES: usize = 18;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q1_0,
    tensor_type: 41,
    name: "Q1_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U1,
        values: Values::Listed(&SIGNS),
        scales: Scales::Fours,
        pack: pack_group,
    }),
};

/// The values of the codes.
const SIGNS: [i8; 16] = [-1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// A bit per value, the first lowest.
    bits: [u8; LEN / 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The values in units of `d`.
#[inline]
fn unpack(packed: &Packed) -> [[i8; Q8Block::LEN]; 4] {
    let mut q = [[0; Q8Block::LEN]; 4];
    for (q, byte) in q.as_flattened_mut().as_chunks_mut::<8>().0.iter_mut().zip(packed.bits) {
        for (i, q) in q.iter_mut().enumerate() {
            *q = 2 * (byte >> i & 1).cast_signed() - 1;
        }
    }
    q
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed: &Packed, values: &mut [f32; LEN]| {
        let d = scale(packed.d);
        for (value, q) in values.iter_mut().zip(unpack(packed).as_flattened()) {
            *value = if *q > 0 { d } else { -d };
        }
    });
}

/// `Σ d · Σ x.d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed: &Packed, x: &[Q8Block; LEN / Q8Block::LEN]| {
        let sums = unpack(packed).iter().zip(x).map(|(q, x)| x.d * dot_i8(q, &x.qs) as f32).sum::<f32>();
        scale(packed.d) * sums
    })
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| blocks.words(offset_of!(Packed, bits), out);
    pack_blocks(rows, transpose, (Codes::U1, Scales::Fours), out, codes, |packed: &Packed| {
        [Scale { d: packed.d, ..Scale::ZERO }; LEN / 32]
    });
}
