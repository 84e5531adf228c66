//! Steps of linear recurrences.

use super::*;

#[test]
fn a_step_learns_and_reads_as_its_formula_says() {
    let shapes = [(1, 1), (3, 5), (16, 16), (7, 33), (24, 64), (128, 128), (64, 100), (0, 8), (8, 0)];
    for (kernels, (n_k, n_v)) in tables().flat_map(|k| shapes.map(|shape| (k, shape))) {
        for delta in [false, true] {
            let (q, k, v) = (noise(n_k, 1), noise(n_k, 2), noise(n_v, 3));
            let mut state = noise(n_k * n_v, 4);
            let before = state.clone();
            let mut out = vec![0.5; n_v];
            let step = ScanStep { q: &q, k: &k, v: &v, decay: 0.7, rate: 0.3, delta };
            (kernels.scan_step)(&step, &mut state, &mut out);
            let old = |i: usize, j: usize| f64::from(0.7f32) * f64::from(before[i * n_v + j]);
            for j in 0..n_v {
                let known: f64 = (0..n_k).map(|i| f64::from(k[i]) * old(i, j)).sum();
                let known = if delta { known } else { 0.0 };
                let learnt = f64::from(0.3f32) * (f64::from(v[j]) - known);
                let new = |i: usize| old(i, j) + f64::from(k[i]) * learnt;
                let read: f64 = (0..n_k).map(|i| f64::from(q[i]) * new(i)).sum();
                let sizes: f64 = (0..n_k).map(|i| (f64::from(q[i]) * new(i)).abs() + old(i, j).abs()).sum();
                assert_close(out[j], read, 1e-6 * (1.0 + sizes), "what is read");
                for i in 0..n_k {
                    assert_close(state[i * n_v + j], new(i), 1e-6 * (1.0 + sizes), "the state");
                }
            }
        }
    }
}

#[test]
fn a_selective_step_is_what_its_formula_says() {
    let shapes = [(1, 1), (3, 5), (16, 16), (16, 40), (7, 9), (33, 2), (64, 3), (0, 4), (8, 0)];
    for (kernels, (n_k, n)) in tables().flat_map(|k| shapes.map(|shape| (k, shape))) {
        let (q, k, v) = (noise(n_k, 1), noise(n_k, 2), noise(n, 3));
        let a: Vec<f32> = noise(n * n_k, 4).iter().map(|x| -4.0 * x.abs()).collect();
        let times: Vec<f32> = noise(n, 5).iter().map(|x| x.abs()).collect();
        let mut state = noise(n * n_k, 6);
        let before = state.clone();
        let mut out = vec![0.5; n];
        let step = SelectiveStep { q: &q, k: &k, v: &v, step: &times, a: &a };
        (kernels.selective_step)(&step, &mut state, &mut out);
        for c in 0..n {
            let (time, v) = (f64::from(times[c]), f64::from(v[c]));
            let (mut sum, mut sizes) = (0.0, 0.0);
            for i in 0..n_k {
                let at = c * n_k + i;
                let kept = (f64::from(a[at]) * time).exp() * f64::from(before[at]);
                let new = kept + f64::from(k[i]) * time * v;
                assert_close(state[at], new, 1e-6 * (1.0 + kept.abs() + new.abs()), "the state");
                sum += f64::from(q[i]) * new;
                sizes += (f64::from(q[i]) * new).abs() + kept.abs();
            }
            assert_close(out[c], sum, 1e-6 * (1.0 + sizes), "what is read");
        }
    }
}

#[test]
fn a_step_that_unlearns_is_what_its_formula_says() {
    let shapes = [(1, 1), (3, 5), (16, 16), (7, 33), (64, 64), (64, 100), (0, 8), (8, 0)];
    for (kernels, (n_k, n_v)) in tables().flat_map(|k| shapes.map(|shape| (k, shape))) {
        let [q, k, decay, known, rate] = [1, 2, 3, 4, 5].map(|seed| noise(n_k, seed));
        let (v, mut state) = (noise(n_v, 6), noise(n_k * n_v, 7));
        let before = state.clone();
        let mut out = vec![0.5; n_v];
        let step = UnlearnStep { q: &q, k: &k, v: &v, decay: &decay, known: &known, rate: &rate };
        (kernels.unlearn_step)(&step, &mut state, &mut out);
        for j in 0..n_v {
            let old = |i: usize| f64::from(before[i * n_v + j]);
            let sum: f64 = (0..n_k).map(|m| f64::from(known[m]) * old(m)).sum();
            let sizes: f64 = (0..n_k).map(|m| (f64::from(known[m]) * old(m)).abs()).sum::<f64>() + 1.0;
            let (mut read, mut all) = (0.0, 0.0);
            for i in 0..n_k {
                let new = f64::from(decay[i]) * old(i) - f64::from(rate[i]) * sum
                    + f64::from(k[i]) * f64::from(v[j]);
                assert_close(state[i * n_v + j], new, 1e-6 * (sizes + old(i).abs()), "the state");
                read += f64::from(q[i]) * new;
                all += sizes + new.abs();
            }
            assert_close(out[j], read, 1e-6 * (1.0 + all), "what is read");
        }
    }
}
