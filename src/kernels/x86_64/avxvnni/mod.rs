//! AVX2 with VNNI, the dot products of bytes: processors without AVX-512 (Intel from Alder Lake).

mod packed;

use super::avx2::{self, AVX2};
use crate::kernels::{Isa, Kernels};

/// The table.
pub static AVXVNNI: Kernels = Kernels { isa: Isa::AvxVnni, packed: packed::TABLE, ..AVX2 };

/// Whether this machine has the instructions that the functions of [`AVXVNNI`] are compiled for.
pub fn supported() -> bool {
    avx2::supported() && is_x86_feature_detected!("avxvnni")
}
