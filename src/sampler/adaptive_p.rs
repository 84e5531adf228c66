//! Adaptive-p: the nearer the probability of a token is to a target, the likelier the token becomes. The target moves against the
//! last choices, so that choices have that probability on average (<https://github.com/ggml-org/llama.cpp/pull/17927>).
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// The distance from the target at which logits have fallen well below the peak.
const WIDTH: f64 = 0.3;
/// The logit of a token whose probability is the target.
const PEAK: f64 = 5.0;
/// How fast logits fall with the distance.
const SHARPNESS: f64 = 10.0;
/// The largest decay: about a hundred tokens.
const MOST_DECAY: f32 = 0.99;

pub(super) fn validate(target: f32, decay: f32) -> Result<()> {
    if !(0.0..=1.0).contains(&target) {
        return Err(super::invalid("target", "0 to 1", target));
    }
    if !(0.0..=MOST_DECAY).contains(&decay) {
        return Err(super::invalid("decay", "0 to 0.99", decay));
    }
    Ok(())
}

/// The state of the stage.
#[derive(Debug, Clone, Default)]
pub(super) struct Average {
    /// The sum of the accepted tokens' probabilities, each weighted `decay` times as much as the next one, and the sum of these
    /// weights.
    sum: f64,
    weight: f64,
    /// The chosen token, until it is accepted, and its probability.
    pending: Option<(u32, f64)>,
}

impl Average {
    /// As if many tokens with the target's probability had been accepted.
    pub(super) fn start(target: f32, decay: f32) -> Average {
        let weight = 1.0 / (1.0 - f64::from(decay));
        Average { sum: f64::from(target) * weight, weight, pending: None }
    }

    /// The target for the next token.
    fn adapted(&self, target: f32) -> f64 {
        (2.0 * f64::from(target) - self.sum / self.weight).clamp(0.0, 1.0)
    }

    /// `token` was chosen, whose probability before the stage was `probability`.
    pub(super) fn choose(&mut self, token: u32, probability: f64) {
        self.pending = Some((token, probability));
    }

    /// `token` is part of the text; it counts if it is the chosen one.
    pub(super) fn accept(&mut self, token: u32, decay: f32) {
        if let Some((chosen, probability)) = self.pending.take()
            && chosen == token
        {
            self.sum = probability + f64::from(decay) * self.sum;
            self.weight = 1.0 + f64::from(decay) * self.weight;
        }
    }
}

/// The candidates' ids and probabilities as they were before the stage.
#[derive(Debug, Default)]
pub(super) struct Before {
    tokens: Vec<(u32, f64)>,
}

impl Before {
    /// The probability of `token`.
    pub(super) fn probability(&self, token: u32) -> f64 {
        self.tokens.binary_search_by_key(&token, |&(id, _)| id).map_or(0.0, |at| self.tokens[at].1)
    }
}

/// Changes the logits; the probabilities before that go to `before`.
pub(super) fn apply(
    candidates: &mut Candidates,
    target: f32,
    average: &Average,
    before: &mut Before,
) -> Result<()> {
    let (n, total) = (candidates.len(), candidates.weigh() as f64);
    before.tokens.clear();
    let reserved = before.tokens.try_reserve(n);
    reserved.map_err(|_| Error::NoMemory(format!("no memory for the probabilities of {n} candidates")))?;
    before.tokens.extend(candidates.iter().map(|c| (c.id, c.weight as f64 / total)));
    let target = average.adapted(target);
    for (logit, (_, probability)) in candidates.logits_mut().1.iter_mut().zip(&before.tokens) {
        let distance = ((probability - target) / WIDTH).abs();
        let changed = PEAK - SHARPNESS * distance * distance / (1.0 + distance);
        *logit = if *logit == f32::NEG_INFINITY { *logit } else { changed as f32 + 0.0 };
    }
    Ok(())
}
