//! The stage that keeps the tokens which a constraint allows next.
#![forbid(unsafe_code)]

use super::bias;
use super::candidates::{Candidates, largest};
use super::greedy;
use crate::constrain::{Mask, Run};
use crate::error::{Error, Result};

/// Whether the bit of token `id` is set.
fn is_set(words: &[u32], id: u32) -> bool {
    words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

/// Leaves the candidates that `run` allows.
pub(super) fn apply(candidates: &mut Candidates, run: &mut Run) -> Result<()> {
    match run.mask()? {
        Mask::Free => Ok(()),
        Mask::Deny(ids) => bias::deny(candidates, ids),
        Mask::Allow(words) => {
            candidates.retain(|c| is_set(words, c.id));
            candidates.require_some("the tokens that the constraint allows")
        }
    }
}

/// The token with the largest logit of those that `run` allows.
pub(super) fn arg_max(logits: &[f32], run: &mut Run) -> Result<u32> {
    let best = |allowed: &dyn Fn(u32) -> bool| {
        largest(logits)?;
        let mut best: Option<(f32, u32)> = None;
        for (id, &logit) in (0..).zip(logits) {
            if logit > best.map_or(f32::NEG_INFINITY, |(most, _)| most) && allowed(id) {
                best = Some((logit, id));
            }
        }
        best.map(|(_, id)| id).ok_or_else(|| {
            Error::InvalidArgument(
                "every token is ruled out: the tokens that the constraint allows leave none".into(),
            )
        })
    };
    match run.mask()? {
        Mask::Free => greedy::arg_max(logits),
        Mask::Deny(ids) => best(&|id| ids.binary_search(&id).is_err()),
        Mask::Allow(words) => best(&|id| is_set(words, id)),
    }
}
