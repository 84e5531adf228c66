//! The definitions of the operations that keep states.
#![forbid(unsafe_code)]

use super::{CpuBackend, sigmoid};
use crate::backend::host::HostPass;
use crate::backend::{CausalConv, Pace, Scan, ScanRule};
use crate::kernels::{Kernels, ScanStep, SelectiveStep, UnlearnStep};

/// See [`CausalConv`].
pub(super) fn causal_conv(pass: &HostPass, args: CausalConv<'_, CpuBackend>) {
    let CausalConv { states, state, x, n_channels: n, len, .. } = args;
    let weight = args.weight.f32s();
    let n_before = len - 1;
    let plan = pass.states();
    for (run, slots) in pass.runs.iter().zip(plan.runs) {
        // Row `i` of the state, followed by the run's.
        let row = |i: usize| (i >= n_before).then(|| &x[(run.first + i - n_before) * n..][..n]);
        for (t, out) in args.out[run.first * n..][..run.len * n].chunks_exact_mut(n).enumerate() {
            for (c, out) in out.iter_mut().enumerate() {
                *out = args.bias.map_or(0.0, |bias| bias.f32s()[c]);
                for j in 0..len {
                    let before = |slot| states.get(slot, state)[(t + j) * n + c];
                    let x = row(t + j).map_or_else(|| slots.from.map_or(0.0, before), |row| row[c]);
                    *out += weight[c * len + j] * x;
                }
            }
        }
        let mut keep = |n_rows: usize, slot: u32| {
            for i in 0..n_before {
                let to = states.range(slot, state).start + i * n;
                match (row(n_rows + i), slots.from) {
                    (Some(row), _) => states.values_mut()[to..to + n].copy_from_slice(row),
                    (None, Some(from)) => {
                        let from = states.range(from, state).start + (n_rows + i) * n;
                        states.values_mut().copy_within(from..from + n, to);
                    }
                    (None, None) => states.values_mut()[to..to + n].fill(0.0),
                }
            }
        };
        for copy in plan.copies_of(run) {
            keep(copy.row as usize + 1 - run.first, copy.to);
        }
        keep(run.len, slots.to);
    }
}

/// See [`Scan`].
pub(super) fn scan(kernels: &Kernels, pass: &HostPass, args: Scan<'_, CpuBackend>) {
    let (row_len, k_dim, v_dim, n_head) = (args.row_len(), args.k_dim, args.v_dim, args.n_head);
    let head_k = |head| match args.grouped {
        true => head / (n_head / args.n_head_k),
        false => head % args.n_head_k,
    };
    let Scan { states, state, qkv, first: [q, k, v], .. } = args;
    if let ScanRule::Delta { .. } = args.rule {
        let rows = pass.runs.iter().flat_map(|run| run.first..run.first + run.len);
        for (row, head) in rows.flat_map(|row| (0..args.n_head_k).map(move |head| (row, head))) {
            for (first, factor) in [(q, 1.0 / (k_dim as f64).sqrt()), (k, 1.0)] {
                normalise(&mut qkv[row * row_len + first + head * k_dim..][..k_dim], factor);
            }
        }
    }
    let plan = pass.states();
    for (run, slots) in pass.runs.iter().zip(plan.runs) {
        for head in 0..n_head {
            // The state of this head in a slot.
            let place = |slot: u32| states.range(slot, state).start + head * k_dim * v_dim;
            let (from, to) = (slots.from.map(place), place(slots.to));
            let to = to..to + k_dim * v_dim;
            match from {
                Some(from) => states.values_mut().copy_within(from..from + to.len(), to.start),
                None => states.values_mut()[to.clone()].fill(0.0),
            }
            for row in run.first..run.first + run.len {
                let at =
                    |first: usize, head: usize, dim: usize| &qkv[row * row_len + first + head * dim..][..dim];
                let (q, k, v) = (at(q, head_k(head), k_dim), at(k, head_k(head), k_dim), at(v, head, v_dim));
                let out = &mut args.out[(row * n_head + head) * v_dim..][..v_dim];
                let s = &mut states.values_mut()[to.clone()];
                let time_step = |pace: &Pace<'_, CpuBackend>| {
                    let step = softplus(pace.step[row * n_head + head] + pace.bias.f32s()[head]);
                    step.max(pace.least)
                };
                let decay_by =
                    |pace: &Pace<'_, CpuBackend>| libm::expf(pace.a.f32s()[head] * time_step(pace));
                match &args.rule {
                    ScanRule::Delta { pace, rate } => {
                        let (rate, decay) = (sigmoid(rate[row * n_head + head]), decay_by(pace));
                        (kernels.scan_step)(&ScanStep { q, k, v, decay, rate, delta: true }, s, out);
                    }
                    ScanRule::TimeStep { pace, .. } => {
                        let (rate, decay) = (time_step(pace), decay_by(pace));
                        (kernels.scan_step)(&ScanStep { q, k, v, decay, rate, delta: false }, s, out);
                    }
                    ScanRule::Selective { pace, .. } => {
                        let a = &pace.a.f32s()[head * k_dim..][..k_dim];
                        let step = SelectiveStep { q, k, v, step: &[time_step(pace)], a };
                        (kernels.selective_step)(&step, s, out);
                    }
                    ScanRule::Unlearn { decay, known, rate } => {
                        let [decay, known, rate] =
                            [decay, known, rate].map(|x| &x[(row * n_head + head) * k_dim..][..k_dim]);
                        (kernels.unlearn_step)(&UnlearnStep { q, k, v, decay, known, rate }, s, out);
                    }
                }
                if let ScanRule::TimeStep { skip, .. } | ScanRule::Selective { skip, .. } = &args.rule {
                    out.iter_mut().zip(v).for_each(|(out, v)| *out += skip.f32s()[head] * v);
                }
                for copy in plan.copies.iter().filter(|copy| copy.row as usize == row) {
                    let copy = states.range(copy.to, state).start + head * k_dim * v_dim;
                    states.values_mut().copy_within(to.clone(), copy);
                }
            }
        }
    }
}

/// `ln(1 + e^x)`.
pub fn softplus(x: f32) -> f32 {
    // Beyond this the sum is e^x for an f32.
    if x > 20.0 { x } else { libm::log1pf(libm::expf(x)) }
}

/// Divides `x` by the root of its sum of squares and 1e-6, and multiplies it by `factor`.
pub fn normalise(x: &mut [f32], factor: f64) {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let factor = (factor / (squares + 1e-6).sqrt()) as f32;
    x.iter_mut().for_each(|x| *x *= factor);
}
