//! IQ1_M: 256 values in sixteen groups of two points each of the grid of IQ1_S, each point shifted by an
//! eighth up or down; value `i` of group `g` is `d * (2 * scale[g] + 1) * (point[i] ± 1/8)`.
//! <https://github.com/ggml-org/llama.cpp/pull/6302>
#![forbid(unsafe_code)]

use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::iq1_s::shifted;
use super::pack::{Rows, Transpose, pack_groups};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 56;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ1_M,
    tensor_type: 29,
    name: "IQ1_M",
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
    /// The lower eight bits of the point numbers.
    pub low: [u8; 32],
    /// A nibble per point, the lower first: three more bits of its number, and a bit that is set when the
    /// shift is down.
    pub high: [u8; 16],
    /// Four scales of three bits, the first lowest, and a nibble of the scale `d`, a binary16, its lowest
    /// nibble first.
    pub scales: [[u8; 2]; 4],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

impl Packed {
    /// The scale `d`, a binary16.
    #[inline]
    pub fn unit(&self) -> [u8; 2] {
        self.scales.iter().rev().fold(0, |d, word| d << 4 | u16::from_le_bytes(*word) >> 12).to_le_bytes()
    }
}

#[inline]
fn unpack(packed: &Packed) -> Groups<16, 16> {
    let mut q = [[0; 8]; 32];
    for (i, (q, low)) in q.iter_mut().zip(packed.low).enumerate() {
        let high = packed.high[i / 2] >> (i % 2 * 4);
        *q = shifted(usize::from(low) | usize::from(high & 7) << 8, high & 8 != 0);
    }
    let words = packed.scales.map(u16::from_le_bytes);
    let odd = |g: usize| 2 * (words[g / 4] >> (g % 4 * 3) & 7) as i8 + 1;
    Groups { d: scale(packed.unit()) / 8.0, scales: std::array::from_fn(odd), q: bytemuck::cast(q) }
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
