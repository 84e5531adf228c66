//! The stages of a chain.
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
    /// Keeps tokens whose logits are at most this many standard deviations of the candidates' logits below the largest; 0 keeps
    /// all.
    TopNSigma(f32),
    /// Keeps the tokens whose surprise is closest to the expected one, up to this share of the probability; 1 keeps all.
    TypicalP(f32),
    /// With the given probability, removes all tokens that are at least as probable as a threshold, except the least likely of
    /// them.
    Xtc {
        /// How frequently it happens.
        probability: f32,
        /// The threshold for the probability of a token; above 0.5 there are never two.
        threshold: f32,
    },
    /// Makes tokens less likely that occurred before.
    Penalties(Penalties),
    /// Keeps tokens whose surprise is at most a bound, which follows the surprise `tau`, in bits, at the rate `eta` (version 2).
    /// A chain has at most one Mirostat stage, usually at its end.
    Mirostat {
        /// The wanted surprise.
        tau: f32,
        /// How fast the bound follows.
        eta: f32,
    },
    /// Mirostat's first version: keeps a number of tokens that is estimated from the `m` likeliest.
    Mirostat1 {
        /// The wanted surprise.
        tau: f32,
        /// How fast the bound follows.
        eta: f32,
        /// From how many tokens the number is estimated, at least 2; 100 in the paper.
        m: usize,
    },
    /// Makes tokens likely whose probability is near a target, which moves so that accepted tokens have that probability on
    /// average. A chain has at most one such stage, usually at its end.
    AdaptiveP {
        /// The wanted probability.
        target: f32,
        /// The weight of an accepted token relative to the next one.
        decay: f32,
    },
    /// Leaves only the end of a generation unless the model is sure of something else: for gaps in a text.
    Infill(Infill),
    /// Adds to the logits of tokens; `-inf` rules a token out.
    Bias(Vec<(u32, f32)>),
    /// Keeps these tokens only.
    Allow(Vec<u32>),
    /// Rules these tokens out.
    Deny(Vec<u32>),
    /// Makes tokens less likely that would continue a passage which occurred before.
    Dry(Dry),
    /// Calls a function of the host.
    Custom(Custom),
    /// Keeps the tokens that may be next in a text which follows a constraint. Usually the first stage: a stage before it may
    /// leave none of these. It follows the tokens that are accepted after [`Sampler::sample`]; any others are a prompt, after
    /// which it begins anew.
    Constraint(Constraint),
}

impl Stage {
    /// A copy, which may fail: lists of a host can be long.
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
