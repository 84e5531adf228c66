//! Instruction sets of x86-64 beyond its baseline.

pub mod amx;
#[macro_use]
pub mod avx2;
pub mod avx512;
pub mod avxvnni;
mod wide;

use std::arch::x86_64::_mm_prefetch;

/// Fetches the line of memory at `address`, if there is memory, into the cache that `HINT` says.
#[inline(always)]
fn fetch_line<const HINT: i32>(address: *const i8) {
    // SAFETY: every x86-64 has the instruction, and it accesses no memory.
    unsafe { _mm_prefetch::<HINT>(address) };
}
