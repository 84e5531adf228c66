//! The tokens of a step: the prompt, then token by token, or a token with draft tokens in one batch.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{Generator, Phase};
use crate::cancel::Watch;
use crate::context::{Context, MAX_AHEAD, Tokens};
use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, MAX_TOPS, Shift, constrained};
use crate::memory::{filled, with_capacity};
use crate::model::LoadedModel;
use crate::sampler::Sampler;

/// Most further tokens that a generator has capacity for from the beginning.
const MOST_AHEAD: usize = 1 << 20;

impl Generator {
    /// Runs what the next event needs.
    pub(super) fn run(&mut self, context: &mut Context, sampler: &mut Sampler) -> Result<()> {
        let start = Instant::now();
        Watch::new(self.options.cancel.as_ref(), None).check()?;
        let seq = self.options.seq;
        if self.phase == Phase::Prompt && self.options.reuse_prefix {
            self.resume(context, seq)?;
        }
        self.find_logits(context)?;
        if let (Phase::Tokens, [id]) = (self.phase, self.feed()) {
            self.run_token(context, sampler, *id)?;
        } else if !self.feed().is_empty() {
            if let Some(drafter) = &self.drafter {
                context.reserve_logits(1 + drafter.most())?;
            }
            let ids = self.feed();
            let seqs = filled(seq, ids.len(), "the prompt's sequence ids")?;
            let tokens = Tokens { seqs: Some(&seqs), ..Tokens::next(ids) };
            context.decode_under(tokens, self.options.cancel.as_ref())?;
        }
        self.fed(self.feed().len(), start.elapsed());
        Ok(())
    }

    /// Runs the last token again where other calls have dropped its logits. `InvalidArgument` when other code changed the
    /// sequence.
    pub(in crate::generate) fn find_logits(&mut self, context: &mut Context) -> Result<()> {
        let seq = self.options.seq;
        self.check_sequence(context)?;
        if self.feed().is_empty() && self.n_run > 0 && context.end_logits(seq).is_err() {
            context.rewind(seq, self.n_run - 1)?;
            self.n_run -= 1;
        }
        Ok(())
    }

    /// Runs the token of the event before, unless it lies ready, with draft tokens after it.
    fn run_token(&mut self, context: &mut Context, sampler: &mut Sampler, id: u32) -> Result<()> {
        let (seq, n_ctx) = (self.options.seq, context.options().n_ctx);
        if let (Some(Shift { keep, drop }), true) = (self.options.shift, self.n_run >= n_ctx) {
            context.shift(seq, keep, drop)?;
            self.tokens.drain(keep..keep + drop);
            self.n_run -= drop;
            self.usage.n_shifted += drop;
        }
        let is_last = self.stopping || self.text.is_stopped();
        let left = if is_last { 0 } else { self.options.max_tokens - self.usage.n_generated };
        let n_free = n_ctx.saturating_sub(self.n_run + 1);
        if context.advance(seq, id) {
            self.count_accepted();
            return Ok(());
        }
        let forced = self.forced_run(sampler, left.min(n_free).min(MAX_AHEAD));
        let cancel = self.options.cancel.as_ref();
        self.n_forced_ahead = 0;
        if !forced.is_empty() {
            let outcome = context.decode_ahead(seq, id, &forced, cancel);
            if !matches!(outcome, Err(Error::ContextFull(_))) {
                self.n_forced_ahead = if outcome.is_ok() { forced.len() } else { 0 };
                return outcome;
            }
        }
        let Some(drafter) = &mut self.drafter else { return context.decode_ahead(seq, id, &[], cancel) };
        let drafts = drafter.draft(&self.tokens, left.min(n_free))?;
        let n = constrained::viable(drafts, self.constrained.as_mut(), sampler);
        let drafts = drafter.keep(n);
        match context.decode_ahead(seq, id, drafts, cancel) {
            Err(Error::ContextFull(_)) if !drafts.is_empty() => context.decode_ahead(seq, id, &[], cancel),
            outcome => {
                self.usage.n_drafted += if outcome.is_ok() { drafter.ran() } else { 0 };
                outcome
            }
        }
    }

    /// The token lay ready: a draft was accepted.
    fn count_accepted(&mut self) {
        if self.n_forced_ahead > 0 {
            self.n_forced_ahead -= 1;
            self.usage.n_forced += 1;
        } else if let Some(drafter) = &mut self.drafter {
            drafter.accepted();
            self.usage.n_accepted += 1;
        }
    }
}

/// A list with capacity for `n` tokens, and for `more` as far as there is memory. Missing capacity is allocated when it is needed.
pub(super) fn list_for(n: usize, more: usize) -> Result<Vec<u32>> {
    let what = "the tokens of a generation";
    with_capacity(n + more.min(MOST_AHEAD), what).or_else(|_| with_capacity(n, what))
}

/// Whether the numbers of `shift` fit a context of `n_ctx`, and the model's tokens can be moved.
pub(super) fn check_shift(options: &GenerateOptions, model: &LoadedModel, n_ctx: usize) -> Result<()> {
    let Some(Shift { keep, drop }) = options.shift else { return Ok(()) };
    model.require_shift()?;
    match drop > 0 && keep.checked_add(drop).is_some_and(|n| n < n_ctx) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!(
            "a shift that keeps {keep} tokens and forgets {drop} leaves nothing of n_ctx {n_ctx} tokens, or forgets nothing"
        ))),
    }
}

/// `InvalidArgument` for options that are out of range.
pub(super) fn check(options: &GenerateOptions) -> Result<()> {
    if options.n_top > MAX_TOPS {
        return Err(Error::InvalidArgument(format!(
            "n_top must be at most {MAX_TOPS}, got {}",
            options.n_top
        )));
    }
    match options.stops.iter().any(String::is_empty) {
        true => Err(Error::InvalidArgument("a stop string is empty: it would end every text".into())),
        false => Ok(()),
    }
}
