//! Probabilities in integers: the weight of a logit is `⌊2⁴⁰ exp(logit - largest)⌋`, or one more or less.
#![forbid(unsafe_code)]

use std::array;

use super::exp::{LANES, TO_WHOLE, exp};

/// The weight of the largest logit.
pub(super) const ONE: f64 = (1u64 << 40) as f64;

/// Below this, exp gives less than 2⁻⁴⁰, so the weight is 0.
const NEGLIGIBLE: f32 = -28.0;

/// Puts the weights of `logits`, of which `max` is the largest, into `weights`; returns their sum.
pub(super) fn of(logits: &[f32], max: f32, weights: &mut Vec<u64>) -> u64 {
    weights.clear();
    let (whole, rest) = logits.as_chunks::<LANES>();
    whole.iter().for_each(|logits| weights.extend_from_slice(&several(logits, max)));
    weights.extend(rest.iter().map(|&logit| several(&[logit], max)[0]));
    weights.iter().sum()
}

/// Some weights.
#[inline(always)]
fn several<const N: usize>(logits: &[f32; N], max: f32) -> [u64; N] {
    let counts: [bool; N] = array::from_fn(|i| logits[i] - max >= NEGLIGIBLE);
    let x: [f64; N] = array::from_fn(|i| f64::from(if counts[i] { logits[i] - max } else { NEGLIGIBLE }));
    let exp = exp(x);
    array::from_fn(|i| {
        let weight = exp[i] * ONE;
        // The integer below: the nearest one, less one if that is above.
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
        let mut logits: Vec<f32> = (0..99_999).map(|i| i as f32 * -0.000_283).collect();
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
