//! Operations on recurrent states.

use super::*;
use crate::backend::{CausalConv, StateCopy, StatePlan, StateRun, StateShape, StateStore};

/// Runs rows of two sequences, one of which goes on in a second call and has two runs there; what comes out, and all states.
fn convolve<B: Host>(b: &mut B, n_channels: usize, len: usize, with_bias: bool) -> Vec<f32> {
    let shape = StateShape { lens: vec![3, (len - 1) * n_channels], n_slots: 8 };
    let mut states = b.alloc_states(&shape).expect("memory");
    let w = weight(b, Format::F32, n_channels, len, 1, WeightRole::Vector);
    let bias = weight(b, Format::F32, 1, n_channels, 2, WeightRole::Vector);
    let run = |first, len, position| Run { first, len, position, pages: 0 };
    let mut all = Vec::new();
    let calls = [
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
    ];
    for (seed, (runs, state_runs, copies)) in (3..).zip(calls) {
        let x = buffer(b, &noise(11 * n_channels, seed));
        let mut out = b.alloc(11 * n_channels).expect("memory");
        b.causal_conv(CausalConv {
            states: &mut states,
            state: 1,
            x: &x,
            n_channels,
            len,
            weight: &w,
            bias: with_bias.then_some(&bias),
            runs: &runs,
            plan: StatePlan { runs: &state_runs, copies: &copies },
            out: &mut out,
        });
        all.extend_from_slice(&out);
    }
    let mut bytes = vec![0; states.slot_bytes()];
    for slot in 0..8 {
        states.read_slot(slot, &mut bytes);
        all.extend(bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)));
    }
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
        b.causal_conv(CausalConv {
            states: &mut states,
            state: 0,
            x: &row,
            n_channels: n,
            len,
            weight: &w,
            bias: None,
            runs: &[Run { first: 0, len: 1, position: t, pages: 0 }],
            plan: StatePlan { runs: &[StateRun { from: (t > 0).then_some(0), to: 0 }], copies: &[] },
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
