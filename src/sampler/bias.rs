//! Changes for single tokens: a number added to the logit, or the token allowed or ruled out.
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// In ascending order of tokens, each one time, with the sum of its biases; finite biases must not add up to infinity.
pub(super) fn sorted_bias(bias: &[(u32, f32)]) -> Result<Vec<(u32, f32)>> {
    if let Some((token, bias)) = bias.iter().find(|(_, b)| b.is_nan() || *b == f32::INFINITY) {
        return Err(Error::InvalidArgument(format!(
            "the bias of token {token} must be finite or -inf, got {bias}"
        )));
    }
    let mut sorted = bias.to_vec();
    sorted.sort_by_key(|(token, _)| *token);
    let mut sums: Vec<(u32, f32)> = Vec::with_capacity(sorted.len());
    for one in sorted.chunk_by(|a, b| a.0 == b.0) {
        let token = one[0].0;
        // No sum of these leaves the range of f64.
        let sum = one.iter().map(|&(_, b)| f64::from(b)).sum::<f64>() as f32;
        let is_ruled_out = one.iter().any(|&(_, b)| b == f32::NEG_INFINITY);
        if sum.is_infinite() && !is_ruled_out {
            return Err(Error::InvalidArgument(format!(
                "the biases of token {token} must be finite or -inf together, got {sum} of {}",
                one.len()
            )));
        }
        sums.push((token, sum));
    }
    Ok(sums)
}

/// In ascending order, each one time.
pub(super) fn sorted_tokens(tokens: &[u32]) -> Vec<u32> {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

pub(super) fn apply(candidates: &mut Candidates, bias: &[(u32, f32)]) -> Result<()> {
    for &(token, bias) in bias {
        if let Some(logit) = candidates.logit_mut(token) {
            *logit = (*logit + bias).min(f32::MAX);
        }
    }
    candidates.require_some("the biases")
}

pub(super) fn allow(candidates: &mut Candidates, tokens: &[u32]) -> Result<()> {
    candidates.retain(|c| tokens.binary_search(&c.id).is_ok());
    candidates.require_some("the list of allowed tokens")
}

pub(super) fn deny(candidates: &mut Candidates, tokens: &[u32]) -> Result<()> {
    candidates.retain(|c| tokens.binary_search(&c.id).is_err());
    candidates.require_some("the list of denied tokens")
}
