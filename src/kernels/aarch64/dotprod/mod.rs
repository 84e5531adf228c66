//! The dot product instructions of Armv8.2-A (Cortex-A55 and A75, Apple A11 and later ones).

pub mod packed;

use std::arch::is_aarch64_feature_detected;

use super::neon::NEON;
use crate::kernels::{Isa, Kernels};

/// The table.
pub static DOTPROD: Kernels = Kernels { isa: Isa::Dotprod, packed: packed::TABLE, ..NEON };

/// Whether this machine has the instructions that the functions of [`DOTPROD`] are compiled for.
pub fn supported() -> bool {
    super::neon::supported() && is_aarch64_feature_detected!("dotprod")
}
