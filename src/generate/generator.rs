//! The engine of generation, in pull form.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::constrained;
use super::event::{Event, EventKind, FinishReason, Token, Usage};
use super::logprobs::{LogSoftmax, TokenLogprob};
use super::speculate::Drafter;
use super::text::TextAssembler;
use super::{GenerateOptions, Prompt, Shift};
use crate::backend::NO_COLUMN;
use crate::constrain::Run;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{copied, copied_text, expect_room, fallible};
use crate::model::LoadedModel;
use crate::sampler::Sampler;
use crate::tokenizer::Tokenizer;

mod end;
mod run;

/// Where a generator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Echo,
    Prompt,
    Tokens,
    Ended,
}

/// What the next token is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The sampler, from the logits that the context has.
    Sampler,
    /// There is no choice: what [`Generator::forced`] gave. No logits are needed.
    Forced(u32),
    /// The largest logit, whose token this is, or [`NO_COLUMN`]: what [`Context::decode_best`] gave.
    Largest(u32),
}

/// What a step came to.
enum Step {
    Token { id: u32, logprob: Option<f32> },
    End(FinishReason),
}

/// A generation under way: [`Generator::next`] gives its events one after the other.
///
/// Between two events the context is free for other work, such as generators on its other sequences; if the generator's
/// own sequence does not hold what the generator left there, the next step is an error. After the last event the
/// sequence holds the prompt and all generated tokens but for an end-of-generation token, so that the next generation
/// can go on from there, with an empty prompt in the midst of the text. Whoever leaves earlier leaves the token of
/// the last event out of the sequence.
///
/// Tokens that are guessed run together with the one before them and then lie ready in the context ([`Context::advance`]), so
/// that all this holds with them too: the sequence never holds a token that was not told, and the sampler is asked once for
/// each event. Another call that decodes in the same context between two events takes them away, and they were run in vain.
///
/// A step allocates nothing once the first one is done, unless a token's text is of unusual length or tokens are forgotten
/// for room.
pub struct Generator {
    pub(super) model: Arc<LoadedModel>,
    has_tokenizer: bool,
    pub(super) options: GenerateOptions,
    /// Text of the prompt, for the echo.
    echo: String,
    /// What the sequence shall hold before the next event: what it held, the prompt, and what was generated.
    pub(super) tokens: Vec<u32>,
    /// How many of these it holds.
    n_run: usize,
    /// When the time is over.
    deadline: Option<Instant>,
    text: TextAssembler,
    tops: Vec<TokenLogprob>,
    phase: Phase,
    stopping: bool,
    drafter: Option<Drafter>,
    /// The text under the constraint of the options.
    pub(super) constrained: Option<Run>,
    /// Of the tokens that lie ready in the context those that a constraint forces.
    n_forced_ahead: usize,
    pub(super) usage: Usage,
}

