//! IQ2_S: 256 values in sixteen groups of two grid points each, with any signs; value `i` of group `g` is `d
//! * (2 * scale[g] + 1) / 8 * ±point[i]`. <https://github.com/ggml-org/llama.cpp/pull/5721>
#![forbid(unsafe_code)]

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::grid::{self, signed};
use super::iq2_xs::odd_scales;
use super::pack::{Rows, Transpose, pack_groups};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 82;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ2_S,
    tensor_type: 22,
    name: "IQ2_S",
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
    /// The lower eight bits of the point numbers.
    pub low: [u8; 32],
    /// A bit per value, set for minus.
    pub signs: [u8; 32],
    /// Two more bits of each point number, four points to a byte, the first lowest.
    pub high: [u8; 8],
    /// A nibble per group, the lower first.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The points.
pub(crate) static GRID: [[i8; 8]; 1024] = grid::unpack(include_bytes!("iq2_s.bin"), &[8, 25, 43]);

#[inline]
fn unpack(packed: &Packed) -> Groups<16, 16> {
    let mut q = [[0; 8]; 32];
    for (i, q) in q.iter_mut().enumerate() {
        let high = usize::from(packed.high[i / 4] >> (i % 4 * 2) & 3);
        *q = signed(GRID[usize::from(packed.low[i]) | high << 8], packed.signs[i]);
    }
    Groups { d: scale(packed.d) / 8.0, scales: odd_scales(&packed.scales), q: bytemuck::cast(q) }
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
