//! Temperature: logits are divided by it. Where a tiny temperature would make the largest logit infinite, that logit is
//! subtracted from all of them first. This changes no probability, and they overflow to `-inf` only.
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
    let max = if (max / temperature).is_finite() { 0.0 } else { max };
    for logit in candidates.logits_mut().1 {
        // Adding 0 turns a -0 into +0, as in `Candidates::fill`.
        *logit = (*logit - max) / temperature + 0.0;
    }
}
