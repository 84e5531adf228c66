//! Q2_0: 64 values of two bits and a scale; value `i` is `d * (q[i] - 1)`.
//! <https://github.com/ggml-org/ggml>, `block_q2_0`
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
pub const LEN: usize = 64;
/// Bytes per block.
pub const BYTES: usize = 18;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q2_0,
    tensor_type: 42,
    name: "Q2_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U2,
        values: Values::Minus(1),
        scales: Scales::Pairs,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// Two bits per value, four values to a byte, the first lowest.
    q: [u8; LEN / 4],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The values in units of `d`.
#[inline]
fn unpack(packed: &Packed) -> [[i8; Q8Block::LEN]; 2] {
    let mut q = [[0; Q8Block::LEN]; 2];
    for (q, byte) in q.as_flattened_mut().as_chunks_mut::<4>().0.iter_mut().zip(packed.q) {
        for (i, q) in q.iter_mut().enumerate() {
            *q = (byte >> (2 * i) & 3).cast_signed() - 1;
        }
    }
    q
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed: &Packed, values: &mut [f32; LEN]| {
        let d = scale(packed.d);
        for (value, q) in values.iter_mut().zip(unpack(packed).as_flattened()) {
            *value = f32::from(*q) * d;
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
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        blocks.words(offset_of!(Packed, q), out);
        for word in out.as_chunks_mut::<4>().0 {
            *word = transposed(u32::from_le_bytes(*word)).to_le_bytes();
        }
    };
    pack_blocks(rows, transpose, (Codes::U2, Scales::Pairs), out, codes, |packed: &Packed| {
        [Scale { d: packed.d, ..Scale::ZERO }; LEN / 32]
    });
}

/// Transposes a 4×4 matrix of two-bit numbers: number `k` of byte `i` becomes number `i` of byte `k`.
fn transposed(word: u32) -> u32 {
    let exchanged = |word: u32, distance: u32, mask: u32| {
        let differs = (word ^ word >> distance) & mask;
        word ^ differs ^ differs << distance
    };
    // Those in odd columns of even rows, and then in the last two columns of the first two rows.
    exchanged(exchanged(word, 6, 0x00CC_00CC), 12, 0x0000_F0F0)
}
