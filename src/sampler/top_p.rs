//! Top-p: the shortest run of most probable tokens whose probabilities add up to p, found in linear time by halving
//! the range in which the run's last token lies.
#![forbid(unsafe_code)]

use std::ops::Range;

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
    if total == 0 {
        return;
    }
    let share = (f64::from(p) * total as f64).ceil() as u64;
    let share = share.clamp(1, total);
    let (range, better) = last_range(candidates, share);
    let last = last_of_share(candidates.copy_of(range), share - better);
    candidates.retain(|c| c.best_first(&last).is_le());
}

/// This many candidates are visited one by one.
const FEW: usize = 1024;
/// Candidates whose logits are further below the largest have no weight.
const MOST_BELOW: f32 = 32.0;
/// Most halvings, each of which visits all candidates: many with equal logits stay together for any number of them.
const MOST_HALVINGS: u32 = 8;

/// The range of logits that contains the run's last token, from the first to below the second, and the weight of all above.
fn last_range(candidates: &Candidates, share: u64) -> (Range<f32>, u64) {
    let max = candidates.max();
    let (mut high, mut better, mut n_better) = (f32::INFINITY, 0, 0);
    // Mostly the run's tokens are little less likely than the likeliest.
    let mut below = 1.0;
    let (mut low, mut n_reaching) = loop {
        let low = if below > MOST_BELOW { f32::NEG_INFINITY } else { max - below };
        let (weight, n) = candidates.weight_from(low);
        if weight >= share {
            break (low, n);
        }
        (high, better, n_better) = (low, weight, n);
        below *= 2.0;
    };
    for _ in 0..MOST_HALVINGS {
        let middle = low + (high - low) / 2.0;
        // There is no middle between neighbours, nor to infinity.
        if n_reaching - n_better <= FEW || !(low < middle && middle < high) {
            break;
        }
        match candidates.weight_from(middle) {
            (weight, n) if weight >= share => (low, n_reaching) = (middle, n),
            (weight, n) => (high, better, n_better) = (middle, weight, n),
        }
    }
    (low..high, better)
}

/// The candidate at which the weights, added up best first, reach `share` (at least 1, at most the sum of the weights).
fn last_of_share(candidates: &mut [Candidate], mut share: u64) -> Candidate {
    let mut range = candidates;
    // Few tokens usually hold most of the probability, so the first estimates are small.
    let mut n_best = 64;
    while range.len() > 1 {
        let middle = n_best.min(range.len() / 2);
        range.select_nth_unstable_by(middle, Candidate::best_first);
        let (better, worse) = range.split_at_mut(middle);
        let weight: u64 = better.iter().map(|c| c.weight).sum();
        if weight >= share {
            range = better;
        } else {
            share -= weight;
            range = worse;
            n_best = n_best.saturating_mul(8);
        }
    }
    range[0]
}
