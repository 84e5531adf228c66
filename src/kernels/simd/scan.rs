//! The steps of linear recurrences.
#![forbid(unsafe_code)]

use super::Simd;
use super::elementwise::exp;
use crate::kernels::{ScanStep, SelectiveStep, UnlearnStep};

/// Vectors of columns that go through the state together.
const MANY: usize = 4;

/// See [`ScanStep`]. Some columns at a time go through all rows twice: first for what the state has, then to learn and be read.
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

/// See [`SelectiveStep`]. A vector has elements of one channel's state; its lanes are summed last.
#[inline(always)]
pub fn selective_step<S: Simd>(simd: S, step: &SelectiveStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let &SelectiveStep { q, k, v, step, a } = step;
    let (n, len) = (out.len().min(v.len()).min(step.len()), k.len().min(q.len()));
    debug_assert!(state.len() == a.len() && a.len() == k.len() * v.len(), "the shapes do not fit");
    for c in 0..n {
        let (state, a) = (&mut state[c * len..(c + 1) * len], &a[c * len..(c + 1) * len]);
        let (time, learnt) = (simd.splat(step[c]), simd.splat(step[c] * v[c]));
        let mut sum = simd.splat(0.0);
        let mut first = 0;
        while first < len {
            let end = len.min(first + S::LANES);
            let decay = exp(simd, simd.mul(simd.load_some(&a[first..end], 0.0), time));
            let known = simd.mul(decay, simd.load_some(&state[first..end], 0.0));
            let s = simd.mul_add(simd.load_some(&k[first..end], 0.0), learnt, known);
            simd.store_some(s, &mut state[first..end]);
            sum = simd.mul_add(simd.load_some(&q[first..end], 0.0), s, sum);
            first = end;
        }
        out[c] = simd.sum(sum);
    }
}

/// See [`UnlearnStep`]. Some columns at a time go through all rows twice: first for what the state has, then to learn and be
/// read.
#[inline(always)]
pub fn unlearn_step<S: Simd>(simd: S, step: &UnlearnStep<'_>, state: &mut [f32], out: &mut [f32]) {
    let (n_k, n_v) = (step.k.len(), step.v.len().min(out.len()));
    debug_assert!(state.len() == n_k * step.v.len(), "the shapes do not fit");
    let mut first = 0;
    while first + MANY * S::LANES <= n_v {
        unlearn_columns::<S, MANY>(simd, step, (n_k, n_v), first, state, out);
        first += MANY * S::LANES;
    }
    while first < n_v {
        unlearn_columns::<S, 1>(simd, step, (n_k, n_v), first, state, out);
        first += S::LANES;
    }
}

/// `N` vectors of columns from `first` on; with one vector, as many of its lanes as there are columns.
#[inline(always)]
fn unlearn_columns<S: Simd, const N: usize>(
    simd: S,
    step: &UnlearnStep<'_>,
    (n_k, n_v): (usize, usize),
    first: usize,
    state: &mut [f32],
    out: &mut [f32],
) {
    let end = n_v.min(first + N * S::LANES);
    // Even and odd rows have sums of their own, so that additions wait less for each other.
    let mut known = [[simd.splat(0.0); N]; 2];
    for i in 0..n_k {
        let (row, key) = (&state[i * n_v + first..i * n_v + end], simd.splat(step.known[i]));
        for (j, sum) in known[i % 2].iter_mut().enumerate() {
            *sum = simd.mul_add(key, simd.load_some(&row[j * S::LANES..], 0.0), *sum);
        }
    }
    let (mut v, mut sums) = ([simd.splat(0.0); N], [simd.splat(0.0); N]);
    for (j, v) in v.iter_mut().enumerate() {
        known[0][j] = simd.add(known[0][j], known[1][j]);
        *v = simd.load_some(&step.v[first + j * S::LANES..end], 0.0);
    }
    for i in 0..n_k {
        let row = &mut state[i * n_v + first..i * n_v + end];
        let (k, q) = (simd.splat(step.k[i]), simd.splat(step.q[i]));
        let (decay, rate) = (simd.splat(step.decay[i]), simd.splat(step.rate[i]));
        for j in 0..N {
            let learnt = simd.neg_mul_add(rate, known[0][j], simd.mul(k, v[j]));
            let s = simd.mul_add(decay, simd.load_some(&row[j * S::LANES..], 0.0), learnt);
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
