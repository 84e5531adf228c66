//! Operations on recurrent states.

use super::*;
use crate::backend::{
    CausalConv, Pace, Scan, ScanRule, StateCopy, StatePlan, StateRun, StateShape, StateStore,
};

/// The runs of a call, their states, and what is kept.
type Call = (Vec<Run>, Vec<StateRun>, Vec<StateCopy>);

/// Eleven rows of two sequences, and eleven more of both, one of which has two runs there.
fn calls() -> [Call; 2] {
    let run = |first, len, position| Run { first, len, position, encoded: 0, pages: 0 };
    [
        (
            vec![run(0, 9, 0), run(9, 2, 0)],
            vec![StateRun { from: None, to: 1 }, StateRun { from: None, to: 2 }],
            vec![StateCopy { row: 0, to: 3 }, StateCopy { row: 5, to: 4 }, StateCopy { row: 9, to: 5 }],
        ),
        (
            vec![run(0, 1, 9), run(1, 3, 2), run(4, 7, 10)],
            // One goes to another slot, one stays in its own.
            vec![
                StateRun { from: Some(1), to: 6 },
                StateRun { from: Some(2), to: 2 },
                StateRun { from: Some(6), to: 6 },
            ],
            vec![StateCopy { row: 2, to: 7 }],
        ),
    ]
}

/// Begins a pass over rows with recurrent states.
fn begin<B: Host>(b: &mut B, runs: &[Run], state_runs: &[StateRun], copies: &[StateCopy]) {
    let states = StatePlan { runs: state_runs, copies };
    b.begin(&Pass { runs, states, ..Pass::default() }).expect("a pass");
}

/// Every slot of `states`.
fn slots(states: &HostStates) -> Vec<f32> {
    let mut bytes = vec![0; states.slot_bytes()];
    let mut all = Vec::new();
    for slot in 0..8 {
        states.read_slot(slot, &mut bytes);
        all.extend(bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)));
    }
    all
}

/// Runs rows of two sequences, one of which goes on in a second call and has two runs there; what comes out, and all states.
fn convolve<B: Host>(b: &mut B, n_channels: usize, len: usize, with_bias: bool) -> Vec<f32> {
    let shape = StateShape { lens: vec![3, (len - 1) * n_channels], n_slots: 8 };
    let mut states = b.alloc_states(&shape).expect("memory");
    let w = weight(b, Format::F32, n_channels, len, 1, WeightRole::Vector);
    let bias = weight(b, Format::F32, 1, n_channels, 2, WeightRole::Vector);
    let mut all = Vec::new();
    for (seed, (runs, state_runs, copies)) in (3..).zip(calls()) {
        let x = buffer(b, &noise(11 * n_channels, seed));
        let mut out = b.alloc(11 * n_channels).expect("memory");
        begin(b, &runs, &state_runs, &copies);
        b.causal_conv(CausalConv {
            states: &mut states,
            state: 1,
            x: &x,
            n_channels,
            len,
            weight: &w,
            bias: with_bias.then_some(&bias),
            out: &mut out,
        });
        all.extend_from_slice(&out);
    }
    all.extend(slots(&states));
    all
}

#[test]
fn causal_convolutions() {
    for (n_channels, len, with_bias) in
        [(1, 1, false), (7, 2, true), (48, 3, false), (40, 5, true), (1600, 4, true)]
    {
        check!(&format!("conv of {n_channels} channels, {len}"), 0.0, |b| convolve(
            b, n_channels, len, with_bias
        ));
    }
}

