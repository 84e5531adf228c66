//! The definition of every kernel, in plain Rust that the compiler can vectorise for its target.
//!
//! Sums run in a fixed order that depends on the lengths alone, and `exp` and `tanh` are computed in software, so a result has
//! the same bits on every machine.
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod dot;
pub(super) mod int16;
pub(super) mod norm;
pub(super) mod packed;
mod rope;
mod scan;
pub mod wide;

use half::f16;

use super::{Expand, Isa, Kernels};
use crate::quant::pack::transpose;
use crate::quant::{Dot, FORMAT_COUNT, FORMATS, q8_0, quantize_activations};

/// The table of plain Rust.
pub static SCALAR: Kernels = Kernels {
    isa: Isa::Scalar,
    dot_f32: dot::dot_f32,
    dots_f32: dot::dots_f32,
    dots_f16: dot::dots_f16,
    expand: format_expansions(),
    narrow_f16: dot::narrow_f16,
    narrow_q8_0,
    unit_i16: int16::unit_i16,
    narrow_i16: int16::narrow_i16,
    dot: format_dots(),
    packed: [None; FORMAT_COUNT],
    pairs: [None; FORMAT_COUNT],
    numbers: [None; FORMAT_COUNT],
    wide: None,
    transpose,
    pack: [None; FORMAT_COUNT],
    rows: [None; FORMAT_COUNT],
    layouts: &[None; FORMAT_COUNT],
    quantize_activations,
    rms_norm: norm::rms_norm,
    layer_norm: norm::layer_norm,
    gelu_tanh: activation::gelu_tanh,
    gelu_erf: activation::gelu_erf,
    silu: activation::silu,
    softcap: activation::softcap,
    gelu_mul: activation::gelu_mul,
    gelu_erf_mul: activation::gelu_erf_mul,
    silu_mul: activation::silu_mul,
    sigmoid_mul: activation::sigmoid_mul,
    swiglu_clamped_mul: activation::swiglu_clamped_mul,
    rope: rope::rope,
    scan_step: scan::scan_step,
    selective_step: scan::selective_step,
    unlearn_step: scan::unlearn_step,
    attention: attention::attention,
};

/// See [`Kernels::narrow_q8_0`].
fn narrow_q8_0(x: &[f32], codes: &mut [i8], scales: &mut [f16]) {
    let blocks = x.as_chunks::<{ q8_0::LEN }>().0.iter().zip(codes.as_chunks_mut::<{ q8_0::LEN }>().0);
    for ((x, codes), scale) in blocks.zip(scales) {
        let mut bytes = [0; q8_0::BYTES];
        q8_0::quantize(x, &mut bytes);
        let [d0, d1, qs @ ..] = bytes;
        *scale = f16::from_le_bytes([d0, d1]);
        *codes = qs.map(u8::cast_signed);
    }
}

/// The dot product of each format's own file.
const fn format_dots() -> [Dot; FORMAT_COUNT] {
    let mut dots = [Dot::F32; FORMAT_COUNT];
    let mut i = 0;
    while i < FORMAT_COUNT {
        dots[i] = FORMATS[i].dot;
        i += 1;
    }
    dots
}

/// Each format's own expansion of a row.
const fn format_expansions() -> [Expand; FORMAT_COUNT] {
    let mut expand = [FORMATS[0].dequantize; FORMAT_COUNT];
    let mut i = 0;
    while i < FORMAT_COUNT {
        expand[i] = FORMATS[i].dequantize;
        i += 1;
    }
    expand
}
