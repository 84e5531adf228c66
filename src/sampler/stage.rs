//! What a chain is made of.
#![forbid(unsafe_code)]

use super::{Custom, Dry, Infill, Penalties};
use crate::constrain::Constraint;
use crate::error::{Error, Result};

/// One step of a chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Keeps the token of the largest logit.
    Greedy,
    /// Divides the logits by a temperature: below 1 sharpens, above 1 flattens, 0 is [`Stage::Greedy`].
    Temperature(f32),
    /// A temperature that follows the entropy of the distribution.
    DynamicTemperature {
        /// The middle of the temperatures.
        temperature: f32,
        /// How far they go down (not below 0) and up; 0 for one temperature.
        range: f32,
        /// The power of the entropy's share of the largest one; 1 is linear.
        exponent: f32,
    },
    /// Keeps the given number of largest logits; 0 keeps all.
    TopK(usize),
    /// Keeps the most probable tokens whose probabilities add up to the given share, at least one (nucleus sampling:
    /// Holtzman et al. 2019, arXiv:1904.09751); 1 keeps all.
    TopP(f32),
    /// Keeps tokens that are at least this share as probable as the likeliest; 0 keeps all.
    MinP(f32),
    /// Keeps tokens whose logits are at most so many standard deviations of the candidates' logits below the largest; 0 keeps all.
    TopNSigma(f32),
    /// Keeps the tokens whose surprise is closest to the expected one, of this share together; 1 keeps all.
    TypicalP(f32),
    /// With the given probability removes all tokens that are at least as probable as a threshold but the least likely one.
    Xtc {
        /// How often.
        probability: f32,
        /// Of the probability of a token; above 0.5 there are never two.
        threshold: f32,
    },
    /// Makes tokens less likely that were there before.
    Penalties(Penalties),
    /// Keeps what surprises no more than a bound that follows the surprise `tau`, in bits, at the rate `eta` (version 2). A chain has
    /// one stage of Mirostat's at most, at its end as a rule.
    Mirostat {
        /// The surprise that is wanted.
        tau: f32,
        /// How fast the bound follows.
        eta: f32,
    },
    /// Mirostat's first version: keeps a number of tokens that is estimated from the `m` likeliest.
    Mirostat1 {
        /// The surprise that is wanted.
        tau: f32,
        /// How fast the bound follows.
        eta: f32,
        /// From how many tokens the number is estimated, at least 2; 100 in the paper.
        m: usize,
    },
    /// Makes tokens likely whose probability is near a target, which moves so that accepted tokens have that probability on average. A
    /// chain has one such stage at most, at its end as a rule.
    AdaptiveP {
        /// The probability that is wanted.
        target: f32,
        /// How much an accepted token counts as against the one after it.
        decay: f32,
    },
    /// Leaves the end of a generation unless the model is sure of something else: for gaps in a text.
    Infill(Infill),
    /// Adds to the logits of tokens; `-inf` rules a token out.
    Bias(Vec<(u32, f32)>),
    /// Keeps these tokens only.
    Allow(Vec<u32>),
    /// Rules these tokens out.
    Deny(Vec<u32>),
    /// Makes tokens less likely that would carry on a passage which was there before.
    Dry(Dry),
    /// Does what a function of the host does.
    Custom(Custom),
    /// Keeps the tokens that may be next in a text which follows a constraint. As a rule the first stage: what stands before it
    /// may leave none of these. It is about the tokens that are accepted after [`Sampler::sample`]; any others are a prompt, after
    /// which it begins anew.
    Constraint(Constraint),
}

impl Stage {
    /// A copy. Lists of a host's can be long.
    pub(super) fn try_clone(&self) -> Result<Stage> {
        Ok(match self {
            Stage::Bias(bias) => Stage::Bias(copied(bias)?),
            Stage::Allow(tokens) => Stage::Allow(copied(tokens)?),
            Stage::Deny(tokens) => Stage::Deny(copied(tokens)?),
            Stage::Dry(dry) => Stage::Dry(dry.try_clone()?),
            other => other.clone(),
        })
    }
}

pub(super) fn copied<T: Copy>(list: &[T]) -> Result<Vec<T>> {
    let mut copy = Vec::new();
    let n = list.len();
    copy.try_reserve_exact(n)
        .map_err(|_| Error::NoMemory(format!("no memory for a copy of a stage's {n} tokens")))?;
    copy.extend_from_slice(list);
    Ok(copy)
}
