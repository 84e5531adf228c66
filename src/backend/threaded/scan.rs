//! Linear recurrences, a head for each task, or some heads of one element.

use std::ops::Range;

use super::super::{Pace, Scan, ScanRule, StateRun};
use super::ThreadedBackend;
use super::rows_per_task;
use crate::backend::cpu::{normalise, sigmoid, softplus};
use crate::backend::host::{HostPass, HostStates};
use crate::kernels::{Kernels, ScanStep, SelectiveStep, UnlearnStep};
use crate::threads::{DisjointMut, ThreadPool};

/// See [`crate::backend::Backend::scan`].
pub(super) fn run(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    pass: &HostPass,
    args: Scan<'_, ThreadedBackend>,
) {
    if let ScanRule::Selective { .. } = args.rule {
        return selective(kernels, pool, pass, args);
    }
    let (row_len, n_head, n_head_k) = (args.row_len(), args.n_head, args.n_head_k);
    let (k_dim, v_dim) = (args.k_dim, args.v_dim);
    let head_k = |head| match args.grouped {
        true => head / (n_head / n_head_k),
        false => head % n_head_k,
    };
    let Scan { states, state, qkv, first, rule, out, .. } = args;
    let (runs, plan) = (&pass.runs, pass.states());
    let n_rows = runs.iter().map(|run| run.first + run.len).max().unwrap_or(0);
    if let ScanRule::Delta { .. } = rule {
        let rows = rows_per_task(n_rows, 2 * n_head_k * k_dim, pool.n_threads());
        let factors = [(first[0], 1.0 / (k_dim as f64).sqrt()), (first[1], 1.0)];
        pool.for_parts(&mut qkv[..n_rows * row_len], rows * row_len, |_, qkv| {
            for row in qkv.chunks_exact_mut(row_len) {
                for (first, factor) in factors {
                    let heads = row[first..first + n_head_k * k_dim].chunks_exact_mut(k_dim);
                    heads.for_each(|head| normalise(head, factor));
                }
            }
        });
    }
    let qkv = &**qkv;
    let place = Place::of(states, state, k_dim * v_dim);
    let (values, out) = (DisjointMut::new(states.values_mut()), DisjointMut::new(out));
    pool.run(n_head, &|_, head| {
        let head_k = head_k(head);
        for (run, slots) in runs.iter().zip(plan.runs) {
            // SAFETY: no other task has this head, and no part of its states is borrowed.
            let s = unsafe { values.slice(place.at(slots.to, head..head + 1)) };
            place.begin(&values, slots, head..head + 1, s);
            let mut copies = plan.copies_of(run).iter().peekable();
            for row in run.first..run.first + run.len {
                if pass.stop.says_so() {
                    return;
                }
                let at =
                    |first: usize, head: usize, dim: usize| &qkv[row * row_len + first + head * dim..][..dim];
                let (q, k) = (at(first[0], head_k, k_dim), at(first[1], head_k, k_dim));
                let (v, place_of) = (at(first[2], head, v_dim), row * n_head + head);
                // SAFETY: tasks have different heads, so their parts of the rows do not overlap.
                let out = unsafe { out.slice(place_of * v_dim..(place_of + 1) * v_dim) };
                let time_step = |pace: &Pace<'_, ThreadedBackend>| {
                    softplus(pace.step[place_of] + pace.bias.f32s()[head]).max(pace.least)
                };
                let decay =
                    |pace: &Pace<'_, ThreadedBackend>, time: f32| libm::expf(pace.a.f32s()[head] * time);
                match &rule {
                    ScanRule::Delta { pace, rate } => {
                        let (rate, decay) = (sigmoid(rate[place_of]), decay(pace, time_step(pace)));
                        (kernels.scan_step)(&ScanStep { q, k, v, decay, rate, delta: true }, s, out);
                    }
                    ScanRule::TimeStep { pace, skip } => {
                        let rate = time_step(pace);
                        let decay = decay(pace, rate);
                        (kernels.scan_step)(&ScanStep { q, k, v, decay, rate, delta: false }, s, out);
                        let skip = skip.f32s()[head];
                        out.iter_mut().zip(v).for_each(|(out, v)| *out += skip * v);
                    }
                    ScanRule::Unlearn { decay, known, rate } => {
                        let [decay, known, rate] =
                            [decay, known, rate].map(|x| &x[place_of * k_dim..][..k_dim]);
                        (kernels.unlearn_step)(&UnlearnStep { q, k, v, decay, known, rate }, s, out);
                    }
                    // [`selective`] has these.
                    ScanRule::Selective { .. } => {}
                }
                while let Some(copy) = copies.next_if(|copy| copy.row as usize == row) {
                    place.keep(&values, copy.to, head..head + 1, s);
                }
            }
        }
    });
}

