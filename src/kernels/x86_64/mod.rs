//! Instruction sets of x86-64 beyond its baseline.

pub mod amx;
pub mod avx2;
pub mod avx512;

/// Fetches `x` from memory before it is needed.
#[inline(always)]
fn fetch<T>(x: &[T]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let first = x.as_ptr().cast::<i8>();
    for line in (0..size_of_val(x)).step_by(64) {
        // SAFETY: every x86-64 has the instruction, and it accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
    }
}
