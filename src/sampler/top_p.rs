//! Top-p: the shortest run of most probable tokens whose probabilities add up to p, found in linear time by halving
//! the range in which the run's last token lies.
#![forbid(unsafe_code)]

use super::candidates::{Candidate, Candidates};
use crate::error::Result;

pub(super) fn validate(p: f32) -> Result<()> {
    if p > 0.0 && p <= 1.0 {
        return Ok(());
    }
    Err(super::invalid("top-p", "above 0 and at most 1", p))
}

pub(super) fn apply(candidates: &mut Candidates, p: f32) {
    if p == 1.0 {
        return;
    }
    let total = candidates.weigh();
    let share = (f64::from(p) * total as f64).ceil() as u64;
    candidates.keep_down_to(|copy| last_of_share(copy, share.clamp(1, total)));
}

/// The candidate at which the weights, added up best first, reach `share` (at least 1, at most the sum of the weights).
fn last_of_share(candidates: &mut [Candidate], mut share: u64) -> Candidate {
    let mut range = candidates;
    // Few tokens usually hold most of the probability, so the first guesses are small.
    let mut guess = 64;
    while range.len() > 1 {
        let middle = guess.min(range.len() / 2);
        range.select_nth_unstable_by(middle, Candidate::best_first);
        let (better, worse) = range.split_at_mut(middle);
        let weight: u64 = better.iter().map(|c| c.weight).sum();
        if weight >= share {
            range = better;
        } else {
            share -= weight;
            range = worse;
            guess = guess.saturating_mul(8);
        }
    }
    range[0]
}
