//! NVFP4: 64 four-bit floats (E2M1) in four groups, each with a scale that is an eight-bit float (E4M3
//! without its sign); value `i` of group `g` is `e4m3(scale[g]) * e2m1[q[i]]`.
//! <https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::dot_i8;
use super::blocks::{dot_row, unpack_row};
use super::grid::E2M1_DOUBLED;
use super::pack::{Blocks, QUAD, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 64;
/// Bytes per block.
pub const BYTES: usize = 36;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::NVFP4,
    tensor_type: 40,
    name: "NVFP4",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Listed(&E2M1_DOUBLED),
        scales: Scales::HalvesE4m3,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scales.
    scales: [u8; 4],
    /// Byte `i` of a group holds number `i` in its low nibble and number `i + 8` in its high nibble.
    q: [[u8; GROUP / 2]; 4],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Values per group.
const GROUP: usize = 16;

/// A group's scale, halved, and its values, doubled.
#[inline]
fn unpack(packed: &Packed) -> [(f32, [i8; GROUP]); 4] {
    std::array::from_fn(|g| {
        let nibble = |i: usize| packed.q[g][i % (GROUP / 2)] >> (i / (GROUP / 2) * 4) & 15;
        let q = std::array::from_fn(|i| E2M1_DOUBLED[usize::from(nibble(i))]);
        (half_scale(packed.scales[g]), q)
    })
}

/// Half an E4M3 number (four bits of exponent with bias 7, three of mantissa). The sign is left out; 0x7f, which would
/// be NaN, is 0.
#[inline]
fn half_scale(bits: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 3 & 15), f32::from(bits & 7));
    match (bits, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((exponent + 127 - 7 - 1) << 23),
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values: &mut [f32; LEN]| {
        for (values, (d, q)) in values.as_chunks_mut::<GROUP>().0.iter_mut().zip(unpack(packed)) {
            for (value, q) in values.iter_mut().zip(q) {
                *value = d * f32::from(q);
            }
        }
    });
}

/// `Σ x.d · Σ d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed: &Packed, x: &[Q8Block; LEN / Q8Block::LEN]| {
        let groups = unpack(packed);
        let piece = |(groups, x): (&[(f32, [i8; GROUP]); 2], &Q8Block)| {
            let halves = groups.iter().zip(x.qs.as_chunks::<GROUP>().0);
            x.d * halves.map(|((d, q), x)| d * dot_i8(q, x) as f32).sum::<f32>()
        };
        groups.as_chunks().0.iter().zip(x).map(piece).sum::<f32>()
    })
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        // Two words of each row for each group.
        let mut words = [0; QUAD * LEN / 8];
        blocks.words(offset_of!(Packed, q), &mut words);
        let (pieces, _) = words.as_chunks::<{ 4 * QUAD }>();
        for (words, out) in pieces.iter().zip(out.chunks_exact_mut(Codes::U4.bytes())) {
            let (low, high) = words.split_at(2 * QUAD);
            let (first, second) = out.split_at_mut(2 * QUAD);
            for (((low, high), first), second) in low.iter().zip(high).zip(first).zip(second) {
                (*first, *second) = (low & 15 | high << 4, low >> 4 | high & 0xF0);
            }
        }
    };
    // No sign, and 0 instead of what would be NaN.
    let byte = |scale: u8| if scale == 0x7f { 0 } else { scale & 0x7f };
    pack_blocks(rows, transpose, (Codes::U4, Scales::HalvesE4m3), out, codes, |packed: &Packed| {
        [0, 2].map(|g| Scale { bytes: [packed.scales[g], packed.scales[g + 1]].map(byte), ..Scale::ZERO })
    });
}
