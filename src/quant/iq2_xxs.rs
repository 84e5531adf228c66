//! IQ2_XXS: 256 values in eight groups, each eight values a point of a grid with an even number of minus
//! signs; value `i` of group `g` is `d * (2 * scale[g] + 1) / 8 * ±point[i]`.
//! <https://github.com/ggml-org/llama.cpp/pull/4773>
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
pub const BYTES: usize = 66;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ2_XXS,
    tensor_type: 16,
    name: "IQ2_XXS",
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
    /// Per group four point numbers and 32 bits, of which the upper four are the scale and each seven, from
    /// the lowest on, the signs of one point.
    pub groups: [[u8; 8]; 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The points.
pub(crate) static GRID: [[i8; 8]; 256] = grid::unpack(include_bytes!("iq2_xxs.bin"), &[8, 25, 43]);

#[inline]
fn unpack(packed: &Packed) -> Groups<8, 32> {
    let mut block = Groups { d: scale(packed.d) / 8.0, scales: [0; 8], q: [[0; 32]; 8] };
    for ((group, scale), q) in packed.groups.iter().zip(&mut block.scales).zip(&mut block.q) {
        let [p0, p1, p2, p3, bits @ ..] = *group;
        let bits = u32::from_le_bytes(bits);
        *scale = 2 * (bits >> 28) as i8 + 1;
        for (j, (q, point)) in q.as_chunks_mut::<8>().0.iter_mut().zip([p0, p1, p2, p3]).enumerate() {
            *q = signed_evenly(GRID[usize::from(point)], bits >> (7 * j));
        }
    }
    block
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
