//! Choosing the next token: an ordered chain of stages that narrow or reweigh the candidates, then one draw.
//!
//! A logit of `-inf` rules its token out; one of `+inf` rules out all tokens without one; NaN is an error. Candidates
//! are compared by logit, equal ones by token id, the lower id first. Probabilities are integers in units of 2⁻⁴⁰ of
//! the largest, and the random numbers are those of xoshiro256++ seeded through SplitMix64, so that the same logits,
//! chain and seed give the same tokens on every machine.
#![forbid(unsafe_code)]

mod adaptive_p;
mod bias;
mod candidates;
mod constraint;
mod custom;
mod dry;
mod dynamic_temperature;
pub(crate) mod exp;
mod greedy;
mod infill;
mod min_p;
mod mirostat;
mod mirostat_1;
#[cfg(test)]
mod newer_tests;
mod penalties;
mod rng;
pub(crate) mod scan;
mod stage;
mod temperature;
#[cfg(test)]
mod tests;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical_p;
mod weights;
mod xtc;

use std::collections::VecDeque;

use crate::constrain::{Mask, Run};
use crate::error::{Error, Result};
use adaptive_p::{Average, Before};
use candidates::Candidates;
pub use custom::Custom;
pub use dry::Dry;
use dry::Repeats;
pub use infill::{Infill, Vocabulary};
pub use penalties::Penalties;
use rng::Rng;
pub use stage::Stage;

/// The most stages of a chain.
pub const MOST_STAGES: usize = 1000;

/// A chain of stages with its own random state. After the first call at a given vocabulary size it allocates nothing.
#[derive(Debug)]
pub struct Sampler {
    stages: Vec<Stage>,
    seed: u64,
    rng: Rng,
    candidates: Candidates,
    /// The latest accepted tokens, as many as the stages need.
    history: VecDeque<u32>,
    n_history: usize,
    /// How many of them, the latest, were generated, and whether frequency and presence count only those.
    n_generated: usize,
    generated_only: bool,
    /// A buffer for a part of the history.
    recent: Vec<u32>,
    repeats: Repeats,
    /// The bound of the stage [`Stage::Mirostat`] or [`Stage::Mirostat1`].
    bound: f64,
    /// How many logits there are.
    n_vocab: usize,
    /// The state of the stage [`Stage::AdaptiveP`], and its scratch.
    average: Average,
    before: Before,
    /// The scratch of the stage [`Stage::Infill`].
    merging: infill::Scratch,
    /// One for each stage [`Stage::Constraint`], in order.
    runs: Vec<Run>,
    /// Whether the next token that is accepted is the one that was sampled.
    has_sampled: bool,
}

impl Sampler {
    /// An empty chain, which draws from the softmax of the logits.
    pub fn new(seed: u64) -> Sampler {
        Sampler {
            stages: Vec::new(),
            seed,
            rng: Rng::new(seed),
            candidates: Candidates::default(),
            history: VecDeque::new(),
            n_history: 0,
            n_generated: 0,
            generated_only: false,
            recent: Vec::new(),
            repeats: Repeats::default(),
            bound: 0.0,
            n_vocab: 0,
            average: Average::default(),
            before: Before::default(),
            merging: infill::Scratch::default(),
            runs: Vec::new(),
            has_sampled: false,
        }
    }

