//! MXFP4: 32 four-bit floats (E2M1) and a scale that is a power of two (E8M0), as in the OCP Microscaling
//! Formats specification 1.0
//! (<https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>); value `i` is
//! `2^(e - 127) * e2m1[q[i]]`. In GGUF files the exponent 255 is not NaN but 2^128.
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::dot_i8;
use super::blocks::{dot_row, unpack_row};
use super::grid::{E2M1_DOUBLED, look_up};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block.
pub const BYTES: usize = 17;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::MXFP4,
    tensor_type: 39,
    name: "MXFP4",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Listed(&E2M1_DOUBLED),
        scales: Scales::Bf16,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The exponent of the scale.
    e: u8,
    /// Byte `i` holds number `i` in its low nibble and number `i + 16` in its high nibble.
    q: [u8; 16],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Half the scale and twice the values.
#[inline]
fn unpack(packed: &Packed) -> (f32, [i8; LEN]) {
    (power_of_two(packed.e), look_up(&packed.q, &E2M1_DOUBLED))
}

/// `2^(e - 128)`; the two smallest are subnormal.
#[inline]
fn power_of_two(e: u8) -> f32 {
    let e = u32::from(e);
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
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
    let kind = (Codes::U4, Scales::Bf16);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| blocks.words(offset_of!(Packed, q), out);
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        [Scale { d: half::bf16::from_f32(power_of_two(packed.e)).to_le_bytes(), ..Scale::ZERO }]
    });
}
