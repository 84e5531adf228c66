//! Q5_1: 32 values of five bits, a scale and a minimum; value `i` is `d * q[i] + m`.
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::activation::{dot_i8, reciprocal};
use super::blocks::{dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks, put_fifth_bits};
use super::packed::{Codes, Packing, Scales, Values};
use super::q4_0::truncate;
use super::q5_0::{pack_five_bits, unpack_five_bits};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block.
pub const BYTES: usize = 24;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q5_1,
    tensor_type: 7,
    name: "Q5_1",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U5,
        values: Values::Minus(0),
        scales: Scales::F16Min,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale `d`, a binary16.
    d: [u8; 2],
    /// The minimum `m`, a binary16.
    m: [u8; 2],
    /// The upper bit of the values, value `i` in bit `i`.
    high: [u8; 4],
    /// Their lower four bits: byte `i` holds those of value `i` in its low nibble and of value `i + 16` in
    /// its high nibble.
    low: [u8; 16],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed: &Packed, values: &mut [f32; LEN]| {
        let (d, m) = (scale(packed.d), scale(packed.m));
        for (value, q) in values.iter_mut().zip(unpack_five_bits(packed.high, &packed.low)) {
            *value = d * f32::from(q) + m;
        }
    });
}

/// Packs values: 32 equal steps from the smallest to the largest value.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    pack_row(src, dst, |values: &[f32; LEN]| {
        let m = values.iter().fold(f32::INFINITY, |m, &x| m.min(x));
        let max = values.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        let d = (max - m) / 31.0;
        let inverse = reciprocal(d);
        let (high, low) = pack_five_bits(&values.map(|x| truncate((x - m) * inverse + 0.5, 31)));
        Packed { d: scale_bytes(d), m: scale_bytes(m), high, low }
    });
}

/// `Σ d·x.d · Σ q·x.q + m·x.sum` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed: &Packed, [x]: &[Q8Block; 1]| {
        let q = unpack_five_bits(packed.high, &packed.low);
        scale(packed.d) * x.d * dot_i8(&q, &x.qs) as f32 + scale(packed.m) * x.sum
    })
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U5, Scales::F16Min);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let (low, high) = out.split_at_mut(Codes::U4.bytes());
        blocks.words(offset_of!(Packed, low), low);
        let mut words = [0; _];
        blocks.words(offset_of!(Packed, high), &mut words);
        put_fifth_bits(&words, high);
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        [Scale { d: packed.d, m: packed.m, ..Scale::ZERO }]
    });
}
