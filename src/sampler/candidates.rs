//! The tokens still in the race, always in ascending order of token id.
//!
//! Weights are probabilities in whole numbers: `⌊2⁴⁰ exp(logit - largest logit)⌋`. Sums of whole numbers do not depend
//! on their order, so no stage has to sort for its result to be the same everywhere; a token 2⁴⁰ times less likely than
//! the likeliest has no chance.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use std::cmp::Ordering;

/// The weight of the largest logit.
const WEIGHT_ONE: f64 = (1u64 << 40) as f64;
/// The most candidates whose weights are certain to add up within 64 bits.
const MAX_CANDIDATES: usize = (1 << 24) - 1;
/// Logits that are looked at together.
const PART: usize = 256;
/// Those of a part that are looked at at once.
const LANES: usize = 16;

/// A token that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
    /// Set by [`Candidates::weigh`].
    pub(super) weight: u64,
}

impl Candidate {
    /// Larger logits first, equal ones by ascending id.
    pub(super) fn best_first(&self, other: &Candidate) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }
}

/// The softmax of some candidates.
pub(super) struct Distribution {
    /// The sum of the weights.
    pub(super) total: u64,
    /// The logarithm of the sum of the exponentials of the logits: a token's surprise is this less its logit.
    pub(super) log_total: f64,
    /// In natural units.
    pub(super) entropy: f64,
}

/// The list and room for a copy that a selection may shuffle.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    scratch: Vec<Candidate>,
}

impl Candidates {
    /// Starts over with all tokens but those ruled out by an infinite logit. Leaves at least one candidate, each with a
    /// logit that is a number and below `+inf`.
    pub(super) fn fill(&mut self, logits: &[f32]) -> Result<()> {
        let (max, _) = largest(logits)?;
        self.list.clear();
        self.list.reserve(logits.len());
        self.scratch.clear();
        self.scratch.reserve(logits.len());
        let all = (0..).zip(logits);
        if max == f32::INFINITY {
            let certain = all.filter(|(_, logit)| **logit == f32::INFINITY);
            self.list.extend(certain.map(|(id, _)| Candidate { id, logit: 0.0, weight: 0 }));
        } else {
            let possible = all.filter(|(_, logit)| **logit != f32::NEG_INFINITY);
            // Adding 0 turns -0 into +0, so that they compare as equal.
            self.list.extend(possible.map(|(id, &logit)| Candidate { id, logit: logit + 0.0, weight: 0 }));
        }
        Ok(())
    }

    /// The candidates, at least one, by ascending id.
    pub(super) fn list(&self) -> &[Candidate] {
        &self.list
    }

    /// Changes logits; ids are to stay.
    pub(super) fn list_mut(&mut self) -> &mut [Candidate] {
        &mut self.list
    }

    /// The largest logit.
    pub(super) fn max(&self) -> f32 {
        self.list.iter().fold(f32::NEG_INFINITY, |max, c| max.max(c.logit))
    }

    /// Computes the weights; returns their sum, which is at least 2⁴⁰.
    pub(super) fn weigh(&mut self) -> u64 {
        /// Below this, exp gives less than 2⁻⁴⁰, so the weight is 0.
        const NEGLIGIBLE: f32 = -28.0;
        let max = self.max();
        for c in &mut self.list {
            let x = c.logit - max;
            c.weight = if x < NEGLIGIBLE { 0 } else { (libm::exp(f64::from(x)) * WEIGHT_ONE) as u64 };
        }
        self.list.iter().map(|c| c.weight).sum()
    }

    /// The softmax of the logits, summed in ascending order of token ids, which is the same everywhere.
    pub(super) fn distribution(&mut self) -> Distribution {
        let (total, max) = (self.weigh(), f64::from(self.max()));
        let log_sum = libm::log(total as f64 / WEIGHT_ONE);
        let surprise = |c: &Candidate| log_sum + max - f64::from(c.logit);
        let likely = self.list.iter().filter(|c| c.weight > 0);
        let entropy = likely.map(|c| c.weight as f64 / total as f64 * surprise(c)).sum();
        Distribution { total, log_total: log_sum + max, entropy }
    }

