//! The matrix product instructions of Armv8.6-A (Cortex-A510 and A710, Neoverse V1, Apple A15 and M2 and later ones).

mod packed;

use std::arch::is_aarch64_feature_detected;

use super::dotprod::DOTPROD;
use crate::kernels::{Isa, Kernels};

/// The table.
pub static I8MM: Kernels = Kernels { isa: Isa::I8mm, packed: packed::TABLE, ..DOTPROD };

/// Whether this machine has the instructions that the functions of [`I8MM`] are compiled for.
pub fn supported() -> bool {
    super::dotprod::supported() && is_aarch64_feature_detected!("i8mm")
}