/// Heads of one element that a task has.
const TOGETHER: usize = 32;

/// Those of [`ScanRule::Selective`].
fn selective(kernels: &Kernels, pool: &mut ThreadPool, pass: &HostPass, args: Scan<'_, ThreadedBackend>) {
    let (row_len, n_head, k_dim, first) = (args.row_len(), args.n_head, args.k_dim, args.first);
    debug_assert!(args.v_dim == 1 && args.n_head_k == 1, "heads of one element have one key");
    let ScanRule::Selective { pace, skip } = args.rule else { return };
    let Pace { step, least, .. } = pace;
    let Scan { states, state, qkv, out, .. } = args;
    let (runs, plan) = (&pass.runs, pass.states());
    let (qkv, bias, a, skip) = (&**qkv, pace.bias.f32s(), pace.a.f32s(), skip.f32s());
    let place = Place::of(states, state, k_dim);
    let (values, out) = (DisjointMut::new(states.values_mut()), DisjointMut::new(out));
    pool.run(n_head.div_ceil(TOGETHER), &|_, task| {
        let heads = task * TOGETHER..n_head.min((task + 1) * TOGETHER);
        let n = heads.len();
        for (run, slots) in runs.iter().zip(plan.runs) {
            // SAFETY: no other task has these heads, and no part of their states is borrowed.
            let s = unsafe { values.slice(place.at(slots.to, heads.clone())) };
            place.begin(&values, slots, heads.clone(), s);
            let mut copies = plan.copies_of(run).iter().peekable();
            for row in run.first..run.first + run.len {
                if pass.stop.says_so() {
                    return;
                }
                let at = row * n_head + heads.start;
                let mut times = [0.0; TOGETHER];
                let biased = step[at..at + n].iter().zip(&bias[heads.clone()]);
                for (time, (step, bias)) in times.iter_mut().zip(biased) {
                    *time = softplus(step + bias).max(least);
                }
                let qkv = &qkv[row * row_len..(row + 1) * row_len];
                let v = &qkv[first[2]..][heads.clone()];
                let (q, k) = (&qkv[first[0]..][..k_dim], &qkv[first[1]..][..k_dim]);
                let a = &a[heads.start * k_dim..heads.end * k_dim];
                // SAFETY: tasks have different heads, so their parts of the rows do not overlap.
                let out = unsafe { out.slice(at..at + n) };
                (kernels.selective_step)(&SelectiveStep { q, k, v, step: &times[..n], a }, s, out);
                for ((out, v), skip) in out.iter_mut().zip(v).zip(&skip[heads.clone()]) {
                    *out += skip * v;
                }
                while let Some(copy) = copies.next_if(|copy| copy.row as usize == row) {
                    place.keep(&values, copy.to, heads.clone(), s);
                }
            }
        }
    });
}

/// Where the states of heads lie in each slot.
struct Place {
    first: usize,
    slot_len: usize,
    head_len: usize,
}

impl Place {
    fn of(states: &HostStates, state: usize, head_len: usize) -> Place {
        let first = states.range(0, state).start;
        Place { first, slot_len: states.range(1, state).start - first, head_len }
    }

    fn at(&self, slot: u32, heads: Range<usize>) -> Range<usize> {
        let start = slot as usize * self.slot_len + self.first;
        start + heads.start * self.head_len..start + heads.end * self.head_len
    }

    /// Sets `s`, the place of the state after a run, to the state before the run.
    fn begin(&self, values: &DisjointMut<'_, f32>, slots: &StateRun, heads: Range<usize>, s: &mut [f32]) {
        match slots.from {
            None => s.fill(0.0),
            Some(from) if from == slots.to => {}
            // SAFETY: no other task has these heads, and `s` lies in another slot.
            Some(from) => s.copy_from_slice(unsafe { values.slice(self.at(from, heads)) }),
        }
    }

    /// Copies the heads' states to `slot`, which no run reads or writes.
    fn keep(&self, values: &DisjointMut<'_, f32>, slot: u32, heads: Range<usize>, s: &[f32]) {
        // SAFETY: no other task has these heads, and `s` lies in another slot.
        unsafe { values.slice(self.at(slot, heads)) }.copy_from_slice(s);
    }
}
