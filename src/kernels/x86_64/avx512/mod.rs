//! AVX-512 with its byte, word and VNNI instructions (Intel from Ice Lake, AMD from Zen 4).

mod attention;
mod elementwise;
mod packed;

use crate::kernels::{Isa, Kernels, scalar};

/// The table.
pub static AVX512: Kernels = Kernels {
    isa: Isa::Avx512,
    packed: packed::TABLE,
    gelu_tanh: elementwise::gelu_tanh,
    silu: elementwise::silu,
    gelu_mul: elementwise::gelu_mul,
    silu_mul: elementwise::silu_mul,
    attention: attention::attention,
    ..scalar::SCALAR
};

/// Whether this machine has the instructions that the functions of [`AVX512`] are compiled for.
pub fn supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("f16c")
}