/// A text in one call and token by token: the same, and by the formula.
#[test]
fn a_convolution_is_what_its_formula_says() {
    let (n, len) = (5, 3);
    let mut b = CpuBackend::new(Memory::default());
    let w = weight(&mut b, Format::F32, n, len, 1, WeightRole::Vector);
    let x = noise(8 * n, 2);
    let mut states = b.alloc_states(&StateShape { lens: vec![(len - 1) * n], n_slots: 1 }).expect("memory");
    for t in 0..8 {
        let row = buffer(&mut b, &x[t * n..(t + 1) * n]);
        let mut out = b.alloc(n).expect("memory");
        let run = Run { first: 0, len: 1, position: t, encoded: 0, pages: 0 };
        begin(&mut b, &[run], &[StateRun { from: (t > 0).then_some(0), to: 0 }], &[]);
        b.causal_conv(CausalConv {
            states: &mut states,
            state: 0,
            x: &row,
            n_channels: n,
            len,
            weight: &w,
            bias: None,
            out: &mut out,
        });
        for c in 0..n {
            let seen = (0..len).filter(|j| t + j >= len - 1);
            let sum: f64 = seen
                .map(|j| f64::from(w.f32s()[c * len + j]) * f64::from(x[(t + j + 1 - len) * n + c]))
                .sum();
            assert!((f64::from(out[c]) - sum).abs() < 1e-5, "token {t}, channel {c}: {} {sum}", out[c]);
        }
    }
}

/// The sizes of a scan: heads, heads of queries and keys, length of a key, length of a value.
type Heads = (usize, usize, usize, usize);

/// As `convolve`.
fn scan<B: Host>(b: &mut B, (n_head, n_head_k, k_dim, v_dim): Heads, delta: bool, grouped: bool) -> Vec<f32> {
    let shape = StateShape { lens: vec![5, n_head * k_dim * v_dim, 2], n_slots: 8 };
    let mut states = b.alloc_states(&shape).expect("memory");
    let vector = |b: &mut B, seed| weight(b, Format::F32, 1, n_head, seed, WeightRole::Vector);
    let (step_bias, a, skip) = (vector(b, 1), vector(b, 2), vector(b, 3));
    let row_len = 2 * n_head_k * k_dim + n_head * v_dim;
    let n_keys = n_head_k * k_dim;
    let first = if delta { [0, n_keys, 2 * n_keys] } else { [n_head * v_dim + n_keys, n_head * v_dim, 0] };
    let mut all = Vec::new();
    for (seed, (runs, state_runs, copies)) in (4..).zip(calls()) {
        let mut qkv = buffer(b, &noise(11 * row_len, seed));
        let (step, rate) =
            (buffer(b, &noise(11 * n_head, seed + 10)), buffer(b, &noise(11 * n_head, seed + 20)));
        let mut out = b.alloc(11 * n_head * v_dim).expect("memory");
        begin(b, &runs, &state_runs, &copies);
        b.scan(Scan {
            states: &mut states,
            state: 1,
            qkv: &mut qkv,
            first,
            rule: if delta {
                ScanRule::Delta {
                    pace: Pace { step: &step, bias: &step_bias, least: 0.0, a: &a },
                    rate: &rate,
                }
            } else {
                let pace = Pace { step: &step, bias: &step_bias, least: 0.7, a: &a };
                ScanRule::TimeStep { pace, skip: &skip }
            },
            n_head,
            n_head_k,
            k_dim,
            v_dim,
            grouped,
            out: &mut out,
        });
        all.extend_from_slice(&out);
    }
    all.extend(slots(&states));
    all
}

/// As `convolve`, of states whose elements have decays of their own.
fn selective<B: Host>(b: &mut B, n: usize, k_dim: usize) -> Vec<f32> {
    let shape = StateShape { lens: vec![5, n * k_dim, 2], n_slots: 8 };
    let mut states = b.alloc_states(&shape).expect("memory");
    let vector = |b: &mut B, seed| weight(b, Format::F32, 1, n, seed, WeightRole::Vector);
    let (step_bias, skip) = (vector(b, 1), vector(b, 3));
    let a = weight(b, Format::F32, n, k_dim, 2, WeightRole::Vector);
    let row_len = n + 2 * k_dim;
    let mut all = Vec::new();
    for (seed, (runs, state_runs, copies)) in (4..).zip(calls()) {
        let mut qkv = buffer(b, &noise(11 * row_len, seed));
        let step = buffer(b, &noise(11 * n, seed + 10));
        let mut out = b.alloc(11 * n).expect("memory");
        begin(b, &runs, &state_runs, &copies);
        b.scan(Scan {
            states: &mut states,
            state: 1,
            qkv: &mut qkv,
            first: [n + k_dim, n, 0],
            rule: ScanRule::Selective {
                pace: Pace { step: &step, bias: &step_bias, least: 0.3, a: &a },
                skip: &skip,
            },
            n_head: n,
            n_head_k: 1,
            k_dim,
            v_dim: 1,
            grouped: true,
            out: &mut out,
        });
        all.extend_from_slice(&out);
    }
    all.extend(slots(&states));
    all
}

