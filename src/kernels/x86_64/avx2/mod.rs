//! AVX2 with FMA and F16C (Intel from Haswell, AMD from Zen).

pub mod group;
#[macro_use]
mod products;
#[macro_use]
mod tiles;
mod packed;
mod points;
pub mod rows;
mod vector;

use crate::kernels::{Isa, Kernels, Wide, expansions, numbers, scalar};
use crate::quant::packed::wide;

pub use packed::TABLE as PACKED;
pub use points::ROWS_TABLE as ROWS;

/// The table.
pub static AVX2: Kernels = Kernels {
    isa: Isa::Avx2,
    packed: packed::TABLE,
    transpose: rows::transpose,
    pack: points::TABLE,
    rows: points::ROWS_TABLE,
    numbers: numbers(vector::packed_f32),
    wide: Some(&WIDE),
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

/// Products with numbers as integers.
static WIDE: Wide = Wide {
    round: vector::round_wide,
    f16: wide(vector::pack_wide_f16),
    bf16: wide(vector::pack_wide_bf16),
    product: vector::wide_product,
    pair: None,
};

/// Whether this machine has the instructions that the functions of [`AVX2`] are compiled for.
pub fn supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}
