//! IQ2_XS: 256 values in sixteen groups of two grid points each, with an even number of minus signs per
//! point; value `i` of group `g` is `d * (2 * scale[g] + 1) / 8 * ±point[i]`.
//! <https://github.com/ggml-org/llama.cpp/pull/4856>
#![forbid(unsafe_code)]

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::grid::{self, signed_evenly};
use super::pack::{Rows, Transpose, pack_groups};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 74;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ2_XS,
    tensor_type: 17,
    name: "IQ2_XS",
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
const PARTS: u8 = 8;

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Packed {
    /// The scale `d`, a binary16.
    pub d: [u8; 2],
    /// The lower nine bits are a point number and the upper seven its signs.
    pub points: [[u8; 2]; 32],
    /// A nibble per group, the lower first.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The points.
pub(crate) static GRID: [[i8; 8]; 512] = grid::unpack(include_bytes!("iq2_xs.bin"), &[8, 25, 43]);

#[inline]
fn unpack(packed: &Packed) -> Groups<16, 16> {
    let mut q = [[0; 8]; 32];
    for (q, point) in q.iter_mut().zip(packed.points) {
        let bits = u16::from_le_bytes(point);
        *q = signed_evenly(GRID[usize::from(bits & 511)], u32::from(bits >> 9));
    }
    Groups { d: scale(packed.d) / 8.0, scales: odd_scales(&packed.scales), q: bytemuck::cast(q) }
}

/// Sixteen scales of four bits, as odd numbers `2 * scale + 1`.
#[inline]
pub(super) fn odd_scales(nibbles: &[u8; 8]) -> [i8; 16] {
    std::array::from_fn(|g| 2 * (nibbles[g / 2] >> (g % 2 * 4) & 15).cast_signed() + 1)
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
