//! Q4_K: 256 values of four bits in eight groups with a scale and a minimum of six bits each; value `i` of
//! group `g` is `d * scale[g] * q[i] - dmin * min[g]`. <https://github.com/ggml-org/llama.cpp/pull/1684>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::bits::{pack4, unpack4};
use super::blocks::{OffsetGroups, dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks, put_nibbles_of_runs};
use super::packed::{Codes, Packing, Scales, Values};
use super::search::{Ranges, fit_with_minima};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 144;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q4_K,
    tensor_type: 12,
    name: "Q4_K",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Minus(0),
        scales: Scales::Super,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The unit of the scales, a binary16.
    d: [u8; 2],
    /// The unit of the minima, a binary16.
    dmin: [u8; 2],
    /// Scales and minima; see `unpack_scales`.
    scales: [u8; 12],
    /// Nibble `j` (0 the lower) of byte `32h + i` is value `64h + 32j + i`.
    q: [u8; 128],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

const RANGES: Ranges = Ranges { scale: (0, 63), q: (0, 15) };

/// Scales and minima of six bits. The low six bits of bytes 0..4 are scales 0..4 and those of bytes 4..8 minima 0..4;
/// bytes 8..12 hold the lower four bits of scales 4..8 and, in their high nibbles, of minima 4..8, whose upper two bits
/// are the top bits of bytes 0..4 and 4..8.
#[inline]
pub(super) fn unpack_scales(bytes: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for i in 0..4 {
        let (a, b, c) = (bytes[i], bytes[i + 4], bytes[i + 8]);
        (scales[i], mins[i]) = (a & 63, b & 63);
        (scales[i + 4], mins[i + 4]) = (c & 15 | a >> 6 << 4, c >> 4 | b >> 6 << 4);
    }
    (scales, mins)
}

/// The inverse of [`unpack_scales`].
pub(super) fn pack_scales(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for i in 0..4 {
        bytes[i] = scales[i] | scales[i + 4] >> 4 << 6;
        bytes[i + 4] = mins[i] | mins[i + 4] >> 4 << 6;
        bytes[i + 8] = scales[i + 4] & 15 | mins[i + 4] << 4;
    }
    bytes
}

#[inline]
fn unpack(packed: &Packed) -> OffsetGroups<8, 32> {
    let (scales, mins) = unpack_scales(&packed.scales);
    OffsetGroups { d: scale(packed.d), dmin: scale(packed.dmin), scales, mins, q: unpack4(&packed.q) }
}

fn pack(block: &OffsetGroups<8, 32>) -> Packed {
    Packed {
        d: scale_bytes(block.d),
        dmin: scale_bytes(block.dmin),
        scales: pack_scales(&block.scales, &block.mins),
        q: pack4(&block.q),
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values| unpack(packed).dequantize(values));
}

/// Packs values as [`search`](mod@super::search) finds best.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    pack_row(src, dst, |values| pack(&fit_with_minima(values, &RANGES)));
}

/// `Σ d·x.d · Σ scale · Σ q·x.q` over the blocks, less `Σ dmin · min · x.sum`.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U4, Scales::Super);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        put_nibbles_of_runs(blocks, offset_of!(Packed, q), Codes::U4.bytes(), out);
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        let (scales, mins) = unpack_scales(&packed.scales);
        std::array::from_fn::<_, 8, _>(|g| Scale { d: packed.d, m: packed.dmin, bytes: [scales[g], mins[g]] })
    });
}
