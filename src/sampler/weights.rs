//! Probabilities in whole numbers: the weight of a logit is `⌊2⁴⁰ exp(logit - largest)⌋`.
#![forbid(unsafe_code)]

use std::array;
use std::f64::consts;

/// The weight of the largest logit.
pub(super) const ONE: f64 = (1u64 << 40) as f64;

/// Below this, exp gives less than 2⁻⁴⁰, so the weight is 0.
const NEGLIGIBLE: f32 = -28.0;
/// Taken off a number below 2⁵¹ after it was added, this leaves the nearest whole number; the sum's lowest bits are that number's.
const TO_WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
/// ln 2, cut into a part whose product with a small whole number is exact, and the rest (Cody & Waite 1980).
const LN_2: [f64; 2] = [
    f64::from_bits(consts::LN_2.to_bits() & !0xFFFF_FFFF),
    consts::LN_2 - f64::from_bits(consts::LN_2.to_bits() & !0xFFFF_FFFF),
];
/// `1 / n!`, as many as make the series of exp(r) exact to 2⁻⁴⁵ where |r| is at most half of ln 2.
const RECIPROCALS: [f64; 12] = {
    let (mut all, mut n, mut factorial) = ([1.0; 12], 1, 1.0);
    while n < all.len() {
        factorial *= n as f64;
        all[n] = 1.0 / factorial;
        n += 1;
    }
    all
};
/// Weights that are computed side by side.
const LANES: usize = 8;

/// Puts the weights of `logits`, of which `max` is the largest, into `weights`; returns their sum.
pub(super) fn of(logits: &[f32], max: f32, weights: &mut Vec<u64>) -> u64 {
    weights.clear();
    let (whole, rest) = logits.as_chunks::<LANES>();
    whole.iter().for_each(|logits| weights.extend_from_slice(&several(logits, max)));
    weights.extend(rest.iter().map(|&logit| several(&[logit], max)[0]));
    weights.iter().sum()
}

/// Some weights. Sums and products in a fixed order and no branches: the same everywhere, and compilers take vectors.
#[inline(always)]
fn several<const N: usize>(logits: &[f32; N], max: f32) -> [u64; N] {
    let counts: [bool; N] = array::from_fn(|i| logits[i] - max >= NEGLIGIBLE);
    let x: [f64; N] = array::from_fn(|i| f64::from(if counts[i] { logits[i] - max } else { NEGLIGIBLE }));
    // exp(x) = 2ⁿ exp(r), where |r| is at most half of ln 2.
    let shifted: [f64; N] = array::from_fn(|i| x[i] * consts::LOG2_E + TO_WHOLE);
    let r: [f64; N] = array::from_fn(|i| {
        let n = shifted[i] - TO_WHOLE;
        x[i] - n * LN_2[0] - n * LN_2[1]
    });
    // Two terms, four terms, all: few steps wait for the one before (Estrin 1960).
    let series: [f64; N] = array::from_fn(|i| {
        let r = r[i];
        let (r2, r4) = (r * r, r * r * (r * r));
        let two = |i: usize| RECIPROCALS[i] + RECIPROCALS[i + 1] * r;
        let four = |i: usize| two(i) + two(i + 2) * r2;
        four(0) + four(4) * r4 + four(8) * (r4 * r4)
    });
    array::from_fn(|i| {
        let two_to_n = f64::from_bits((shifted[i].to_bits() << 52).wrapping_add(1.0f64.to_bits()));
        let weight = series[i] * two_to_n * ONE;
        // The whole number below: the nearest one, less one if that is above.
        let near = weight + TO_WHOLE;
        let whole = (near.to_bits() - TO_WHOLE.to_bits()) - u64::from(near - TO_WHOLE > weight);
        if counts[i] { whole } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_exponential_function() {
        let mut logits: Vec<f32> = (0..100_000).map(|i| i as f32 * -0.000_283).collect();
        logits.extend([
            0.0,
            -0.0,
            -1e-30,
            -f32::MIN_POSITIVE,
            NEGLIGIBLE,
            -28.000_002,
            -1e30,
            f32::NEG_INFINITY,
        ]);
        let mut weights = Vec::new();
        let total = of(&logits, 0.0, &mut weights);
        let mut sum = 0;
        for (&x, &weight) in logits.iter().zip(&weights) {
            let exact = if x < NEGLIGIBLE { 0 } else { (libm::exp(f64::from(x)) * ONE) as u64 };
            assert!(weight.abs_diff(exact) <= u64::from(x != 0.0), "{x}: {weight}, not {exact}");
            sum += weight;
        }
        assert_eq!((total, weights[0], logits.len()), (sum, 1 << 40, weights.len()));
    }
}
