//! Linear recurrences, a head for each task.

use super::super::{Scan, ScanRule, StateRun};
use super::ThreadedBackend;
use super::rows_per_task;
use crate::backend::cpu::{normalise, sigmoid, softplus};
use crate::backend::host::{HostPass, HostStates};
use crate::kernels::{Kernels, ScanStep};
use crate::threads::{DisjointMut, ThreadPool};

/// See [`crate::backend::Backend::scan`].
pub(super) fn run(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    pass: &HostPass,
    args: Scan<'_, ThreadedBackend>,
) {
    let (row_len, n_head, n_head_k) = (args.row_len(), args.n_head, args.n_head_k);
    let (k_dim, v_dim) = (args.k_dim, args.v_dim);
    let head_k = |head| match args.grouped {
        true => head / (n_head / n_head_k),
        false => head % n_head_k,
    };
    let Scan { states, state, qkv, first, step, step_bias, least_step, a, rule, out, .. } = args;
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
    let (qkv, step_bias, a) = (&**qkv, step_bias.f32s(), a.f32s());
    let place = Place::of(states, state, k_dim * v_dim);
    let (values, out) = (DisjointMut::new(states.values_mut()), DisjointMut::new(out));
    pool.run(n_head, &|_, head| {
        let head_k = head_k(head);
        for (run, slots) in runs.iter().zip(plan.runs) {
            // SAFETY: no other task has this head, and no part of its states is borrowed.
            let s = unsafe { values.slice(place.at(slots.to, head)) };
            place.begin(&values, slots, head, s);
            let mut copies = plan.copies_of(run).iter().peekable();
            for row in run.first..run.first + run.len {
                if pass.stop.says_so() {
                    return;
                }
                let at =
                    |first: usize, head: usize, dim: usize| &qkv[row * row_len + first + head * dim..][..dim];
                let time_step = softplus(step[row * n_head + head] + step_bias[head]).max(least_step);
                let (rate, delta) = match &rule {
                    ScanRule::Delta { rate } => (sigmoid(rate[row * n_head + head]), true),
                    ScanRule::TimeStep { .. } => (time_step, false),
                };
                let v = at(first[2], head, v_dim);
                let step = ScanStep {
                    q: at(first[0], head_k, k_dim),
                    k: at(first[1], head_k, k_dim),
                    v,
                    decay: libm::expf(a[head] * time_step),
                    rate,
                    delta,
                };
                let at = (row * n_head + head) * v_dim;
                // SAFETY: tasks have different heads, so their parts of the rows do not overlap.
                let out = unsafe { out.slice(at..at + v_dim) };
                (kernels.scan_step)(&step, s, out);
                if let ScanRule::TimeStep { skip } = &rule {
                    let skip = skip.f32s()[head];
                    out.iter_mut().zip(v).for_each(|(out, v)| *out += skip * v);
                }
                while let Some(copy) = copies.next_if(|copy| copy.row as usize == row) {
                    place.keep(&values, copy.to, head, s);
                }
            }
        }
    });
}

/// Where the state of a head lies in each slot.
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

    fn at(&self, slot: u32, head: usize) -> std::ops::Range<usize> {
        let start = slot as usize * self.slot_len + self.first + head * self.head_len;
        start..start + self.head_len
    }

    /// Makes `s`, which lies where a state will be behind a run, the state that the run goes on from.
    fn begin(&self, values: &DisjointMut<'_, f32>, slots: &StateRun, head: usize, s: &mut [f32]) {
        match slots.from {
            None => s.fill(0.0),
            Some(from) if from == slots.to => {}
            // SAFETY: no other task has this head, and `s` lies in another slot.
            Some(from) => s.copy_from_slice(unsafe { values.slice(self.at(from, head)) }),
        }
    }

    /// Copies a head's state to `slot`, which no run reads or writes.
    fn keep(&self, values: &DisjointMut<'_, f32>, slot: u32, head: usize, s: &[f32]) {
        // SAFETY: no other task has this head, and `s` lies in another slot.
        unsafe { values.slice(self.at(slot, head)) }.copy_from_slice(s);
    }
}
