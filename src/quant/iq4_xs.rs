//! IQ4_XS: 256 values in eight groups of 32 four-bit numbers, which stand for sixteen unequally spaced
//! values; value `i` of group `g` is `d * (scale[g] - 32) * VALUES[q[i]]`.
//! <https://github.com/ggml-org/llama.cpp/pull/5747>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::grid::{IQ4_VALUES, look_up};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 136;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ4_XS,
    tensor_type: 23,
    name: "IQ4_XS",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Listed(&IQ4_VALUES),
        scales: Scales::Halves,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// The upper two bits of the scales, the first lowest.
    scales_high: [u8; 2],
    /// The lower four bits of the scales, two to a byte, the first lower.
    scales_low: [u8; 4],
    /// Byte `i` of a group holds number `i` in its low nibble and number `i + 16` in its high nibble.
    q: [[u8; 16]; 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

#[inline]
fn scales(packed: &Packed) -> [i8; 8] {
    let high = u16::from_le_bytes(packed.scales_high);
    std::array::from_fn(|g| {
        let low = packed.scales_low[g / 2] >> (g % 2 * 4) & 15;
        (low | ((high >> (2 * g) & 3) << 4) as u8).cast_signed() - 32
    })
}

#[inline]
fn unpack(packed: &Packed) -> Groups<8, 32> {
    Groups {
        d: scale(packed.d),
        scales: scales(packed),
        q: packed.q.map(|nibbles| look_up(&nibbles, &IQ4_VALUES)),
    }
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
    let kind = (Codes::U4, Scales::Halves);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| blocks.words(offset_of!(Packed, q), out);
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        scales(packed).map(|scale| Scale { d: packed.d, bytes: [scale.cast_unsigned(); 2], ..Scale::ZERO })
    });
}
