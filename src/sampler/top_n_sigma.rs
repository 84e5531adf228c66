//! Top-nσ: tokens whose logits are at most n standard deviations of all logits below the largest one (Tang et al. 2024,
//! arXiv:2411.07641). It uses the logits as they are, so a temperature before the stage does not change which tokens it keeps.
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use super::scan::LANES;
use crate::error::Result;

pub(super) fn validate(n: f32) -> Result<()> {
    if n.is_finite() && n >= 0.0 {
        return Ok(());
    }
    Err(super::invalid("top-n-sigma", "finite and ≥ 0", n))
}

pub(super) fn apply(candidates: &mut Candidates, n: f32) {
    if n == 0.0 || candidates.len() < 2 {
        return;
    }
    let (max, logits) = (candidates.max(), candidates.logits_mut().1);
    // An earlier stage may have ruled tokens out without removing them.
    let possible = |logit: f32| logit != f32::NEG_INFINITY;
    let count = sum(logits, |logit| if possible(logit) { 1.0 } else { 0.0 });
    if count == 0.0 {
        return;
    }
    let mean = sum(logits, |logit| if possible(logit) { f64::from(logit) } else { 0.0 }) / count;
    let square = |x: f64| x * x;
    let spread = sum(logits, |logit| if possible(logit) { square(f64::from(logit) - mean) } else { 0.0 });
    let least = f64::from(max) - f64::from(n) * (spread / count).sqrt();
    candidates.retain(|c| f64::from(c.logit) >= least || c.logit == max);
}

/// The sum of `part` of all logits, in an order that is the same everywhere.
#[inline(always)]
fn sum(logits: &[f32], part: impl Fn(f32) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = logits.as_chunks::<LANES>();
    for some in whole {
        for (sum, &logit) in sums.iter_mut().zip(some) {
            *sum += part(logit);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&logit| part(logit)).sum::<f64>()
}
