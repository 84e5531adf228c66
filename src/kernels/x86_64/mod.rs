//! Instruction sets of x86-64 beyond its baseline.

pub mod avx2;
pub mod avx512;
