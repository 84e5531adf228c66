//! Normalisation. Sums are in `f64`: they cost little next to matrix products, and a long row loses no digits.
#![forbid(unsafe_code)]

/// Partial sums, added up in ascending order at the end; element `i` goes to partial sum `i % 8`.
const LANES: usize = 8;

/// `Σ f(x[i])`.
fn sum_of(x: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(f64::from(x));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(f64::from(x));
    }
    lanes.iter().sum()
}

pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    debug_assert!(x.len() == weight.len() && x.len() == out.len(), "the vectors differ in length");
    let mean_square = sum_of(x, |x| x * x) / x.len() as f64;
    let factor = (1.0 / (mean_square + f64::from(eps)).sqrt()) as f32;
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * factor * weight;
    }
}

pub(super) fn layer_norm(x: &[f32], weight: &[f32], bias: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    debug_assert!(x.len() == weight.len() && x.len() == out.len(), "the vectors differ in length");
    debug_assert!(bias.is_none_or(|bias| bias.len() == x.len()), "the vectors differ in length");
    let n = x.len() as f64;
    let mean = sum_of(x, |x| x) / n;
    let variance = sum_of(x, |x| (x - mean) * (x - mean)) / n;
    let factor = (1.0 / (variance + f64::from(eps)).sqrt()) as f32;
    for ((out, &x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = (f64::from(x) - mean) as f32 * factor * weight;
    }
    for (out, bias) in out.iter_mut().zip(bias.unwrap_or_default()) {
        *out += bias;
    }
}
