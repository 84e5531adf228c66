//! Prefetching of attention. Processors prefetch contiguous memory by themselves, but they stop at the end of a memory page,
//! where many blocks end.
#![forbid(unsafe_code)]

use super::{LINE, Simd};
use crate::kernels::attention::PAGE_LEN;

/// Bytes of a block's units.
const UNITS_BYTES: usize = PAGE_LEN * size_of::<f32>();

/// Blocks of integers.
#[derive(Clone, Copy)]
pub struct NextBlocks<'a> {
    /// The block that is multiplied next.
    pub next: &'a [u8],
    /// The block after it: memory takes longer to deliver it than one block takes to multiply. It goes into the second-level
    /// cache first.
    pub then: &'a [u8],
}

impl NextBlocks<'_> {
    /// Fetches their units.
    #[inline(always)]
    pub fn fetch_units<S: Simd>(self, simd: S) {
        let codes = self.next.len().saturating_sub(UNITS_BYTES);
        for line in (0..UNITS_BYTES).step_by(LINE) {
            simd.prefetch_soon(self.next, codes + line);
            simd.prefetch_line(self.then, codes + line);
        }
    }

    /// Fetches as many of their codes as two vectors of pairs have, `step` times as far from the beginning.
    #[inline(always)]
    pub fn fetch_step<S: Simd>(self, simd: S, step: usize) {
        let bytes = 2 * S::LANES * size_of::<[i16; 2]>();
        for line in (0..bytes).step_by(LINE) {
            simd.prefetch_soon(self.next, step * bytes + line);
            simd.prefetch_line(self.then, step * bytes + line);
        }
    }
}