/// As `convolve`, of states that unlearn.
fn unlearn<B: Host>(b: &mut B, n_head: usize, dim: usize) -> Vec<f32> {
    let (n, shape) = (n_head * dim, StateShape { lens: vec![5, n_head * dim * dim, 2], n_slots: 8 });
    let mut states = b.alloc_states(&shape).expect("memory");
    let mut all = Vec::new();
    for (seed, (runs, state_runs, copies)) in (4..).zip(calls()) {
        let mut qkv = buffer(b, &noise(11 * 3 * n, seed));
        let decays: Vec<f32> = noise(11 * n, seed + 10).iter().map(|x| 1.0 - 0.4 * x.abs()).collect();
        let small: Vec<f32> = noise(11 * n, seed + 20).iter().map(|x| x / (dim as f32).sqrt()).collect();
        let (decay, known, rate) = (buffer(b, &decays), buffer(b, &small), buffer(b, &small));
        let mut out = b.alloc(11 * n).expect("memory");
        begin(b, &runs, &state_runs, &copies);
        b.scan(Scan {
            states: &mut states,
            state: 1,
            qkv: &mut qkv,
            first: [0, n, 2 * n],
            rule: ScanRule::Unlearn { decay: &decay, known: &known, rate: &rate },
            n_head,
            n_head_k: n_head,
            k_dim: dim,
            v_dim: dim,
            grouped: true,
            out: &mut out,
        });
        all.extend_from_slice(&out);
    }
    all.extend(slots(&states));
    all
}

#[test]
fn scans_that_unlearn() {
    for (n_head, dim) in [(1, 1), (3, 5), (2, 16), (4, 64), (2, 37)] {
        check!(&format!("{n_head} heads of {dim} that unlearn"), F32, |b| unlearn(b, n_head, dim));
    }
}

#[test]
fn selective_scans() {
    for (n, k_dim) in [(1, 1), (5, 16), (32, 7), (33, 16), (200, 12)] {
        check!(&format!("{n} channels with states of {k_dim}"), F32, |b| selective(b, n, k_dim));
    }
}

#[test]
fn scans() {
    for (n_head, n_head_k, k_dim, v_dim) in [(1, 1, 1, 1), (4, 2, 16, 16), (6, 3, 5, 37), (2, 1, 64, 48)] {
        for (delta, grouped) in [(false, true), (true, false), (true, true)] {
            let what = format!("scan of {n_head} heads, {k_dim} by {v_dim}, delta {delta}");
            check!(&what, F32, |b| scan(b, (n_head, n_head_k, k_dim, v_dim), delta, grouped));
        }
    }
}

/// Grouped heads share a query and a key with their neighbours, others with those `n_head_k` further on.
#[test]
fn heads_share_queries_and_keys() {
    let mut b = CpuBackend::new(Memory::default());
    let [grouped, tiled] = [true, false].map(|grouped| scan(&mut b, (4, 2, 3, 2), true, grouped));
    let head = |all: &[f32], head: usize| all[head * 2..head * 2 + 2].to_vec();
    assert_eq!((head(&grouped, 0), head(&grouped, 3)), (head(&tiled, 0), head(&tiled, 3)));
    assert_ne!((head(&grouped, 1), head(&grouped, 2)), (head(&tiled, 1), head(&tiled, 2)));
}
