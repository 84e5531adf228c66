//! Penalties for tokens that were there before. Repetition (Keskar et al. 2019, arXiv:1909.05858): a positive logit is
//! divided by the penalty, another multiplied. Frequency and presence (OpenAI's API): the penalty is taken off the logit
//! once for each time the token occurred, or once if it did.
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// The longest history.
const MOST: usize = 1 << 20;
/// Far beyond any logit; keeps sums finite.
const MOST_LOGIT: f32 = 1e30;

/// How tokens that were there before are made less likely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// How many accepted tokens are looked at, the latest ones; 0 for none.
    pub last_n: usize,
    /// Logits are divided by it where positive, else multiplied; 1 changes nothing.
    pub repeat: f32,
    /// Taken off a logit for each time that its token occurred.
    pub frequency: f32,
    /// Taken off the logit of a token that occurred.
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

/// `recent` is the tokens to look at, in ascending order.
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