impl Generator {
    /// Prepares the continuation of sequence `options.seq` of `context` by `prompt`, which runs with the first step.
    ///
    /// An empty prompt continues right where the last decoding ended. With `reuse_prefix` the prompt is the whole of
    /// what the sequence shall hold.
    ///
    /// Errors: `InvalidArgument` when there is nothing to continue, for a token or sequence out of range or an empty
    /// stop string, and for numbers of `shift`, `lookup` and `draft` that do not fit; `Unsupported` for an encoder, for text or
    /// stop strings without a tokenizer, and for `shift` with learned positions; `Busy` when the draft context is in use;
    /// `NoMemory`.
    pub fn new<'a>(
        context: &Context,
        prompt: impl Into<Prompt<'a>>,
        options: &GenerateOptions,
    ) -> Result<Generator> {
        let past = context.tokens(options.seq)?;
        let past = if options.reuse_prefix { &[] } else { past };
        let generator =
            Generator::behind(context.model(), past, context.options().n_ctx, prompt.into(), options)?;
        if let Some(Shift { keep, drop }) = options.shift {
            context.check_full_shift(keep, drop)?;
        }
        if generator.usage.n_prompt == 0
            && let Err(e) = context.end_logits(options.seq)
        {
            return Err(Error::InvalidArgument(format!("the prompt is empty, but {e}")));
        }
        Ok(generator)
    }

    /// As [`Generator::new`] with `reuse_prefix`, for a context of `n_ctx` that is not at hand: [`Generator::resume`] says
    /// where it goes on.
    pub fn anywhere(
        model: &Arc<LoadedModel>,
        n_ctx: usize,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
    ) -> Result<Generator> {
        if options.shift.is_some() {
            return Err(Error::Unsupported(
                "an engine's generations forget no tokens for room (shift)".into(),
            ));
        }
        if let Prompt::Tokens(ids) = prompt {
            super::check_length(ids.len(), n_ctx, "a request of this engine")?;
        }
        let options = GenerateOptions { reuse_prefix: true, lookup: None, draft: None, ..options.clone() };
        Generator::behind(model, &[], n_ctx, prompt, &options)
    }

    /// A generator for a sequence that holds `past`.
    fn behind(
        model: &Arc<LoadedModel>,
        past: &[u32],
        n_ctx: usize,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
    ) -> Result<Generator> {
        let model = Arc::clone(model);
        model.require_logits()?;
        run::check(options)?;
        run::check_shift(options, &model, n_ctx)?;
        let constrained = options.constraint.as_ref();
        let constrained = constrained.map(|c| constrained::begin(c, &model, options)).transpose()?;
        let is_start = past.is_empty();
        if !options.stops.is_empty() {
            model.tokenizer()?;
        }
        let ids = match prompt {
            Prompt::Text(text) => super::encode(&model, text, past, options.parse_special)?,
            Prompt::Tokens(ids) => copied(ids, "the prompt's tokens")?,
        };
        super::check_ids(&model, &ids, ids.len())?;
        if ids.is_empty() && is_start {
            return Err(Error::InvalidArgument(match options.reuse_prefix {
                true => "the prompt is empty, and it is the whole text: nothing to continue".into(),
                false => "the prompt is empty and so is the sequence: nothing to continue".into(),
            }));
        }
        let echo = match prompt {
            _ if !options.echo => String::new(),
            Prompt::Text(text) => copied_text(text, "the prompt's text")?,
            Prompt::Tokens(ids) => {
                let bytes = model.tokenizer()?.decode(ids, options.render_special)?;
                expect_room(3 * bytes.len(), "the prompt's text")?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let n_left = n_ctx.saturating_add(1).saturating_sub(ids.len());
        let mut tokens = run::list_for(past.len() + ids.len(), options.max_tokens.min(n_left))?;
        tokens.extend_from_slice(past);
        tokens.extend_from_slice(&ids);
        let (lookup, draft, cancel) = (options.lookup, options.draft.clone(), options.cancel.clone());
        Ok(Generator {
            drafter: Drafter::new(lookup, draft, cancel, &model)?,
            has_tokenizer: model.tokenizer().is_ok(),
            model,
            phase: if echo.is_empty() { Phase::Prompt } else { Phase::Echo },
            echo,
            usage: Usage { n_prompt: ids.len(), ..Usage::default() },
            tokens,
            n_run: past.len(),
            deadline: options.time_limit.and_then(|limit| Instant::now().checked_add(limit)),
            text: TextAssembler::new(&options.stops, options.include_stop),
            tops: Vec::with_capacity(options.n_top),
            options: options.clone(),
            stopping: false,
            constrained,
            n_forced_ahead: 0,
        })
    }

    /// The next event. The first step runs the prompt; each step runs the token of the event before. After the last
    /// event, that one comes again, without text.
    ///
    /// `context` must be the one the generator was made with, or one of the same model whose sequence holds the same.
    ///
    /// Errors leave the sequence as it was, and the step can be tried again: `ContextFull` when the prompt does not
    /// fit; `InvalidArgument` when the sequence was changed by somebody else; what decoding and sampling report. A
    /// cancel token gives no error but the end; with `reuse_prefix` a prompt cancelled has made the sequence the
    /// common prefix, otherwise the sequence lacks no more than the last event's token.
    pub fn next(&mut self, context: &mut Context, sampler: &mut Sampler) -> Result<Event<'_>> {
        if self.phase == Phase::Echo {
            return Ok(self.tell_echo());
        }
        if self.usage.finish.is_none()
            && let Some(reason) = self.settled().or(self.is_overdue().then_some(FinishReason::TimeLimit))
        {
            // The last token belongs into the sequence; where it does not come, no other reason must hide that.
            if self.phase == Phase::Tokens {
                match self.run(context, sampler) {
                    Err(Error::Cancelled(_)) => return Ok(self.end(FinishReason::Cancelled)),
                    other => other?,
                }
            }
            return Ok(self.end(reason));
        }
        if self.usage.finish.is_none() && !(self.phase == Phase::Prompt && self.stopping) {
            match self.run(context, sampler) {
                Err(Error::Cancelled(_)) => return Ok(self.end(FinishReason::Cancelled)),
                other => other?,
            }
        }
        self.take(context, sampler, Choice::Sampler)
    }

    /// The first event, if an echo was asked for and was not taken yet.
    pub fn echo(&mut self) -> Option<Event<'_>> {
        (self.phase == Phase::Echo).then(|| self.tell_echo())
    }

    /// Begins with the echo that `other` has, if it has one.
    pub(super) fn echo_as(&mut self, other: &Generator) -> Result<()> {
        self.echo = copied_text(&other.echo, "the prompt's text")?;
        self.phase = other.phase;
        Ok(())
    }

    fn tell_echo(&mut self) -> Event<'_> {
        self.phase = Phase::Prompt;
        Event { text: &self.echo, kind: EventKind::Echo }
    }

    /// Goes on in sequence `seq` of `context`, whatever that holds: it becomes as much of what the generator needs as can be
    /// had without running anything. `ContextFull` when a sequence is too short for what there is already.
    pub fn resume(&mut self, context: &mut Context, seq: u32) -> Result<()> {
        self.options.seq = seq;
        // One token at least has to run for its logits.
        let most = self.tokens.len().saturating_sub(1);
        let what = || format!("the prompt has {} tokens", self.tokens.len());
        let n = super::keep_prefix(context, seq, &self.tokens, most, what)?;
        if matches!(self.phase, Phase::Echo | Phase::Prompt) {
            self.usage.n_reused += n.saturating_sub(self.n_run);
        }
        self.n_run = n;
        Ok(())
    }

    /// Its sequence was emptied, so that all has to be run again that [`Generator::resume`] does not find then.
    pub fn leave(&mut self) {
        self.n_run = 0;
        if matches!(self.phase, Phase::Echo | Phase::Prompt) {
            self.usage.n_reused = 0;
        }
    }

    /// All tokens so far, those of [`Generator::feed`] included.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The prompt was run in another sequence, which `seq` got all of.
    pub(super) fn share_prompt(&mut self, seq: u32) {
        self.options.seq = seq;
        self.n_run = self.tokens.len();
        self.usage.n_reused = self.usage.n_prompt;
    }

    /// What has to be run at the end of the sequence, with logits for the last token, before the next event can be taken.
    pub fn feed(&self) -> &[u32] {
        &self.tokens[self.n_run..]
    }

    /// The first `n` tokens of [`Generator::feed`] were run, which took `time`.
    pub fn fed(&mut self, n: usize, time: Duration) {
        self.n_run = (self.n_run + n).min(self.tokens.len());
        match self.phase {
            Phase::Prompt => self.usage.prefill += time,
            _ => self.usage.decode += time,
        }
    }

    /// Whether the next token is that of the largest logit, and nothing else is asked of the logits: then
    /// [`Choice::Largest`] does for [`Generator::take`].
    pub fn wants_largest(&self, sampler: &Sampler) -> bool {
        sampler.is_greedy() && self.constrained.is_none() && !self.options.logprobs && self.options.n_top == 0
    }

    /// The next event, when it is the echo, or all of [`Generator::feed`] was run and no call has taken the logits away since.
    pub fn take(&mut self, context: &Context, sampler: &mut Sampler, choice: Choice) -> Result<Event<'_>> {
        if let (Phase::Ended, Some(reason)) = (self.phase, self.usage.finish) {
            return Ok(Event { text: "", kind: EventKind::End(reason) });
        }
        if self.phase == Phase::Echo {
            return Ok(self.tell_echo());
        }
        if self.phase == Phase::Prompt && !self.stopping {
            match self.options.reuse_prefix {
                true => sampler.read(&self.tokens),
                false => {
                    let first = self.tokens.len() - self.usage.n_prompt;
                    self.tokens[first..].iter().for_each(|&id| sampler.accept(id));
                }
            }
            self.begin(sampler)?;
            self.phase = Phase::Tokens;
        }
        let start = Instant::now();
        // A stage of the host's may have had enough.
        let step = match self.choose(context, sampler, choice) {
            Err(Error::Cancelled(_)) => Ok(Step::End(FinishReason::Cancelled)),
            other => other,
        };
        self.usage.decode += start.elapsed();
        match step? {
            Step::Token { id, logprob } => {
                let token = Token { id, bytes: self.bytes(id), logprob, tops: &self.tops };
                Ok(Event { text: self.text.text(), kind: EventKind::Token(token) })
            }
            Step::End(reason) => Ok(self.end(reason)),
        }
    }

    /// What was done so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// `InvalidArgument` unless the sequence holds what it should.
    fn check_sequence(&self, context: &Context) -> Result<()> {
        let seq = self.options.seq;
        if !Arc::ptr_eq(context.model(), &self.model) {
            return Err(Error::InvalidArgument("the generator was made for another model's context".into()));
        }
        match context.tokens(seq)? == &self.tokens[..self.n_run] {
            true => Ok(()),
            false => Err(Error::InvalidArgument(format!(
                "sequence {seq} was changed by somebody else since the generator's last step"
            ))),
        }
    }

    /// Chooses the token that goes on from the end of the sequence, if there is to be one.
    fn choose(&mut self, context: &Context, sampler: &mut Sampler, choice: Choice) -> Result<Step> {
        if self.stopping {
            return Ok(Step::End(FinishReason::Stopped));
        }
        if let Some(reason) = self.settled() {
            return Ok(Step::End(reason));
        }
        let n = self.tokens.len();
        fallible(|| self.tokens.try_reserve(1))
            .map_err(|_| Error::NoMemory(format!("no memory for another token behind {n}")))?;
        let o = &self.options;
        if o.shift.is_none() && context.n_past(o.seq)? == context.options().n_ctx {
            return Ok(Step::End(FinishReason::ContextFull));
        }
        let (id, logits) = match choice {
            Choice::Sampler => {
                let logits = context.end_logits(o.seq)?;
                (sampler.sample_under(logits, self.constrained.as_mut())?, logits)
            }
            Choice::Forced(id) => (id, &[][..]),
            Choice::Largest(_) if o.logprobs || o.n_top > 0 => {
                return Err(Error::InvalidArgument(
                    "log-probabilities need logits, not the largest one's token".into(),
                ));
            }
            Choice::Largest(NO_COLUMN) => {
                return Err(Error::InvalidArgument(
                    "no token can be chosen: a logit is NaN, or all logits are -inf".into(),
                ));
            }
            Choice::Largest(id) => (id, &[][..]),
        };
        let softmax = (o.logprobs || o.n_top > 0).then(|| LogSoftmax::of(logits));
        let logprob = softmax.as_ref().map(|softmax| softmax.logprob(logits[id as usize]));
        if let Some(logprob) = logprob {
            self.usage.sum_logprob += f64::from(logprob);
            self.usage.n_logprobs += 1;
        }
        if !o.ignore_eog && self.tokenizer().is_some_and(|tokenizer| tokenizer.is_eog(id)) {
            return Ok(Step::End(FinishReason::EndOfGeneration));
        }
        if let Some(softmax) = softmax {
            softmax.top(logits, o.n_top, &mut self.tops);
        }
        let model = Arc::clone(&self.model);
        let tokenizer = if self.has_tokenizer { model.tokenizer().ok() } else { None };
        self.text.push(bytes(tokenizer, id, self.options.render_special));
        sampler.accept_generated(id);
        self.accept_constrained(id, sampler);
        self.usage.n_generated += 1;
        self.tokens.push(id);
        Ok(Step::Token { id, logprob })
    }

    /// The tokenizer, if there is one; its absence costs nothing.
    fn tokenizer(&self) -> Option<&Tokenizer> {
        if self.has_tokenizer { self.model.tokenizer().ok() } else { None }
    }

    fn bytes(&self, id: u32) -> &[u8] {
        bytes(self.tokenizer(), id, self.options.render_special)
    }
}

/// What token `id` adds to the text.
fn bytes(tokenizer: Option<&Tokenizer>, id: u32, render_special: bool) -> &[u8] {
    match tokenizer {
        // Embeddings may have more rows than there are tokens, for the sake of even sizes; those have no text.
        Some(tokenizer) if (id as usize) < tokenizer.n_vocab() => {
            let hidden = tokenizer.is_hidden(id) && !render_special;
            if hidden { &[] } else { tokenizer.token_bytes(id).unwrap_or(&[]) }
        }
        _ => &[],
    }
}
