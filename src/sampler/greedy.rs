//! Greedy: the largest logit, of equal ones the lowest token id.
#![forbid(unsafe_code)]

use super::candidates::{Candidates, largest};
use crate::error::Result;

/// Logits that are looked at together.
const PART: usize = 256;

/// The token of the largest logit, without a list of candidates.
pub(super) fn arg_max(logits: &[f32]) -> Result<u32> {
    let max = largest(logits)?;
    // Whole parts first, which take fewer instructions than one after another.
    let has_it = |part: &[f32]| part.iter().fold(false, |found, &logit| found | (logit == max));
    let first = logits.chunks(PART).position(has_it).unwrap_or(0) * PART;
    let within = logits[first..].iter().position(|&logit| logit == max).unwrap_or(0);
    Ok((first + within) as u32)
}

pub(super) fn apply(candidates: &mut Candidates) {
    super::top_k::apply(candidates, 1);
}
