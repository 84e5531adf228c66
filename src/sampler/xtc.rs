//! Exclude top choices: now and then removes all tokens above a probability except the least likely of them, which makes texts
//! less predictable without letting unlikely tokens in (<https://github.com/oobabooga/text-generation-webui/pull/6335>).
#![forbid(unsafe_code)]

use super::candidates::{Candidate, Candidates};
use super::rng::Rng;
use crate::error::Result;

pub(super) fn validate(probability: f32, threshold: f32) -> Result<()> {
    for (name, value) in [("probability", probability), ("threshold", threshold)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(super::invalid(name, "0 to 1", value));
        }
    }
    Ok(())
}

/// Takes one random number unless it cannot change anything.
pub(super) fn apply(candidates: &mut Candidates, probability: f32, threshold: f32, rng: &mut Rng) {
    const ONE: u64 = 1 << 40;
    if probability == 0.0 || threshold > 0.5 || candidates.len() < 2 {
        return;
    }
    if rng.below(ONE) as f64 >= f64::from(probability) * ONE as f64 {
        return;
    }
    let least = f64::from(threshold) * candidates.weigh() as f64;
    let possible = candidates.iter().filter(|c| c.logit > f32::NEG_INFINITY);
    let above = possible.filter(|c| c.weight as f64 >= least);
    let Some(last) = above.max_by(Candidate::best_first) else { return };
    candidates.retain(|c| c.best_first(&last).is_ge());
}
