//! Infill, for filling a gap in a text: the gap stays empty rather than getting text that the model is not sure of. The
//! definition is llama.cpp's (<https://github.com/ggml-org/llama.cpp/pull/9896>). Where ends of generation are likely relative to
//! the number of candidates, they alone are left. Otherwise tokens that begin with another token's text are merged with it, and
//! unlikely ones go. In llama.cpp the sums decide what is left and logits stay; here a token gets the logit of its sum, so that
//! it is drawn that often.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::candidates::{Candidate, Candidates};
use crate::error::{Error, Result};

/// What the stage needs of a vocabulary.
pub trait Vocabulary: Send + Sync {
    /// Whether a token ends a generation.
    fn is_end(&self, token: u32) -> bool;
    /// The bytes of text that a token stands for: none for a control token, or for one that does not exist.
    fn text(&self, token: u32) -> &[u8];
    /// The token that ends a turn, or else a text.
    fn end(&self) -> Option<u32>;
}

/// The vocabulary of the stage. Clones are the same.
#[derive(Clone)]
pub struct Infill {
    vocabulary: Arc<dyn Vocabulary>,
    end: u32,
}

impl Infill {
    /// A stage for this vocabulary; `Unsupported` for one that has no end of turn and none of text.
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Result<Infill> {
        let end = vocabulary.end().ok_or_else(|| {
            Error::Unsupported("infill needs an end of turn or of text, and the tokenizer has neither".into())
        })?;
        Ok(Infill { vocabulary, end })
    }
}

impl fmt::Debug for Infill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }
}

impl PartialEq for Infill {
    fn eq(&self, other: &Infill) -> bool {
        Arc::ptr_eq(&self.vocabulary, &other.vocabulary)
    }
}

/// Tokens with a smaller share of the probability go.
const LEAST: f64 = 0.2;

/// Scratch.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Candidates, the best first, with their weights by now; 0 for one that was merged with another.
    merged: Vec<Candidate>,
    /// Their places, by text.
    by_text: Vec<u32>,
    /// For each its place in `by_text`.
    place: Vec<u32>,
    /// A tree over `by_text` with the least place of those that are left below each node.
    least: Vec<u32>,
}

impl Scratch {
    fn reserve(&mut self, n: usize) -> Result<()> {
        self.merged.clear();
        self.by_text.clear();
        self.place.clear();
        self.least.clear();
        let reserved = self.merged.try_reserve(n).and_then(|()| self.by_text.try_reserve(n));
        let reserved = reserved.and_then(|()| self.place.try_reserve(n));
        reserved
            .and_then(|()| self.least.try_reserve(4 * n.next_power_of_two()))
            .map_err(|_| Error::NoMemory(format!("no memory to merge {n} candidates")))
    }
}

pub(super) fn apply(candidates: &mut Candidates, infill: &Infill, scratch: &mut Scratch) -> Result<()> {
    let is_end = |id: u32| infill.vocabulary.is_end(id);
    let (total, n) = (candidates.weigh(), candidates.len());
    let ends: u64 = candidates.iter().filter(|c| is_end(c.id)).map(|c| c.weight).sum();
    if 3 * u128::from(ends) * n as u128 > u128::from(total - ends) {
        candidates.retain(|c| is_end(c.id));
        return Ok(());
    }
    scratch.reserve(n)?;
    scratch.merged.extend(candidates.iter());
    scratch.merged.sort_unstable_by(Candidate::best_first);
    merge(&*infill.vocabulary, scratch);
    let merged = &mut scratch.merged;
    merged.retain(|c| is_end(c.id) || c.weight as f64 >= LEAST * total as f64);
    let n_text = merged.iter().filter(|c| !is_end(c.id)).count();
    if n_text == 0 {
        candidates.replace(&[Candidate { id: infill.end, logit: 0.0, weight: 0 }]);
        return Ok(());
    }
    let left: u64 = merged.iter().map(|c| c.weight).sum();
    let least = left as f64 / (n_text + 1) as f64;
    merged.retain(|c| is_end(c.id) || c.weight as f64 >= least);
    let max = candidates.max();
    for c in merged.iter_mut().filter(|c| c.weight > 0) {
        let log = libm::log(c.weight as f64 / super::weights::ONE);
        c.logit = (f64::from(max) + log) as f32 + 0.0;
    }
    merged.sort_unstable_by_key(|c| c.id);
    candidates.replace(merged);
    Ok(())
}

/// Merges each token, from the best on, with those whose texts begin with its text, again from the best on, into the likelier of
/// the two. Each visited pair is one token fewer.
fn merge(vocabulary: &dyn Vocabulary, scratch: &mut Scratch) {
    let Scratch { merged, by_text, place, least } = scratch;
    let text = |c: &Candidate| vocabulary.text(c.id);
    by_text.extend(0..merged.len() as u32);
    by_text
        .sort_unstable_by(|&a, &b| text(&merged[a as usize]).cmp(text(&merged[b as usize])).then(a.cmp(&b)));
    place.resize(merged.len(), 0);
    by_text.iter().zip(0..).for_each(|(&at, i)| place[at as usize] = i);
    let n_leaves = merged.len().next_power_of_two();
    least.resize(2 * n_leaves, u32::MAX);
    least[n_leaves..][..merged.len()].copy_from_slice(by_text);
    (1..n_leaves).rev().for_each(|node| least[node] = least[2 * node].min(least[2 * node + 1]));
    for at in 0..merged.len() {
        let beginning = text(&merged[at]);
        if beginning.is_empty() || least[n_leaves + place[at] as usize] == u32::MAX {
            continue;
        }
        // The tokens that begin with it are neighbours, with the shortest first: itself or an equal one.
        let from = by_text.partition_point(|&other| text(&merged[other as usize]) < beginning);
        let n =
            by_text[from..].partition_point(|&other| text(&merged[other as usize]).starts_with(beginning));
        set(least, n_leaves + place[at] as usize, u32::MAX);
        let mut is_left = true;
        while is_left {
            let other = first_of(least, n_leaves + from, n_leaves + from + n);
            if other == u32::MAX {
                break;
            }
            let (mut to, mut gone) = (at, other as usize);
            if merged[gone].weight > merged[to].weight {
                (to, gone) = (gone, to);
                is_left = false;
            } else {
                set(least, n_leaves + place[gone] as usize, u32::MAX);
            }
            merged[to].weight += merged[gone].weight;
            merged[gone].weight = 0;
            merged[gone].logit = f32::NEG_INFINITY;
        }
        if is_left {
            set(least, n_leaves + place[at] as usize, at as u32);
        }
    }
    merged.retain(|c| c.logit > f32::NEG_INFINITY);
}

/// Changes a leaf.
fn set(least: &mut [u32], mut node: usize, value: u32) {
    least[node] = value;
    while node > 1 {
        node /= 2;
        least[node] = least[2 * node].min(least[2 * node + 1]);
    }
}

/// The least of some leaves.
fn first_of(least: &[u32], mut from: usize, mut to: usize) -> u32 {
    let mut first = u32::MAX;
    while from < to {
        if from % 2 == 1 {
            first = first.min(least[from]);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            first = first.min(least[to]);
        }
        (from, to) = (from / 2, to / 2);
    }
    first
}
