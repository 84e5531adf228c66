//! IQ1_S: 256 values in eight groups, each eight values a point of a grid of -1, 0 and 1, shifted by an
//! eighth up or down; value `i` of group `g` is `d * (2 * scale[g] + 1) * (point[i] ± 1/8)`.
//! <https://github.com/ggml-org/llama.cpp/pull/5453>
#![forbid(unsafe_code)]

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::grid;
use super::pack::{Rows, Transpose, pack_groups};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 50;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ1_S,
    tensor_type: 19,
    name: "IQ1_S",
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
    pub low: [[u8; 4]; 8],
    /// Per group three more bits of each of its four point numbers, the first lowest, three bits of scale,
    /// and a bit that is set when the shift is down.
    pub groups: [[u8; 2]; 8],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// The points.
pub(crate) const GRID: [[i8; 8]; 2048] = grid::unpack(include_bytes!("iq1_s.bin"), &[-1, 0, 1]);

/// The points in eighths, plus 128.
pub(crate) static EIGHTHS: [[u8; 8]; 2048] = {
    let grid = &GRID;
    let mut eighths = [[0; 8]; 2048];
    let mut i = 0;
    while i < 8 * grid.len() {
        eighths[i / 8][i % 8] = (128 + 8 * grid[i / 8][i % 8] as i16) as u8;
        i += 1;
    }
    eighths
};

/// A shifted point, in eighths. Of the number the lowest eleven bits count.
#[inline]
pub(super) fn shifted(point: usize, down: bool) -> [i8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let point = u64::from_ne_bytes(EIGHTHS[point & 2047]);
    // Nothing is carried from byte to byte.
    let shifted = if down { point - ONES } else { point + ONES };
    (shifted ^ (128 * ONES)).to_ne_bytes().map(u8::cast_signed)
}

#[inline]
fn unpack(packed: &Packed) -> Groups<8, 32> {
    let mut block = Groups { d: scale(packed.d) / 8.0, scales: [0; 8], q: [[0; 32]; 8] };
    let groups = block.q.iter_mut().zip(&mut block.scales);
    for ((q, scale), (low, bits)) in groups.zip(packed.low.iter().zip(packed.groups)) {
        let bits = u16::from_le_bytes(bits);
        *scale = 2 * (bits >> 12 & 7) as i8 + 1;
        for (j, (q, &low)) in q.as_chunks_mut::<8>().0.iter_mut().zip(low).enumerate() {
            *q = shifted(usize::from(low) | usize::from(bits >> (3 * j) & 7) << 8, bits >> 15 == 1);
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
