//! Instruction sets of x86-64 beyond its baseline.

pub mod avx512;
