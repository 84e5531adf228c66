//! Words of sixteen rows side by side.

use std::arch::aarch64::*;

use super::vector::fetch_line;
use crate::quant::pack::{RUN, Rows, transpose_runs};
use crate::quant::packed::ROWS;

/// See [`crate::kernels::Kernels::transpose`].
pub fn transpose(rows: &Rows<'_>, at: usize, out: &mut [u8]) {
    // SAFETY: this function is reached through the tables of this level and those above only, which are handed out on machines that have its
    // instructions.
    transpose_runs(rows, at, out, |bytes, row_bytes, runs| unsafe { whole_runs(bytes, row_bytes, runs) });
}

/// Sixteen bytes of sixteen rows, each `row_bytes` after the one before, for each run.
#[target_feature(enable = "neon")]
fn whole_runs(bytes: &[u8], row_bytes: usize, runs: &mut [[u8; RUN]]) {
    let end = row_bytes.saturating_mul(15).saturating_add(16 * runs.len());
    assert!(end <= bytes.len(), "the rows end too early");
    for (i, run) in runs.iter_mut().enumerate() {
        // From the sixteen rows that come next, with every other run, since two runs are half a line.
        for r in (ROWS..2 * ROWS).filter(|_| i.is_multiple_of(2)) {
            fetch_line(bytes.as_ptr().wrapping_add(r * row_bytes + 16 * i));
        }
        let row = |r: usize| {
            let from = bytes.as_ptr().wrapping_add(r * row_bytes + 16 * i);
            // SAFETY: the last row has 16 bytes for each run, and so have those before it.
            vreinterpretq_u32_u8(unsafe { vld1q_u8(from) })
        };
        for first in (0..16).step_by(4) {
            let [a, b, c, d] = [row(first), row(first + 1), row(first + 2), row(first + 3)];
            let [ab, cd] = [vtrn1q_u32(a, b), vtrn1q_u32(c, d)].map(|x| vreinterpretq_u64_u32(x));
            let [ba, dc] = [vtrn2q_u32(a, b), vtrn2q_u32(c, d)].map(|x| vreinterpretq_u64_u32(x));
            let quarters = [vtrn1q_u64(ab, cd), vtrn1q_u64(ba, dc), vtrn2q_u64(ab, cd), vtrn2q_u64(ba, dc)];
            for (j, quarter) in quarters.into_iter().enumerate() {
                let (out, quarter) = (&mut run[64 * j + 4 * first..][..16], vreinterpretq_u8_u64(quarter));
                // SAFETY: there is space for 16 bytes.
                unsafe { vst1q_u8(out.as_mut_ptr(), quarter) };
            }
        }
    }
}
