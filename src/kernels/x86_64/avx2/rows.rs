//! Words of sixteen rows side by side.

use std::arch::x86_64::*;

use crate::kernels::x86_64::fetch_line;
use crate::quant::pack::{RUN, Rows, transpose_runs};
use crate::quant::packed::ROWS;

/// See [`crate::kernels::Kernels::transpose`].
pub fn transpose(rows: &Rows<'_>, at: usize, out: &mut [u8]) {
    // SAFETY: this function is reached through the tables of this level and those above only, which are handed out on machines that have its
    // instructions.
    transpose_runs(rows, at, out, |bytes, row_bytes, runs| unsafe { whole_runs(bytes, row_bytes, runs) });
}

/// Fetches bytes from `16i` on of the sixteen rows that come next, whose streams are too short for the processor's own
/// prefetching: with every other run, since two runs are half a line.
#[inline(always)]
pub fn fetch_next_rows(bytes: &[u8], row_bytes: usize, i: usize) {
    for r in (ROWS..2 * ROWS).filter(|_| i.is_multiple_of(2)) {
        fetch_line::<_MM_HINT_T0>(bytes.as_ptr().cast::<i8>().wrapping_add(r * row_bytes + 16 * i));
    }
}

/// Sixteen bytes of sixteen rows, each `row_bytes` after the one before, for each run.
#[target_feature(enable = "avx2")]
fn whole_runs(bytes: &[u8], row_bytes: usize, runs: &mut [[u8; RUN]]) {
    let end = row_bytes.saturating_mul(15).saturating_add(16 * runs.len());
    assert!(end <= bytes.len(), "the rows end too early");
    for (i, run) in runs.iter_mut().enumerate() {
        fetch_next_rows(bytes, row_bytes, i);
        // SAFETY: the last row has 16 bytes for each run, and so have those before it.
        let row =
            |r: usize| unsafe { _mm_loadu_si128(bytes.as_ptr().wrapping_add(r * row_bytes + 16 * i).cast()) };
        for first in [0, 8] {
            let two = |r: usize| {
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(first + r)), row(first + r + 4))
            };
            let [a, b, c, d] = [two(0), two(1), two(2), two(3)];
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ba, dc) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            let halves = [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ba, dc),
                _mm256_unpackhi_epi64(ba, dc),
            ];
            for (j, half) in halves.into_iter().enumerate() {
                let out = &mut run[64 * j + 4 * first..][..32];
                // SAFETY: there is space for 32 bytes.
                unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
            }
        }
    }
}
