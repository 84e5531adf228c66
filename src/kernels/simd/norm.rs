//! Norms and softmax.
#![forbid(unsafe_code)]

use super::Simd;
use crate::kernels::scalar;

/// Elements whose sum is in f32 lanes; the sums of these chunks are added in f64, so that long rows lose no digits.
const PART: usize = 256;

/// `Σ x[i]`, or `Σ x[i]²`.
#[inline(always)]
fn sum_of<S: Simd, const SQUARES: bool>(simd: S, x: &[f32]) -> f64 {
    let mut sum = 0.0;
    for part in x.chunks(PART) {
        let mut lanes = [simd.splat(0.0); 4];
        for chunk in part.chunks(4 * S::LANES) {
            for (lane, x) in lanes.iter_mut().zip(chunk.chunks(S::LANES)) {
                let x = simd.load_some(x, 0.0);
                *lane = if SQUARES { simd.mul_add(x, x, *lane) } else { simd.add(*lane, x) };
            }
        }
        let [a, b, c, d] = lanes;
        sum += f64::from(simd.sum(simd.add(simd.add(a, b), simd.add(c, d))));
    }
    sum
}

/// See [`crate::kernels::Kernels::rms_norm`].
#[inline(always)]
pub fn rms_norm<S: Simd>(simd: S, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    debug_assert!(x.len() == weight.len() && x.len() == out.len(), "the vectors differ in length");
    let n = x.len().min(weight.len()).min(out.len());
    let sum = sum_of::<S, true>(simd, x);
    if sum.is_infinite() {
        // The squares of numbers beyond 1e19 overflow f32: the definition adds them in f64.
        return scalar::norm::rms_norm(x, weight, eps, out);
    }
    let mean_square = sum / x.len() as f64;
    let factor = simd.splat((1.0 / (mean_square + f64::from(eps)).sqrt()) as f32);
    let rows = x[..n].chunks(S::LANES).zip(weight[..n].chunks(S::LANES));
    for (out, (x, weight)) in out[..n].chunks_mut(S::LANES).zip(rows) {
        let y = simd.mul(simd.load_some(x, 0.0), factor);
        simd.store_some(simd.mul(y, simd.load_some(weight, 0.0)), out);
    }
}
