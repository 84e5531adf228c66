//! The remaining candidate tokens, always in ascending order of token id.
//!
//! Weights are probabilities as integers (see [`super::weights`]). Sums of integers do not depend on their order, so no stage has
//! to sort for its result to be the same everywhere. A token 2⁴⁰ times less likely than the likeliest has no chance.
//!
//! Ids, logits and weights lie in separate arrays, so that operations on all of them are vectorized. A stage that changes few
//! candidates copies them to a list of its own.
#![forbid(unsafe_code)]

use super::scan::{self, LANES};
use super::weights;
use crate::error::{Error, Result};
use std::array;
use std::cmp::Ordering;
use std::ops::Range;

/// The most candidates whose weights are certain to add up within 64 bits.
const MAX_CANDIDATES: usize = (1 << 24) - 1;

/// Candidates that a draw passes in one step.
const PICKED: usize = 256;

/// A token that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
    /// 0 before [`Candidates::weigh`], and for [`Candidates::retain`].
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
    /// The largest logit, and the logarithm of the sum of the exponentials of the logits minus that one. They are two numbers,
    /// since their sum would lose the second where logits are huge.
    max: f64,
    log_sum: f64,
    /// In natural units.
    pub(super) entropy: f64,
}

impl Distribution {
    /// How much a token with `logit` surprises, in natural units.
    pub(super) fn surprise(&self, logit: f32) -> f64 {
        self.log_sum + (self.max - f64::from(logit))
    }
}

/// The candidates, and space for copies of some that a selection may shuffle.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    ids: Vec<u32>,
    logits: Vec<f32>,
    /// Of all candidates, or empty.
    weights: Vec<u64>,
    some: Vec<Candidate>,
}

impl Candidates {
    /// Starts over with all tokens except those that an infinite logit rules out; with the `best` ones alone, if that is not 0.
    /// Leaves at least one candidate; each has a logit that is a number and below `+inf`. `NoMemory` where there are too many.
    pub(super) fn fill(&mut self, logits: &[f32], best: usize) -> Result<()> {
        let (max, _) = largest(logits)?;
        let n = logits.len();
        let no_memory = |_| Error::NoMemory(format!("no memory for {n} candidates"));
        self.ids.clear();
        self.ids.try_reserve(n).map_err(no_memory)?;
        self.logits.clear();
        self.logits.try_reserve(n).map_err(no_memory)?;
        self.weights.clear();
        self.weights.try_reserve(n).map_err(no_memory)?;
        self.some.clear();
        self.some.try_reserve(n).map_err(no_memory)?;
        if max == f32::INFINITY {
            self.ids.extend(0..logits.len() as u32);
            self.logits.extend_from_slice(logits);
            self.retain(|c| c.logit == f32::INFINITY);
            self.logits.fill(0.0);
            self.keep_best(if best > 0 { best } else { usize::MAX });
        } else if best > 0 {
            collect_best(best, Some(f32::NEG_INFINITY), logits, |at| at as u32, &mut self.some);
            self.ids.extend(self.some.iter().map(|c| c.id));
            self.logits.extend(self.some.iter().map(|c| c.logit));
        } else {
            self.ids.extend(0..logits.len() as u32);
            // Adding 0 turns -0 into +0, so that they compare as equal.
            self.logits.extend(logits.iter().map(|logit| logit + 0.0));
            self.drop_impossible();
        }
        Ok(())
    }

