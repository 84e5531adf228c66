//! IQ4_NL: 32 four-bit numbers, which stand for sixteen unequally spaced values, and a scale; value `i` is `d
//! * VALUES[q[i]]`. <https://github.com/ggml-org/llama.cpp/pull/5590>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::dot_i8;
use super::blocks::{dot_row, unpack_row};
use super::f16::scale;
use super::grid::{IQ4_VALUES, look_up};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block.
pub const BYTES: usize = 18;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::IQ4_NL,
    tensor_type: 20,
    name: "IQ4_NL",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Listed(&IQ4_VALUES),
        scales: Scales::F16,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// Byte `i` holds number `i` in its low nibble and number `i + 16` in its high nibble.
    q: [u8; 16],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

#[inline]
fn unpack(packed: &Packed) -> (f32, [i8; LEN]) {
    (scale(packed.d), look_up(&packed.q, &IQ4_VALUES))
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values: &mut [f32; LEN]| {
        let (d, q) = unpack(packed);
        for (value, q) in values.iter_mut().zip(q) {
            *value = d * f32::from(q);
        }
    });
}

/// `Σ d·x.d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, [x]: &[Q8Block; 1]| {
        let (d, q) = unpack(packed);
        d * x.d * dot_i8(&q, &x.qs) as f32
    })
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U4, Scales::F16);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| blocks.words(offset_of!(Packed, q), out);
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| [Scale { d: packed.d, ..Scale::ZERO }]);
}
