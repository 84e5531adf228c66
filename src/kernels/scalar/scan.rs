//! The steps of linear recurrences.
#![forbid(unsafe_code)]

use crate::kernels::{ScanStep, SelectiveStep, UnlearnStep};

/// See [`ScanStep`]. Columns of the state are independent, and their sums run from the first row to the last.
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
        // Stored in `out`: learning comes before reading.
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

/// See [`SelectiveStep`]. Channels are independent, and their sums run from the first element to the last.
pub(super) fn selective_step(step: &SelectiveStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let &SelectiveStep { q, k, v, step, a } = step;
    debug_assert!(state.len() == a.len() && a.len() == k.len() * v.len(), "the shapes do not fit");
    out.fill(0.0);
    let (states, a) = (state.chunks_exact_mut(k.len().max(1)), a.chunks_exact(k.len().max(1)));
    for ((out, (state, a)), (v, step)) in out.iter_mut().zip(states.zip(a)).zip(v.iter().zip(step)) {
        let learnt = step * v;
        for ((s, a), (q, k)) in state.iter_mut().zip(a).zip(q.iter().zip(k)) {
            *s = libm::expf(a * step) * *s + k * learnt;
            *out += q * *s;
        }
    }
}

/// See [`UnlearnStep`]. Columns of the state are independent, and their sums run from the first row to the last.
pub(super) fn unlearn_step(step: &UnlearnStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let &UnlearnStep { q, k, v, decay, known, rate } = step;
    debug_assert!(state.len() == k.len() * v.len() && out.len() == v.len(), "the shapes do not fit");
    let n_v = v.len().max(1);
    out.fill(0.0);
    for (row, known) in state.chunks_exact(n_v).zip(known) {
        out.iter_mut().zip(row).for_each(|(sum, s)| *sum += known * s);
    }
    for (i, row) in state.chunks_exact_mut(n_v).enumerate() {
        let (decay, k, rate) = (decay[i], k[i], rate[i]);
        for ((s, v), known) in row.iter_mut().zip(v).zip(&*out) {
            *s = decay * *s + (k * v - rate * known);
        }
    }
    out.fill(0.0);
    for (row, q) in state.chunks_exact(n_v).zip(q) {
        out.iter_mut().zip(row).for_each(|(out, s)| *out += q * s);
    }
}
