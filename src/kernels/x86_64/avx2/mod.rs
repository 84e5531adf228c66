//! AVX2 with FMA and F16C (Intel from Haswell, AMD from Zen).

mod packed;

use crate::kernels::{Isa, Kernels, scalar};

/// The table.
pub static AVX2: Kernels = Kernels { isa: Isa::Avx2, packed: packed::TABLE, ..scalar::SCALAR };

/// Whether this machine has the instructions that the functions of [`AVX2`] are compiled for.
pub fn supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}
