//! The step of a linear recurrence.
#![forbid(unsafe_code)]

use crate::kernels::ScanStep;

/// See [`ScanStep`]. Each column of the state is by itself, and its sums run from the first row to the last.
pub(super) fn scan_step(step: &ScanStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let &ScanStep { q, k, v, decay, rate, delta } = step;
    debug_assert!(state.len() == k.len() * v.len() && out.len() == v.len(), "the shapes do not fit");
    out.fill(0.0);
    if delta {
        for (row, k) in state.chunks_exact(v.len().max(1)).zip(k) {
            out.iter_mut().zip(row).for_each(|(known, s)| *known += k * s);
        }
    }
    for (u, v) in out.iter_mut().zip(v) {
        // In the place of what comes out: it is learnt before anything is read.
        *u = rate * (v - decay * *u);
    }
    for (row, k) in state.chunks_exact_mut(v.len().max(1)).zip(k) {
        row.iter_mut().zip(&*out).for_each(|(s, u)| *s = decay * *s + k * u);
    }
    out.fill(0.0);
    for (row, q) in state.chunks_exact(v.len().max(1)).zip(q) {
        out.iter_mut().zip(row).for_each(|(out, s)| *out += q * s);
    }
}
