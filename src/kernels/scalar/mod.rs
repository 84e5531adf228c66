//! The definition of every kernel, in plain Rust that the compiler can vectorise for its target.
//!
//! Sums run in a fixed order that depends on nothing but the lengths, and `exp` and `tanh` are computed in software, so
//! a result has the same bits on every machine.
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod dot;
mod norm;
pub(super) mod packed;
mod rope;

use super::{Expand, Isa, Kernels};
use crate::quant::{Dot, FORMAT_COUNT, FORMATS, quantize_activations};

/// The table of plain Rust.
pub static SCALAR: Kernels = Kernels {
    isa: Isa::Scalar,
    dot_f32: dot::dot_f32,
    dots_f32: dot::dots_f32,
    dots_f16: dot::dots_f16,
    expand: format_expansions(),
    narrow_f16: dot::narrow_f16,
    dot: format_dots(),
    packed: [None; FORMAT_COUNT],
    numbers: [None; FORMAT_COUNT],
    quantize_activations,
    rms_norm: norm::rms_norm,
    layer_norm: norm::layer_norm,
    softmax: norm::softmax,
    gelu_tanh: activation::gelu_tanh,
    gelu_erf: activation::gelu_erf,
    silu: activation::silu,
    softcap: activation::softcap,
    gelu_mul: activation::gelu_mul,
    silu_mul: activation::silu_mul,
    rope: rope::rope,
    attention: attention::attention,
};

/// The dot product that each format brings itself.
const fn format_dots() -> [Dot; FORMAT_COUNT] {
    let mut dots = [Dot::F32; FORMAT_COUNT];
    let mut i = 0;
    while i < FORMAT_COUNT {
        dots[i] = FORMATS[i].dot;
        i += 1;
    }
    dots
}

/// How each format expands a row itself.
const fn format_expansions() -> [Expand; FORMAT_COUNT] {
    let mut expand = [FORMATS[0].dequantize; FORMAT_COUNT];
    let mut i = 0;
    while i < FORMAT_COUNT {
        expand[i] = FORMATS[i].dequantize;
        i += 1;
    }
    expand
}