    /// As [`Candidates::fill`], with only the tokens whose bits are set in `words`: token `i` is bit `i % 32` of word `i / 32`.
    pub(super) fn fill_allowed(&mut self, logits: &[f32], words: &[u32]) -> Result<()> {
        largest(logits)?;
        let n: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        let no_memory = |_| Error::NoMemory(format!("no memory for {n} candidates"));
        self.ids.clear();
        self.ids.try_reserve(n).map_err(no_memory)?;
        self.logits.clear();
        self.logits.try_reserve(n).map_err(no_memory)?;
        self.weights.clear();
        self.weights.try_reserve(n).map_err(no_memory)?;
        self.some.clear();
        self.some.try_reserve(n).map_err(no_memory)?;
        for ((at, part), word) in logits.chunks(32).enumerate().zip(words) {
            let mut word = *word;
            while word != 0 {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                if let Some(logit) = part.get(bit) {
                    self.ids.push((32 * at + bit) as u32);
                    // As in `fill`: zeros of both signs are equal.
                    self.logits.push(logit + 0.0);
                }
            }
        }
        if self.max() == f32::INFINITY {
            self.retain(|c| c.logit == f32::INFINITY);
            self.logits.fill(0.0);
        }
        self.require_some("the tokens that the constraint allows")
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The ids, and the logits, which callers may change: not to NaN or `+inf`, and not to -0, which would be less than +0.
    pub(super) fn logits_mut(&mut self) -> (&[u32], &mut [f32]) {
        self.weights.clear();
        (&self.ids, &mut self.logits)
    }

    /// The logit of token `id`, which callers may change as those of [`Candidates::logits_mut`], if it is a candidate.
    pub(super) fn logit_mut(&mut self, id: u32) -> Option<&mut f32> {
        self.weights.clear();
        // While no candidate has been removed, a token's id is its place.
        let is_it = |&at: &usize| self.ids.get(at) == Some(&id);
        let at = Some(id as usize).filter(is_it).or_else(|| self.ids.binary_search(&id).ok())?;
        self.logits.get_mut(at)
    }

    /// All of them, at least one, by ascending id.
    pub(super) fn iter(&self) -> impl Iterator<Item = Candidate> {
        (0..self.len()).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> Candidate {
        let weight = self.weights.get(at).copied().unwrap_or(0);
        Candidate { id: self.ids[at], logit: self.logits[at], weight }
    }

    /// The largest logit.
    pub(super) fn max(&self) -> f32 {
        scan::max(&self.logits)
    }

    /// Computes the weights and returns their sum: at least 2⁴⁰, as long as some candidate is not ruled out.
    pub(super) fn weigh(&mut self) -> u64 {
        weights::of(&self.logits, self.max(), &mut self.weights)
    }

    /// The softmax of the logits, summed in ascending order of token ids, which is the same everywhere.
    pub(super) fn distribution(&mut self) -> Distribution {
        let (total, max) = (self.weigh(), f64::from(self.max()));
        let log_sum = libm::log(total as f64 / weights::ONE);
        let mut distribution = Distribution { total, max, log_sum, entropy: 0.0 };
        let likely = self.iter().filter(|c| c.weight > 0);
        let part = |c: Candidate| c.weight as f64 / total as f64 * distribution.surprise(c.logit);
        distribution.entropy = likely.map(part).sum();
        distribution
    }

    /// Keeps the candidates that `keep` holds for. `keep` gets no weights, and may be asked about candidates that do not exist.
    pub(super) fn retain(&mut self, keep: impl Fn(Candidate) -> bool) {
        let (mut n_kept, n) = (0, self.len());
        for first in (0..n).step_by(LANES) {
            let len = LANES.min(n - first);
            let (ids, logits) = (lanes(&self.ids[first..]), lanes(&self.logits[first..]));
            let keeps: [u32; LANES] =
                array::from_fn(|i| u32::from(keep(Candidate { id: ids[i], logit: logits[i], weight: 0 })));
            // Mostly few are kept.
            if keeps.iter().sum::<u32>() == 0 {
                continue;
            }
            for i in 0..len {
                (self.ids[n_kept], self.logits[n_kept]) = (ids[i], logits[i]);
                n_kept += keeps[i] as usize;
            }
        }
        self.truncate(n_kept);
    }

    /// Leaves out those whose logit is `-inf`.
    fn drop_impossible(&mut self) {
        if scan::any(&self.logits, |logit| logit == f32::NEG_INFINITY) {
            self.retain(|c| c.logit != f32::NEG_INFINITY);
        }
    }

    /// As [`Candidates::drop_impossible`]; an error that names `what` took the last candidate.
    pub(super) fn require_some(&mut self, what: &str) -> Result<()> {
        self.drop_impossible();
        match self.ids.is_empty() {
            false => Ok(()),
            true => Err(Error::InvalidArgument(format!("every token is ruled out: {what} leave none"))),
        }
    }

    fn truncate(&mut self, n: usize) {
        self.ids.truncate(n);
        self.logits.truncate(n);
        self.weights.clear();
    }

    /// Keeps the candidates that `arrange` puts first in a copy, and returns their number. `arrange` may change the copy except
    /// the ids.
    pub(super) fn keep_first_of(&mut self, arrange: impl FnOnce(&mut [Candidate]) -> usize) {
        self.copy_of(f32::NEG_INFINITY..f32::INFINITY);
        let n = arrange(&mut self.some).clamp(1, self.some.len().max(1));
        self.some.truncate(n);
        self.some.sort_unstable_by_key(|c| c.id);
        let mut from = 0;
        for (to, c) in self.some.iter().enumerate() {
            from += self.ids[from..].iter().take_while(|&&id| id != c.id).count();
            (self.ids[to], self.logits[to]) = (self.ids[from], self.logits[from]);
        }
        self.truncate(self.some.len());
    }

    /// Replaces the candidates by these, which are not more, by ascending id.
    pub(super) fn replace(&mut self, by: &[Candidate]) {
        self.truncate(0);
        self.ids.extend(by.iter().map(|c| c.id));
        self.logits.extend(by.iter().map(|c| c.logit));
    }

    /// Keeps the `k` best, if there are more; `k` is at least 1.
    pub(super) fn keep_best(&mut self, k: usize) {
        if k >= self.len() {
            return;
        }
        collect_best(k, None, &self.logits, |at| self.ids[at], &mut self.some);
        for (to, c) in self.some.iter().enumerate() {
            (self.ids[to], self.logits[to]) = (c.id, c.logit);
        }
        self.truncate(k);
    }

    /// The sum of the weights of candidates with logits of at least `least`, and their number.
    pub(super) fn weight_from(&self, least: f32) -> (u64, usize) {
        scan::weight_from(&self.logits, &self.weights, least)
    }

    /// Copies of the candidates with logits in `range`, which the caller may shuffle.
    pub(super) fn copy_of(&mut self, range: Range<f32>) -> &mut [Candidate] {
        self.some.clear();
        for first in (0..self.len()).step_by(LANES) {
            let these = first..self.len().min(first + LANES);
            if scan::any(&self.logits[these.clone()], |logit| range.contains(&logit)) {
                for at in these.filter(|&at| range.contains(&self.logits[at])) {
                    let c = self.at(at);
                    self.some.push(c);
                }
            }
        }
        &mut self.some
    }

    /// The candidate at `r` when their weights are laid end to end; the sum of the weights is more than `r`.
    pub(super) fn pick(&self, mut r: u64) -> Option<Candidate> {
        // Batches first, which take fewer instructions than one candidate after another.
        let many = self.weights.chunks(PICKED).take_while(|weights| {
            let sum = weights.iter().sum();
            let passes = r >= sum;
            r -= if passes { sum } else { 0 };
            passes
        });
        let first = many.count() * PICKED;
        let rest = self.weights.get(first..).unwrap_or_default();
        let within = rest.iter().take_while(|&&weight| {
            let passes = r >= weight;
            r -= if passes { weight } else { 0 };
            passes
        });
        let at = first + within.count();
        (at < self.len()).then(|| self.at(at))
    }
}

/// The first elements, padded with zeros.
#[inline(always)]
fn lanes<T: Copy + Default>(from: &[T]) -> [T; LANES] {
    from.first_chunk().copied().unwrap_or_else(|| {
        let mut lanes = [T::default(); LANES];
        lanes[..from.len()].copy_from_slice(from);
        lanes
    })
}

/// Puts the `k` best candidates with logits above `least` into `some`, by ascending id.
fn collect_best(
    k: usize,
    mut least: Option<f32>,
    logits: &[f32],
    id: impl Fn(usize) -> u32,
    some: &mut Vec<Candidate>,
) {
    some.clear();
    let most = k.saturating_mul(2).max(64);
    for (i, part) in logits.chunks(LANES).enumerate() {
        if least.is_some_and(|least| !scan::any(part, |logit| logit > least)) {
            continue;
        }
        for (at, &logit) in (i * LANES..).zip(part) {
            if least.is_none_or(|least| logit > least) {
                // As in `fill`: zeros of both signs are equal.
                some.push(Candidate { id: id(at), logit: logit + 0.0, weight: 0 });
            }
        }
        if some.len() >= most {
            // Later candidates have higher ids, so they must exceed the last of the best.
            keep_best_of(some, k);
            least = Some(some[k - 1].logit);
        }
    }
    keep_best_of(some, k);
    some.sort_unstable_by_key(|c| c.id);
}

/// Keeps the `k` best, the last of them at the end.
fn keep_best_of(some: &mut Vec<Candidate>, k: usize) {
    if k < some.len() {
        some.select_nth_unstable_by(k - 1, Candidate::best_first);
        some.truncate(k);
    }
}

/// The largest logit, above `-inf`, and its token, of several the one with the lowest id.
pub(super) fn largest(logits: &[f32]) -> Result<(f32, u32)> {
    if logits.is_empty() || logits.len() > MAX_CANDIDATES {
        let n = logits.len();
        return Err(Error::InvalidArgument(format!(
            "there must be 1 to {MAX_CANDIDATES} logits to sample from, got {n}"
        )));
    }
    match scan::largest(logits) {
        (_, true) => {
            let id = logits.iter().position(|logit| logit.is_nan()).unwrap_or(0);
            Err(Error::InvalidArgument(format!("the logit of token {id} is NaN")))
        }
        (Some((max, id)), false) => Ok((max, id as u32)),
        (None, false) => Err(Error::InvalidArgument("every token is ruled out: all logits are -inf".into())),
    }
}
