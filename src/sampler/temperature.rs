//! Temperature: logits are divided by it, after the largest has been taken off all of them (which changes no
//! probability, and lets a tiny temperature overflow to `-inf` only).
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::Result;

pub(super) fn validate(temperature: f32) -> Result<()> {
    if temperature.is_finite() && temperature >= 0.0 {
        return Ok(());
    }
    Err(super::invalid("temperature", "finite and ≥ 0", temperature))
}

pub(super) fn apply(candidates: &mut Candidates, temperature: f32) {
    if temperature == 0.0 {
        return super::greedy::apply(candidates);
    }
    let max = candidates.max();
    for logit in candidates.logits_mut().1 {
        // Adding 0 turns a -0 into +0, as in `Candidates::fill`.
        *logit = (*logit - max) / temperature + 0.0;
    }
}
