//! The step of a linear recurrence.
#![forbid(unsafe_code)]

use super::Simd;
use crate::kernels::ScanStep;

/// Vectors of columns that go through the state together.
const MANY: usize = 4;

/// See [`ScanStep`]. Some columns at a time go through all rows twice: for what the state knows, and to learn and be read.
#[inline(always)]
pub fn scan_step<S: Simd>(simd: S, step: &ScanStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let (n_k, n_v) = (step.k.len().min(step.q.len()), step.v.len().min(out.len()));
    debug_assert!(state.len() == n_k * step.v.len(), "the shapes do not fit");
    let mut first = 0;
    while first + MANY * S::LANES <= n_v {
        columns::<S, MANY>(simd, step, (n_k, n_v), first, state, out);
        first += MANY * S::LANES;
    }
    while first < n_v {
        columns::<S, 1>(simd, step, (n_k, n_v), first, state, out);
        first += S::LANES;
    }
}

/// `N` vectors of columns from `first` on; with one vector, as many of its lanes as there are columns.
#[inline(always)]
fn columns<S: Simd, const N: usize>(
    simd: S,
    step: &ScanStep<'_>,
    (n_k, n_v): (usize, usize),
    first: usize,
    state: &mut [f32],
    out: &mut [f32],
) {
    let end = n_v.min(first + N * S::LANES);
    let (decay, rate) = (simd.splat(step.decay), simd.splat(step.rate));
    // Even and odd rows have sums of their own, so that additions wait less for each other.
    let mut known = [[simd.splat(0.0); N]; 2];
    if step.delta {
        for i in 0..n_k {
            let (row, k) = (&state[i * n_v + first..i * n_v + end], simd.splat(step.k[i]));
            for (j, sum) in known[i % 2].iter_mut().enumerate() {
                *sum = simd.mul_add(k, simd.load_some(&row[j * S::LANES..], 0.0), *sum);
            }
        }
    }
    let mut learnt = [simd.splat(0.0); N];
    for (j, learnt) in learnt.iter_mut().enumerate() {
        let known = simd.add(known[0][j], known[1][j]);
        let v = simd.load_some(&step.v[first + j * S::LANES..end], 0.0);
        *learnt = simd.mul(rate, simd.neg_mul_add(decay, known, v));
    }
    let mut sums = [simd.splat(0.0); N];
    for i in 0..n_k {
        let row = &mut state[i * n_v + first..i * n_v + end];
        let (k, q) = (simd.splat(step.k[i]), simd.splat(step.q[i]));
        for j in 0..N {
            let s = simd.mul_add(k, learnt[j], simd.mul(decay, simd.load_some(&row[j * S::LANES..], 0.0)));
            let end = row.len().min((j + 1) * S::LANES);
            simd.store_some(s, &mut row[j * S::LANES..end]);
            sums[j] = simd.mul_add(q, s, sums[j]);
        }
    }
    let out = &mut out[first..end];
    for (j, sum) in sums.into_iter().enumerate() {
        let end = out.len().min((j + 1) * S::LANES);
        simd.store_some(sum, &mut out[j * S::LANES..end]);
    }
}
