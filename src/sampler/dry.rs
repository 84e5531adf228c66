//! DRY, "don't repeat yourself" (p-e-w, github.com/oobabooga/text-generation-webui, pull request 5677): makes a token less likely
//! that would continue a passage which occurred before. The longer the passage is by now, the less likely the token becomes.
#![forbid(unsafe_code)]

use std::collections::TryReserveError;

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// The longest history.
const MOST: usize = 1 << 20;
/// The logarithm of the largest f32, below which the power in the penalty is kept.
const MOST_LOG: f64 = 88.7;

/// How repeated passages are made less likely.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// Subtracted from a logit for a passage of `allowed_length`; 0 changes nothing.
    pub multiplier: f32,
    /// The factor for each further token; at least 1.
    pub base: f32,
    /// The shortest passage that counts, in tokens.
    pub allowed_length: usize,
    /// How many of the latest accepted tokens are searched; 0 for none.
    pub last_n: usize,
    /// Runs of tokens that interrupt passages: line ends, quotation marks. A breaker of a single token is never made less likely.
    pub breakers: Vec<Vec<u32>>,
}

impl Dry {
    pub(super) fn try_clone(&self) -> Result<Dry> {
        let mut breakers = Vec::new();
        let n = self.breakers.len();
        breakers
            .try_reserve_exact(n)
            .map_err(|_| Error::NoMemory(format!("no memory for a copy of a stage's {n} breakers")))?;
        for breaker in &self.breakers {
            breakers.push(super::stage::copied(breaker)?);
        }
        Ok(Dry { breakers, ..*self })
    }
}

/// Scratch.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// For each number of tokens back from the end, the length of the passage that ends both there and at the end.
    lengths: Vec<u32>,
    /// Tokens that followed such a passage, and its length.
    followers: Vec<(u32, u32)>,
}

impl Repeats {
    pub fn try_reserve(&mut self, last_n: usize) -> std::result::Result<(), TryReserveError> {
        self.lengths.try_reserve(last_n)?;
        self.followers.try_reserve(last_n)
    }
}

pub(super) fn validate(dry: &mut Dry) -> Result<()> {
    if !(dry.multiplier.is_finite() && dry.multiplier >= 0.0) {
        return Err(super::invalid("multiplier", "finite and ≥ 0", dry.multiplier));
    }
    if !(dry.base.is_finite() && dry.base >= 1.0) {
        return Err(super::invalid("base", "finite and ≥ 1", dry.base));
    }
    for (name, n) in [("last_n", dry.last_n), ("allowed_length", dry.allowed_length)] {
        if n > MOST {
            return Err(Error::InvalidArgument(format!("{name} must be at most {MOST}, got {n}")));
        }
    }
    dry.breakers.retain(|breaker| !breaker.is_empty());
    dry.breakers.sort_unstable();
    dry.breakers.dedup();
    Ok(())
}

/// `recent` has the tokens to search, the latest last.
pub(super) fn apply(candidates: &mut Candidates, dry: &Dry, recent: &[u32], scratch: &mut Repeats) {
    let n = recent.len();
    let Repeats { lengths, followers } = scratch;
    followers.clear();
    let limit = len_after_breaker(recent, &dry.breakers);
    if n <= dry.allowed_length || limit < dry.allowed_length || dry.multiplier == 0.0 {
        return;
    }
    repeats(recent, lengths);
    for (back, &length) in lengths.iter().enumerate().skip(1) {
        let length = limit.min(length as usize);
        if length >= dry.allowed_length {
            followers.push((recent[n - back], length as u32));
        }
    }
    // By token, the longest passage first.
    followers.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    for same in followers.chunk_by(|a, b| a.0 == b.0) {
        let (token, length) = same[0];
        if dry.breakers.binary_search_by(|breaker| breaker[..].cmp(&[token])).is_err()
            && let Some(logit) = candidates.logit_mut(token)
        {
            *logit = (*logit - penalty(dry, length as usize)).clamp(-1e30, 1e30);
        }
    }
}

fn penalty(dry: &Dry, length: usize) -> f32 {
    let log = libm::log(f64::from(dry.base)) * (length - dry.allowed_length) as f64;
    (f64::from(dry.multiplier) * libm::exp(log.min(MOST_LOG))) as f32
}

/// How many tokens came after the last breaker.
fn len_after_breaker(recent: &[u32], breakers: &[Vec<u32>]) -> usize {
    for (at, token) in recent.iter().enumerate().rev() {
        let first = breakers.partition_point(|breaker| breaker[0] < *token);
        let of_token = breakers[first..].iter().take_while(|breaker| breaker[0] == *token);
        let found = of_token.filter(|breaker| recent[at..].starts_with(breaker)).map(Vec::len).max();
        if let Some(len) = found {
            return recent.len() - at - len;
        }
    }
    recent.len()
}

/// `lengths[k]`: the length of the longest passage that ends both at the end of `recent` and `k` tokens before it. The Z
/// algorithm, from the end, in linear time.
fn repeats(recent: &[u32], lengths: &mut Vec<u32>) {
    let n = recent.len();
    let back = |i: usize| recent[n - 1 - i];
    lengths.clear();
    lengths.resize(n, 0);
    // The stretch `left..right` that is known to equal the one from 0 on.
    let (mut left, mut right) = (0, 0);
    for k in 1..n {
        let known = if k < right { (lengths[k - left] as usize).min(right - k) } else { 0 };
        let mut length = known;
        while k + length < n && back(length) == back(k + length) {
            length += 1;
        }
        if k + length > right {
            (left, right) = (k, k + length);
        }
        lengths[k] = length as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_passages_are_found_in_any_text() {
        let mut state = 5u32;
        for n in 0..60 {
            for symbols in [1, 2, 3] {
                let mut next = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 20) % symbols
                };
                let text: Vec<u32> = (0..n).map(|_| next()).collect();
                let mut lengths = Vec::new();
                repeats(&text, &mut lengths);
                for k in 1..n as usize {
                    let before = &text[..text.len() - k];
                    let same = text.iter().rev().zip(before.iter().rev()).take_while(|(a, b)| a == b);
                    assert_eq!(lengths[k] as usize, same.count(), "{text:?} {k}");
                }
            }
        }
    }

    #[test]
    fn no_passage_goes_beyond_a_breaker() {
        let breakers = [vec![7], vec![8, 9], vec![8, 9, 5]];
        assert_eq!(len_after_breaker(&[1, 2, 3], &breakers), 3);
        assert_eq!(len_after_breaker(&[1, 7, 2, 3], &breakers), 2);
        assert_eq!(len_after_breaker(&[7, 7], &breakers), 0);
        assert_eq!(len_after_breaker(&[8, 9, 1], &breakers), 1);
        assert_eq!(len_after_breaker(&[8, 9, 5, 1], &breakers), 1);
        assert_eq!(len_after_breaker(&[1, 8], &breakers), 2);
    }
}
