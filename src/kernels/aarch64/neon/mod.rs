//! Advanced SIMD, which nearly every 64-bit Arm processor has.

mod packed;
mod rows;
mod vector;

use std::arch::is_aarch64_feature_detected;

use crate::kernels::{Isa, Kernels, expansions, numbers, scalar};

/// The table.
pub static NEON: Kernels = Kernels {
    isa: Isa::Neon,
    packed: packed::TABLE,
    transpose: rows::transpose,
    numbers: numbers(vector::packed_f32, vector::packed_f16, vector::packed_bf16),
    dot_f32: vector::dot_f32,
    dots_f32: vector::dots_f32,
    dots_f16: vector::dots_f16,
    narrow_f16: vector::narrow_f16,
    narrow_q8_0: vector::narrow_q8_0,
    unit_i16: vector::unit_i16,
    narrow_i16: vector::narrow_i16,
    expand: expansions(vector::expand_f16, vector::expand_bf16),
    quantize_activations: vector::quantize_activations,
    rms_norm: vector::rms_norm,
    gelu_tanh: vector::gelu_tanh,
    silu: vector::silu,
    gelu_mul: vector::gelu_mul,
    gelu_erf: vector::gelu_erf,
    gelu_erf_mul: vector::gelu_erf_mul,
    silu_mul: vector::silu_mul,
    sigmoid_mul: vector::sigmoid_mul,
    swiglu_clamped_mul: vector::swiglu_clamped_mul,
    scan_step: vector::scan_step,
    selective_step: vector::selective_step,
    unlearn_step: vector::unlearn_step,
    rope: vector::rope,
    attention: vector::attention,
    ..scalar::SCALAR
};

/// Whether this machine has the instructions that the functions of [`NEON`] are compiled for.
pub fn supported() -> bool {
    is_aarch64_feature_detected!("neon")
}
