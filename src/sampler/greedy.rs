//! Greedy: the largest logit, of equal ones the lowest token id.
#![forbid(unsafe_code)]

use super::candidates::{Candidates, largest};
use crate::error::Result;

/// The token of the largest logit, without a list of candidates.
pub(super) fn arg_max(logits: &[f32]) -> Result<u32> {
    largest(logits).map(|(_, token)| token)
}

pub(super) fn apply(candidates: &mut Candidates) {
    super::top_k::apply(candidates, 1);
}
