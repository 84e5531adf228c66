//! Instruction sets of x86-64 beyond its baseline.

pub mod amx;
#[macro_use]
pub mod avx2;
pub mod avx512;
pub mod avxvnni;

/// Fetches `x` from memory before it is needed.
#[inline(always)]
fn fetch<T>(x: &[T]) {
    for line in (0..size_of_val(x)).step_by(64) {
        fetch_line(x.as_ptr().cast::<i8>().wrapping_add(line));
    }
}

/// Fetches the line of memory at `address`, if there is memory.
#[inline(always)]
fn fetch_line(address: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 has the instruction, and it accesses no memory.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}
