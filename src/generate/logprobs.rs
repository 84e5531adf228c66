//! Log-probabilities: the logarithms of the softmax of a row of logits, before any sampling stage.
#![forbid(unsafe_code)]

use std::array;

use crate::sampler::exp::{LANES, exp};
use crate::sampler::scan;

/// A token and the logarithm of its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: u32,
    /// Natural logarithm, at most 0; `-inf` for a token that is ruled out.
    pub logprob: f32,
}

/// The terms that make log-probabilities of a row's logits.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax {
    max: f32,
    /// `ln Σ exp(logit - max)`.
    log_sum: f64,
}

impl LogSoftmax {
    /// The terms of the row `logits`.
    pub fn of(logits: &[f32]) -> LogSoftmax {
        let max = scan::max(logits);
        let (whole, rest) = logits.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for some in whole {
            let terms = terms(some, max);
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
        let sum: f64 = sums.into_iter().chain(rest.iter().map(|&logit| terms(&[logit], max)[0])).sum();
        LogSoftmax { max, log_sum: libm::log(sum) }
    }

    /// The log-probability of the token with this logit; NaN if the row has a NaN.
    pub fn logprob(&self, logit: f32) -> f32 {
        (below(logit, self.max) - self.log_sum) as f32
    }

    /// Writes the `n` likeliest tokens to `out`, the likeliest first, of equals the one with the lower id. Allocates nothing when
    /// `out` has capacity for them.
    pub fn top(&self, logits: &[f32], n: usize, out: &mut Vec<TokenLogprob>) {
        out.clear();
        if n == 0 {
            return;
        }
        for (id, &logit) in (0..).zip(logits) {
            // Until the end `logprob` holds the logit.
            if out.len() == n {
                if out.last().is_some_and(|last| logit <= last.logprob) {
                    continue;
                }
                out.pop();
            }
            let at = out.partition_point(|other| other.logprob >= logit);
            out.insert(at, TokenLogprob { id, logprob: logit });
        }
        out.iter_mut().for_each(|token| token.logprob = self.logprob(token.logprob));
    }
}

/// `exp(logit - max)` of some logits.
#[inline(always)]
fn terms<const N: usize>(logits: &[f32; N], max: f32) -> [f64; N] {
    /// Even 2²⁴ terms of this size would not show in an f32.
    const NEGLIGIBLE: f64 = -50.0;
    let x: [f64; N] = array::from_fn(|i| below(logits[i], max));
    let exp: [f64; N] = exp(array::from_fn(|i| if x[i] < NEGLIGIBLE { NEGLIGIBLE } else { x[i] }));
    array::from_fn(|i| if x[i] < NEGLIGIBLE { 0.0 } else { exp[i] })
}

/// `logit - max`, and 0 for the largest, even if it is infinite.
fn below(logit: f32, max: f32) -> f64 {
    if logit == max { 0.0 } else { f64::from(logit) - f64::from(max) }
}

/// How many tokens are likelier than `id`, of equals those with a lower id: 0 for the token of a greedy sampler.
pub fn rank(logits: &[f32], id: u32) -> u32 {
    let (before, rest) = logits.split_at(id as usize);
    let own = rest[0];
    // Sums of numbers, which compilers vectorize.
    let at_least: u32 = before.iter().map(|&logit| u32::from(logit >= own)).sum();
    let above: u32 = rest.iter().map(|&logit| u32::from(logit > own)).sum();
    at_least + above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_logarithm_of_the_softmax() {
        let logits = [1.0f32, -3.5, 80.0, 79.0, f32::NEG_INFINITY, -200.0];
        let softmax = LogSoftmax::of(&logits);
        let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        for logit in logits {
            let expected = f64::from(logit) - sum.ln();
            let got = f64::from(softmax.logprob(logit));
            assert!(got == expected || (got - expected).abs() <= 1e-5, "{logit}: {got}, {expected}");
        }
        assert_eq!(LogSoftmax::of(&[3.0]).logprob(3.0), 0.0);
        let certain = LogSoftmax::of(&[f32::INFINITY, 5.0, f32::INFINITY]);
        assert_eq!(certain.logprob(f32::INFINITY), -std::f32::consts::LN_2);
        assert_eq!(certain.logprob(5.0), f32::NEG_INFINITY);
        assert!(LogSoftmax::of(&[f32::NAN, 5.0]).logprob(5.0).is_nan());
    }

    #[test]
    fn many_logits_are_added_up_side_by_side() {
        let mut logits: Vec<f32> = (0..1003).map(|i| (i * 37 % 1003) as f32 * 0.06 - 40.0).collect();
        let sum: f64 = logits.iter().map(|&l| libm::exp(f64::from(l))).sum();
        let softmax = LogSoftmax::of(&logits);
        for (i, &logit) in logits.iter().enumerate() {
            let expected = f64::from(logit) - libm::log(sum);
            assert!((f64::from(softmax.logprob(logit)) - expected).abs() <= 4e-6, "{logit}");
            let likelier = logits.iter().filter(|&&other| other > logit).count();
            let same = logits[..i].iter().filter(|&&other| other == logit).count();
            assert_eq!(rank(&logits, i as u32) as usize, likelier + same);
        }
        for at in [0, 500, 1002] {
            let before = std::mem::replace(&mut logits[at], f32::NAN);
            assert!(LogSoftmax::of(&logits).logprob(0.0).is_nan(), "{at}");
            logits[at] = before;
        }
    }

    #[test]
    fn the_likeliest_come_first_and_lower_ids_before_equals() {
        let logits = [0.5f32, 2.0, -1.0, 2.0, 0.5, 3.0, 0.5];
        let softmax = LogSoftmax::of(&logits);
        let order = [5u32, 1, 3, 0, 4, 6, 2];
        for n in 0..9 {
            let mut top = Vec::new();
            softmax.top(&logits, n, &mut top);
            let ids: Vec<u32> = top.iter().map(|t| t.id).collect();
            assert_eq!(ids, order[..n.min(order.len())]);
            assert!(top.iter().all(|t| t.logprob == softmax.logprob(logits[t.id as usize])));
        }
        for (expected, id) in (0..).zip(order) {
            assert_eq!(rank(&logits, id), expected);
        }
    }
}
