//! Penalties for tokens that occurred before. Repetition (Keskar et al. 2019, arXiv:1909.05858): a positive logit is divided by
//! the penalty, another multiplied. Frequency and presence (OpenAI's API): frequency is subtracted from the logit for each time
//! that the token occurred, presence one time if it did.
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// The longest history.
const MOST: usize = 1 << 20;
/// Far beyond any logit; keeps sums finite.
const MOST_LOGIT: f32 = 1e30;

/// How tokens that occurred before are made less likely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// How many of the latest accepted tokens count; 0 for none.
    pub last_n: usize,
    /// Logits are divided by it where positive, else multiplied; 1 changes nothing.
    pub repeat: f32,
    /// Subtracted from a logit for each time that its token occurred.
    pub frequency: f32,
    /// Subtracted from the logit of a token that occurred.
    pub presence: f32,
}

pub(super) fn validate(penalties: &Penalties) -> Result<()> {
    let Penalties { last_n, repeat, frequency, presence } = *penalties;
    if last_n > MOST {
        return Err(Error::InvalidArgument(format!("last_n must be at most {MOST}, got {last_n}")));
    }
    if !(repeat.is_finite() && repeat > 0.0) {
        return Err(super::invalid("repeat", "finite and above 0", repeat));
    }
    for (name, value) in [("frequency", frequency), ("presence", presence)] {
        if !value.is_finite() {
            return Err(super::invalid(name, "finite", value));
        }
    }
    Ok(())
}

/// `recent` has the tokens that count, in ascending order.
pub(super) fn apply(candidates: &mut Candidates, penalties: &Penalties, recent: &[u32]) {
    let Penalties { repeat, frequency, presence, .. } = *penalties;
    if (repeat, frequency, presence) == (1.0, 0.0, 0.0) {
        return;
    }
    for same in recent.chunk_by(|a, b| a == b) {
        if let Some(logit) = candidates.logit_mut(same[0]) {
            let repeated = if *logit <= 0.0 { *logit * repeat } else { *logit / repeat };
            let penalty = same.len() as f32 * frequency + presence;
            // Adding 0 turns -0 into +0, as in `Candidates::fill`.
            *logit = (repeated.clamp(-MOST_LOGIT, MOST_LOGIT) - penalty).clamp(-MOST_LOGIT, MOST_LOGIT) + 0.0;
        }
    }
}
