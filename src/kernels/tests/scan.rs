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
