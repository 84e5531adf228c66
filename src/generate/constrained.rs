//! Constraints in a generation: where they begin, and which tokens they force.
#![forbid(unsafe_code)]

use super::generator::Generator;
use super::{GenerateOptions, MAX_FORCED};
use crate::constrain::{Constraint, Progress, Run};
use crate::error::{Error, Result};
use crate::model::LoadedModel;
use crate::sampler::Sampler;

/// Begins a text under `constraint`.
pub(super) fn begin(constraint: &Constraint, model: &LoadedModel, options: &GenerateOptions) -> Result<Run> {
    check(constraint, model, options)?;
    Ok(constraint.start())
}

/// `InvalidArgument` for a constraint of another model, or one whose end would not end the generation.
fn check(constraint: &Constraint, model: &LoadedModel, options: &GenerateOptions) -> Result<()> {
    constraint.check_vocabulary(model.vocabulary()?)?;
    match options.ignore_eog {
        true => Err(Error::InvalidArgument(
            "ignore_eog does not go with a constraint, which ends with a token that ends the generation"
                .into(),
        )),
        false => Ok(()),
    }
}

/// How many of the tokens `ids` all constraints allow one after the other.
pub(super) fn viable(ids: &[u32], run: Option<&mut Run>, sampler: &mut Sampler) -> usize {
    let runs = sampler.runs().iter_mut().chain(run);
    runs.map(|run| run.viable(ids)).min().unwrap_or(ids.len())
}

impl Generator {
    /// The prompt has run, and the first token is chosen next.
    pub(super) fn begin(&mut self, sampler: &mut Sampler) -> Result<()> {
        for run in sampler.runs() {
            check(run.constraint(), &self.model, &self.options)?;
        }
        self.usage.progress = Progress::of(sampler.runs().iter_mut().chain(&mut self.constrained));
        Ok(())
    }

    /// Token `id` was chosen, and the sampler has accepted it.
    pub(super) fn accept_constrained(&mut self, id: u32, sampler: &mut Sampler) {
        if let Some(run) = &mut self.constrained {
            run.accept(id);
        }
        self.usage.progress = Progress::of(sampler.runs().iter_mut().chain(&mut self.constrained));
    }

    /// The tokens that the constraint forces next, `most` at most. Where several constraints hold, none are returned.
    pub(super) fn forced_run(&mut self, sampler: &mut Sampler, most: usize) -> Vec<u32> {
        match (sampler.runs(), &mut self.constrained) {
            ([], Some(run)) | ([run], None) => run.forced(most),
            _ => Vec::new(),
        }
    }

    /// The next token, if the constraint forces one and no option needs the logits: then
    /// [`Choice::Forced`](super::Choice::Forced) is enough for [`Generator::take`], before [`Generator::feed`] has run.
    pub fn forced(&mut self, sampler: &mut Sampler, n_ctx: usize) -> Option<u32> {
        let asks_nothing = !self.options.logprobs && self.options.n_top == 0 && sampler.takes_the_only();
        let fits = self.tokens.len() < n_ctx && self.feed().len() < MAX_FORCED;
        if !asks_nothing || !fits || self.settled().is_some() {
            return None;
        }
        let id = self.forced_run(sampler, 1).first().copied()?;
        self.usage.n_forced += 1;
        Some(id)
    }
}
