//! Choosing the next token: an ordered chain of stages that narrow or reweigh the candidates, then one draw.
//!
//! A logit of `-inf` rules its token out; one of `+inf` rules out all tokens without one; NaN is an error. Candidates
//! are compared by logit, equal ones by token id, the lower id first. Probabilities are whole numbers in units of 2⁻⁴⁰ of
//! the largest, and the random numbers are those of xoshiro256++ seeded through SplitMix64, so that the same logits,
//! chain and seed give the same tokens on every machine.
#![forbid(unsafe_code)]

mod candidates;
mod greedy;
mod rng;
mod temperature;
#[cfg(test)]
mod tests;
mod top_k;
mod top_p;

use crate::error::{Error, Result};
use candidates::Candidates;
use rng::Rng;

/// One step of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stage {
    /// Keeps the token of the largest logit.
    Greedy,
    /// Divides the logits by a temperature: below 1 sharpens, above 1 flattens, 0 is [`Stage::Greedy`].
    Temperature(f32),
    /// Keeps the given number of largest logits; 0 keeps all.
    TopK(usize),
    /// Keeps the most probable tokens whose probabilities add up to the given share, at least one (nucleus sampling:
    /// Holtzman et al. 2019, arXiv:1904.09751); 1 keeps all.
    TopP(f32),
}

/// A chain of stages with its own random state. After the first call at a given vocabulary size it allocates nothing.
#[derive(Debug, Clone)]
pub struct Sampler {
    stages: Vec<Stage>,
    seed: u64,
    rng: Rng,
    candidates: Candidates,
}

impl Sampler {
    /// An empty chain, which draws from the softmax of the logits.
    pub fn new(seed: u64) -> Sampler {
        Sampler { stages: Vec::new(), seed, rng: Rng::new(seed), candidates: Candidates::default() }
    }

    /// Appends a stage.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names a parameter that is out of range; the chain stays as it is.
    pub fn push(&mut self, stage: Stage) -> Result<()> {
        match stage {
            Stage::Temperature(t) => temperature::validate(t)?,
            Stage::TopP(p) => top_p::validate(p)?,
            Stage::Greedy | Stage::TopK(_) => {}
        }
        self.stages.push(stage);
        Ok(())
    }

    /// The stages, in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The seed of the random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts the random numbers over.
    pub fn reset(&mut self) {
        self.rng = Rng::new(self.seed);
    }

    /// Chooses a token given one logit per token. Takes one random number if more than one candidate is left.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are no logits or 2²⁴ and more, if one is NaN, or if all are `-inf`.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        if self.is_greedy() {
            return greedy::arg_max(logits);
        }
        self.candidates.fill(logits)?;
        for &stage in &self.stages {
            match stage {
                Stage::Greedy => greedy::apply(&mut self.candidates),
                Stage::Temperature(t) => temperature::apply(&mut self.candidates, t),
                Stage::TopK(k) => top_k::apply(&mut self.candidates, k),
                Stage::TopP(p) => top_p::apply(&mut self.candidates, p),
            }
        }
        if let [only] = self.candidates.list() {
            return Ok(only.id);
        }
        let total = self.candidates.weigh();
        Ok(self.candidates.pick(self.rng.below(total)))
    }

    /// Whether the chain comes down to the largest logit: a greedy stage with nothing before it that could change
    /// which logit that is.
    fn is_greedy(&self) -> bool {
        let narrows = |stage: &&Stage| matches!(stage, Stage::TopK(_) | Stage::TopP(_));
        matches!(self.stages.iter().find(|s| !narrows(s)), Some(Stage::Greedy | Stage::Temperature(0.0)))
    }
}

/// The error for a stage's parameter: what it must be and what it is.
fn invalid(parameter: &str, rule: &str, got: f32) -> Error {
    Error::InvalidArgument(format!("{parameter} must be {rule}, got {got}"))
}