    /// A chain with the same stages that will give the same tokens; it begins with scratch of its own.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_clone(&self) -> Result<Sampler> {
        let (rng, average) = (self.rng.clone(), self.average.clone());
        let mut copy = Sampler { rng, average, bound: self.bound, ..Sampler::new(self.seed) };
        let stages = self.stages.iter();
        let most_dry =
            stages.filter_map(|stage| if let Stage::Dry(dry) = stage { Some(dry.last_n) } else { None });
        copy.remember(self.n_history, most_dry.max().unwrap_or(0))?;
        for stage in &self.stages {
            copy.stages.push(stage.try_clone()?);
        }
        copy.history.extend(&self.history);
        copy.runs.extend(self.runs.iter().cloned());
        (copy.has_sampled, copy.n_generated) = (self.has_sampled, self.n_generated);
        copy.generated_only = self.generated_only;
        Ok(copy)
    }

    /// As [`Sampler::try_clone`], but with the random numbers of the seed that is `i` larger, from their beginning; after the
    /// largest seed comes 0.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn with_seed_offset(&self, i: u64) -> Result<Sampler> {
        let seed = self.seed.wrapping_add(i);
        Ok(Sampler { seed, rng: Rng::new(seed), ..self.try_clone()? })
    }

    /// Whether another stage fits.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are [`MOST_STAGES`].
    pub fn check_capacity(&self) -> Result<()> {
        match self.stages.len() < MOST_STAGES {
            true => Ok(()),
            false => Err(Error::InvalidArgument(format!("a chain has at most {MOST_STAGES} stages"))),
        }
    }

    /// Appends a stage.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names a parameter that is out of range, and says when there are [`MOST_STAGES`];
    /// [`Error::NoMemory`]. The chain stays as it is.
    pub fn push(&mut self, mut stage: Stage) -> Result<()> {
        self.check_capacity()?;
        match &mut stage {
            Stage::Temperature(t) => temperature::validate(*t)?,
            Stage::DynamicTemperature { temperature, range, exponent } => {
                dynamic_temperature::validate(*temperature, *range, *exponent)?;
            }
            Stage::TopP(p) => top_p::validate(*p)?,
            Stage::MinP(p) => min_p::validate(*p)?,
            Stage::TopNSigma(n) => top_n_sigma::validate(*n)?,
            Stage::TypicalP(p) => typical_p::validate(*p)?,
            Stage::Xtc { probability, threshold } => xtc::validate(*probability, *threshold)?,
            Stage::Penalties(penalties) => {
                penalties::validate(penalties)?;
                self.remember(penalties.last_n, 0)?;
            }
            Stage::Dry(dry) => {
                dry::validate(dry)?;
                self.remember(dry.last_n, dry.last_n)?;
            }
            Stage::Mirostat { tau, eta } => {
                mirostat::validate(*tau, *eta)?;
                self.begin_mirostat(*tau)?;
            }
            Stage::Mirostat1 { tau, eta, m } => {
                mirostat_1::validate(*tau, *eta, *m)?;
                self.begin_mirostat(*tau)?;
            }
            Stage::AdaptiveP { target, decay } => {
                adaptive_p::validate(*target, *decay)?;
                if self.adaptive_p().is_some() {
                    return Err(Error::InvalidArgument("the chain has an adaptive-p stage already".into()));
                }
                self.average = Average::start(*target, *decay);
            }
            Stage::Bias(bias) => *bias = bias::sorted_bias(bias)?,
            Stage::Allow(tokens) | Stage::Deny(tokens) => *tokens = bias::sorted_tokens(tokens),
            Stage::Constraint(constraint) => self.runs.push(constraint.start()),
            Stage::Greedy | Stage::TopK(_) | Stage::Custom(_) | Stage::Infill(_) => {}
        }
        self.stages.push(stage);
        Ok(())
    }

    /// Whether the penalties of frequency and presence count only the tokens that were generated since the last one of a prompt,
    /// as in OpenAI's API. A new sampler counts all accepted tokens. The penalty of repetition always does.
    pub fn set_penalties_generated_only(&mut self, generated_only: bool) {
        self.generated_only = generated_only;
    }

    /// Sets the bound of the Mirostat stage, of which a chain has one at most.
    fn begin_mirostat(&mut self, tau: f32) -> Result<()> {
        if self.mirostat().is_some() {
            return Err(Error::InvalidArgument("the chain has a Mirostat stage already".into()));
        }
        self.bound = mirostat::start(tau);
        Ok(())
    }

    /// Keeps at least the latest `last_n` accepted tokens, with capacity to search `n_dry` for repeats.
    fn remember(&mut self, last_n: usize, n_dry: usize) -> Result<()> {
        let n = self.n_history.max(last_n);
        let outcome = self.history.try_reserve(n.saturating_sub(self.history.len()));
        let outcome = outcome.and_then(|()| self.recent.try_reserve(n));
        let no_memory = |_| Error::NoMemory(format!("no memory for the last {n} accepted tokens (last_n)"));
        outcome.and_then(|()| self.repeats.try_reserve(n_dry)).map_err(no_memory)?;
        self.n_history = n;
        Ok(())
    }

    /// Copies the latest `last_n` accepted tokens to `recent`.
    fn recall(&mut self, last_n: usize) {
        self.recent.clear();
        let skipped = self.history.len().saturating_sub(last_n);
        self.recent.extend(self.history.iter().skip(skipped));
    }

    /// The stages, in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The seed of the random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts over: the random numbers, the accepted tokens, the state of stages.
    pub fn reset(&mut self) {
        self.rng = Rng::new(self.seed);
        self.history.clear();
        self.n_generated = 0;
        self.restart();
        self.bound = self.mirostat().map_or(0.0, |(tau, _)| mirostat::start(tau));
        let started = self.adaptive_p().map(|(target, decay)| Average::start(target, decay));
        self.average = started.unwrap_or_default();
    }

    /// Informs the stages that look back that `token` is now part of the text: a sampled one, or one of a prompt.
    ///
    /// A [`Stage::Constraint`] takes a token that is accepted after [`Sampler::sample`] as the next of its text. Any other token
    /// belongs to a prompt, and the constraint begins anew after it.
    pub fn accept(&mut self, token: u32) {
        if let Some((_, decay)) = self.adaptive_p() {
            self.average.accept(token, decay);
        }
        match std::mem::take(&mut self.has_sampled) {
            true => {
                self.n_generated += 1;
                self.runs.iter_mut().for_each(|run| run.accept(token));
            }
            false => {
                self.n_generated = 0;
                self.restart();
            }
        }
        self.remember_token(token);
    }

    /// As [`Sampler::accept`] for a generated token, however it was chosen.
    pub fn accept_generated(&mut self, token: u32) {
        self.has_sampled = true;
        self.accept(token);
    }

    fn remember_token(&mut self, token: u32) {
        if self.n_history == 0 {
            return;
        }
        if self.history.len() == self.n_history {
            self.history.pop_front();
        }
        self.history.push_back(token);
    }

    /// Informs the stages that look back that `text` is all of the text, whatever was accepted before.
    pub fn read(&mut self, text: &[u32]) {
        self.restart();
        self.history.clear();
        self.n_generated = 0;
        let skipped = text.len().saturating_sub(self.n_history);
        self.history.extend(&text[skipped..]);
    }

    /// Has constraints begin anew.
    fn restart(&mut self) {
        self.has_sampled = false;
        self.runs.iter_mut().filter(|run| !run.is_fresh()).for_each(Run::reset);
    }

    /// The texts under its constraints, in the order of the stages.
    pub fn runs(&mut self) -> &mut [Run] {
        &mut self.runs
    }

    /// Whether a token that is the only candidate is always chosen, and changes no state except that it was accepted.
    pub fn takes_the_only(&self) -> bool {
        let minds = |stage: &Stage| {
            matches!(
                stage,
                Stage::Mirostat { .. } | Stage::Allow(_) | Stage::Deny(_) | Stage::Bias(_) | Stage::Custom(_)
            )
        };
        !self.stages.iter().any(minds)
    }

    /// Chooses a token, given one logit per token. Takes one random number if more than one candidate is left; [`Stage::Xtc`]
    /// takes one of its own. The token is not accepted yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are no logits or 2²⁴ and more, if one is NaN, if all are `-inf`, if a stage rules out
    /// all that are left, or if a constraint cannot continue.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        self.sample_under(logits, None)
    }

    /// As [`Sampler::sample`], of the tokens that `run` allows.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn sample_under(&mut self, logits: &[f32], run: Option<&mut Run>) -> Result<u32> {
        if self.is_greedy() {
            match run {
                None => return greedy::arg_max(logits),
                Some(run) => return constraint::arg_max(logits, run),
            }
        }
        // Tokens that the first stage would remove need not be listed.
        let best = if let Some(Stage::TopK(k)) = self.stages.first() { *k } else { 0 };
        self.n_vocab = logits.len();
        let leads = run.is_none() && matches!(self.stages.first(), Some(Stage::Constraint(_)));
        let first = if leads { self.runs.first_mut() } else { run };
        match first.map(Run::mask).transpose()?.unwrap_or(Mask::Free) {
            Mask::Free => self.candidates.fill(logits, best)?,
            Mask::Deny(ids) => {
                self.candidates.fill(logits, 0)?;
                bias::deny(&mut self.candidates, ids)?;
            }
            Mask::Allow(words) => self.candidates.fill_allowed(logits, words)?,
        }
        let mut n_runs = usize::from(leads);
        for i in usize::from(leads)..self.stages.len() {
            if let Stage::Constraint(_) = self.stages[i] {
                constraint::apply(&mut self.candidates, &mut self.runs[n_runs])?;
                n_runs += 1;
            } else {
                self.apply(i)?;
            }
        }
        let total = self.candidates.weigh();
        let at = if self.candidates.len() > 1 { self.rng.below(total) } else { 0 };
        let picked = self.candidates.pick(at).ok_or_else(|| {
            Error::InvalidArgument("every token is ruled out: the stages together leave none".into())
        })?;
        if let Some((tau, eta)) = self.mirostat() {
            let surprise = libm::log2(total as f64 / picked.weight.max(1) as f64);
            self.bound = mirostat::next(self.bound, surprise, tau, eta);
        }
        if self.adaptive_p().is_some() {
            self.average.choose(picked.id, self.before.probability(picked.id));
        }
        // A token that ends the text belongs to none of its parts.
        self.has_sampled = !self.runs.iter().any(|run| run.constraint().vocabulary().is_end(picked.id));
        Ok(picked.id)
    }

    /// Applies penalties, with those of frequency and presence for generated tokens alone.
    fn penalize_generated(&mut self, penalties: Penalties) -> Result<()> {
        let repeated = Penalties { frequency: 0.0, presence: 0.0, ..penalties };
        let counted = Penalties { repeat: 1.0, ..penalties };
        let n_generated = penalties.last_n.min(self.n_generated);
        for (penalties, n) in [(repeated, penalties.last_n), (counted, n_generated)] {
            self.recall(n);
            self.recent.sort_unstable();
            penalties::apply(&mut self.candidates, &penalties, &self.recent);
        }
        Ok(())
    }

    /// Applies stage number `i`.
    fn apply(&mut self, i: usize) -> Result<()> {
        match self.stages[i] {
            Stage::Penalties(penalties) if self.generated_only => return self.penalize_generated(penalties),
            _ => {}
        }
        match &self.stages[i] {
            Stage::Penalties(Penalties { last_n, .. }) | Stage::Dry(Dry { last_n, .. }) => {
                self.recall(*last_n)
            }
            _ => {}
        }
        let candidates = &mut self.candidates;
        match &self.stages[i] {
            Stage::Greedy => greedy::apply(candidates),
            Stage::Temperature(t) => temperature::apply(candidates, *t),
            Stage::DynamicTemperature { temperature, range, exponent } => {
                dynamic_temperature::apply(candidates, *temperature, *range, *exponent);
            }
            Stage::TopK(k) => top_k::apply(candidates, *k),
            Stage::TopP(p) => top_p::apply(candidates, *p),
            Stage::MinP(p) => min_p::apply(candidates, *p),
            Stage::TopNSigma(n) => top_n_sigma::apply(candidates, *n),
            Stage::TypicalP(p) => typical_p::apply(candidates, *p),
            Stage::Xtc { probability, threshold } => {
                xtc::apply(candidates, *probability, *threshold, &mut self.rng);
            }
            Stage::Penalties(penalties) => {
                self.recent.sort_unstable();
                penalties::apply(candidates, penalties, &self.recent);
            }
            Stage::Mirostat { .. } => mirostat::apply(candidates, self.bound),
            Stage::Mirostat1 { m, .. } => mirostat_1::apply(candidates, self.bound, *m, self.n_vocab),
            Stage::AdaptiveP { target, .. } => {
                adaptive_p::apply(candidates, *target, &self.average, &mut self.before)?;
            }
            Stage::Infill(infill) => infill::apply(candidates, infill, &mut self.merging)?,
            Stage::Bias(bias) => bias::apply(candidates, bias)?,
            Stage::Allow(tokens) => bias::allow(candidates, tokens)?,
            Stage::Deny(tokens) => bias::deny(candidates, tokens)?,
            Stage::Dry(dry) => dry::apply(candidates, dry, &self.recent, &mut self.repeats),
            Stage::Custom(custom) => custom::apply(candidates, custom)?,
            // It has a state, so the caller applies it.
            Stage::Constraint(_) => {}
        }
        Ok(())
    }

    /// The parameters of the Mirostat stage, if there is one.
    fn mirostat(&self) -> Option<(f32, f32)> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Mirostat { tau, eta } | Stage::Mirostat1 { tau, eta, .. } => Some((*tau, *eta)),
            _ => None,
        })
    }

    /// The parameters of the stage [`Stage::AdaptiveP`], if there is one.
    fn adaptive_p(&self) -> Option<(f32, f32)> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::AdaptiveP { target, decay } => Some((*target, *decay)),
            _ => None,
        })
    }

    /// Whether the chain chooses the largest logit: a greedy stage, no stage before it that could change which logit that is, and
    /// none after it that could rule its token out or learn from it.
    pub fn is_greedy(&self) -> bool {
        let narrows = |stage: &&Stage| {
            matches!(stage, Stage::TopK(_) | Stage::TopP(_) | Stage::MinP(_) | Stage::TopNSigma(_))
        };
        let picks = |stage: &Stage| matches!(stage, Stage::Greedy | Stage::Temperature(0.0));
        let learns = |stage: &Stage| {
            matches!(
                stage,
                Stage::Mirostat { .. }
                    | Stage::Mirostat1 { .. }
                    | Stage::AdaptiveP { .. }
                    | Stage::Infill(_)
                    | Stage::Allow(_)
                    | Stage::Deny(_)
                    | Stage::Bias(_)
                    | Stage::Custom(_)
                    | Stage::Constraint(_)
            )
        };
        self.stages.iter().find(|s| !narrows(s)).is_some_and(picks) && !self.stages.iter().any(learns)
    }
}

/// The error for a stage's parameter: what it must be and what it is.
fn invalid(parameter: &str, rule: &str, got: f32) -> Error {
    Error::InvalidArgument(format!("{parameter} must be {rule}, got {got}"))
}
