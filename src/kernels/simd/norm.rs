//! Norms.
#![forbid(unsafe_code)]

use super::Simd;
use crate::kernels::scalar;

/// Elements whose sum is kept in f32 lanes; the sums of such parts are added in f64, so that long rows lose no digits.
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
        // The squares of numbers beyond 1e19 are none that f32 has: the definition adds them up in f64.
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

/// `Σ (x[i] - m)` and `Σ (x[i] - m)²`, as [`sum_of`] adds.
#[inline(always)]
fn sums_about<S: Simd>(simd: S, x: &[f32], m: f32) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for part in x.chunks(PART) {
        let (mut of_terms, mut of_squares) = ([simd.splat(0.0); 4], [simd.splat(0.0); 4]);
        for chunk in part.chunks(4 * S::LANES) {
            for ((terms, squares), x) in of_terms.iter_mut().zip(&mut of_squares).zip(chunk.chunks(S::LANES))
            {
                let d = simd.sub(simd.load_some(x, m), simd.splat(m));
                *terms = simd.add(*terms, d);
                *squares = simd.mul_add(d, d, *squares);
            }
        }
        for (sum, [a, b, c, d]) in sums.iter_mut().zip([of_terms, of_squares]) {
            *sum += f64::from(simd.sum(simd.add(simd.add(a, b), simd.add(c, d))));
        }
    }
    sums
}

/// See [`crate::kernels::Kernels::layer_norm`]. A first mean is near enough for what is left of numbers without it to be added up
/// in f32; the mean of what is left corrects it.
#[inline(always)]
pub fn layer_norm<S: Simd>(
    simd: S,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    eps: f32,
    out: &mut [f32],
) {
    debug_assert!(x.len() == weight.len() && x.len() == out.len(), "the vectors differ in length");
    debug_assert!(bias.is_none_or(|bias| bias.len() == x.len()), "the vectors differ in length");
    let n = x.len().min(weight.len()).min(out.len());
    let count = x.len() as f64;
    let first = (sum_of::<S, false>(simd, x) / count) as f32;
    let [terms, squares] = sums_about(simd, x, first);
    if !squares.is_finite() {
        // As of `rms_norm`.
        return scalar::norm::layer_norm(x, weight, bias, eps, out);
    }
    let left = terms / count;
    let variance = (squares / count - left * left).max(0.0);
    let factor = simd.splat((1.0 / (variance + f64::from(eps)).sqrt()) as f32);
    let (first, left) = (simd.splat(first), simd.splat(left as f32));
    let rows = x[..n].chunks(S::LANES).zip(weight[..n].chunks(S::LANES));
    for (i, (out, (x, weight))) in out[..n].chunks_mut(S::LANES).zip(rows).enumerate() {
        let d = simd.sub(simd.sub(simd.load_some(x, 0.0), first), left);
        let y = simd.mul(simd.mul(d, factor), simd.load_some(weight, 0.0));
        let bias = bias.and_then(|bias| bias.get(i * S::LANES..)).unwrap_or_default();
        simd.store_some(simd.add(y, simd.load_some(bias, 0.0)), out);
    }
}
