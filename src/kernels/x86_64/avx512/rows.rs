//! Words of sixteen rows side by side.

use std::arch::x86_64::*;

use crate::kernels::x86_64::avx2::rows::fetch_next_rows;
use crate::quant::pack::{RUN, Rows, transpose_runs};

/// See [`crate::kernels::Kernels::transpose`].
pub fn transpose(rows: &Rows<'_>, at: usize, out: &mut [u8]) {
    // SAFETY: this function is reached through the tables of this level only, which are handed out on machines that have its
    // instructions.
    transpose_runs(rows, at, out, |bytes, row_bytes, runs| unsafe {
        whole_runs::<true>(bytes, row_bytes, runs)
    });
}

/// Sixteen bytes of sixteen rows, each `row_bytes` after the one before, for each run. The next rows are fetched if `FETCHES`.
#[target_feature(enable = "avx512f")]
pub(super) fn whole_runs<const FETCHES: bool>(bytes: &[u8], row_bytes: usize, runs: &mut [[u8; RUN]]) {
    let end = row_bytes.saturating_mul(15).saturating_add(16 * runs.len());
    assert!(end <= bytes.len(), "the rows end too early");
    for (i, run) in runs.iter_mut().enumerate() {
        if FETCHES {
            fetch_next_rows(bytes, row_bytes, i);
        }
        // SAFETY: the last row has 16 bytes for each run, and so have those before it.
        let row =
            |r: usize| unsafe { _mm_loadu_si128(bytes.as_ptr().wrapping_add(r * row_bytes + 16 * i).cast()) };
        // Rows `r`, `r + 4`, `r + 8` and `r + 12`.
        let four = |r: usize| {
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(r)), row(r + 4));
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(r + 8)), row(r + 12));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        let [a, b, c, d] = [four(0), four(1), four(2), four(3)];
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ba, dc) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        let quads = [
            _mm512_unpacklo_epi64(ab, cd),
            _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ba, dc),
            _mm512_unpackhi_epi64(ba, dc),
        ];
        for (out, quad) in run.as_chunks_mut::<64>().0.iter_mut().zip(quads) {
            // SAFETY: there is space for 64 bytes.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), quad) };
        }
    }
}