    /// Keeps the candidates that `keep` holds for.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Candidate) -> bool) {
        self.list.retain(keep);
    }

    /// An error that names `what` took the last candidate.
    pub(super) fn require_some(&self, what: &str) -> Result<()> {
        match self.list.is_empty() {
            false => Ok(()),
            true => Err(Error::InvalidArgument(format!("every token is ruled out: {what} leave none"))),
        }
    }

    /// Keeps those that `arrange` puts first in a copy that it may change but for the ids, and says how many those are.
    pub(super) fn keep_first_of(&mut self, arrange: impl FnOnce(&mut [Candidate]) -> usize) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.list);
        let n = arrange(&mut self.scratch).clamp(1, self.scratch.len().max(1));
        self.scratch.truncate(n);
        self.scratch.sort_unstable_by_key(|c| c.id);
        let (scratch, mut n_kept) = (&self.scratch, 0);
        self.list.retain(|c| {
            let keep = scratch.get(n_kept).is_some_and(|kept| kept.id == c.id);
            n_kept += usize::from(keep);
            keep
        });
    }

    /// The token at `r` when the candidates' weights are laid end to end.
    pub(super) fn pick(&self, mut r: u64) -> u32 {
        for c in &self.list {
            if r < c.weight {
                return c.id;
            }
            r -= c.weight;
        }
        self.list.last().map_or(0, |c| c.id)
    }

    /// Keeps what is at least as good as the candidate that `select` finds in a copy it may reorder.
    pub(super) fn keep_down_to(&mut self, select: impl FnOnce(&mut [Candidate]) -> Candidate) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.list);
        let last = select(&mut self.scratch);
        self.list.retain(|c| c.best_first(&last).is_le());
    }
}

/// The largest logit, above `-inf`, and the token that has it, of several the one with the lowest id.
pub(super) fn largest(logits: &[f32]) -> Result<(f32, u32)> {
    if logits.is_empty() || logits.len() > MAX_CANDIDATES {
        let n = logits.len();
        return Err(Error::InvalidArgument(format!(
            "there must be 1 to {MAX_CANDIDATES} logits to sample from, got {n}"
        )));
    }
    let (mut max, mut its_part, mut unordered) = (f32::NEG_INFINITY, 0, false);
    for (i, part) in logits.chunks(PART).enumerate() {
        let (part_max, part_unordered) = largest_of_part(part);
        (max, its_part) = if part_max > max { (part_max, i) } else { (max, its_part) };
        unordered |= part_unordered;
    }
    if unordered {
        let id = logits.iter().position(|logit| logit.is_nan()).unwrap_or(0);
        return Err(Error::InvalidArgument(format!("the logit of token {id} is NaN")));
    }
    if max == f32::NEG_INFINITY {
        return Err(Error::InvalidArgument("every token is ruled out: all logits are -inf".into()));
    }
    let first = its_part * PART;
    let within = logits[first..].iter().position(|&logit| logit == max).unwrap_or(0);
    Ok((max, (first + within) as u32))
}

/// The largest of some logits, and whether one is NaN. Written so that compilers take vectors: many maxima side by side, and whole
/// numbers for what is not ordered.
fn largest_of_part(part: &[f32]) -> (f32, bool) {
    /// The bits of infinity: those of a NaN, without its sign, are larger.
    const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
    let (mut maxima, mut unordered) = ([f32::NEG_INFINITY; LANES], [0; LANES]);
    let (whole, rest) = part.as_chunks::<LANES>();
    for some in whole {
        for (max, &logit) in maxima.iter_mut().zip(some) {
            *max = if logit > *max { logit } else { *max };
        }
        for (unordered, logit) in unordered.iter_mut().zip(some) {
            *unordered |= i32::from(logit.abs().to_bits().cast_signed() > INFINITY);
        }
    }
    let all = maxima.iter().chain(rest);
    let max = all.fold(f32::NEG_INFINITY, |max, &logit| if logit > max { logit } else { max });
    (max, unordered.contains(&1) || rest.iter().any(|logit| logit.is_nan()))
}
