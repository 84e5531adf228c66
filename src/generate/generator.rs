//! The engine of generation, with events on demand.
//!
//! A generator owns no context: it takes one for each step and remembers which tokens its sequence holds. It refuses the step if
//! the sequence holds something else. So generators on several sequences of a context can alternate, and no lock is held between
//! steps.
//!
//! All generated tokens end up in the sequence, those of a stop string included, except an end-of-generation token. So a prompt
//! that repeats the conversation finds its prefix.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::GenerateOptions;
use super::event::{Event, EventKind, FinishReason, Token, Usage};
use super::logprobs::{LogSoftmax, TokenLogprob};
use super::speculate::Drafter;
use super::text::TextAssembler;
use crate::backend::NO_COLUMN;
use crate::constrain::Run;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{copied_text, fallible};
use crate::model::LoadedModel;
use crate::sampler::Sampler;
use crate::tokenizer::Tokenizer;

mod begin;
mod end;
mod run;

/// The phase of a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Echo,
    Prompt,
    Tokens,
    Ended,
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The sampler, from the logits that the context has.
    Sampler,
    /// By a constraint, which [`Generator::forced`] gave. No logits are needed.
    Forced(u32),
    /// The largest logit, whose token this is, or [`NO_COLUMN`]: as [`Context::decode_best`] gave it.
    Largest(u32),
}

/// The outcome of a step.
enum Step {
    Token { id: u32, logprob: Option<f32> },
    End(FinishReason),
}

/// A generation under way: [`Generator::next`] gives its events one after the other.
///
/// Between two events the context is free for other work, such as generators on its other sequences. If the generator's own
/// sequence does not hold what the generator left there, the next step is an error. After the last event the sequence holds the
/// prompt and all generated tokens except an end-of-generation token. So the next generation can continue from there, with an
/// empty prompt even in the middle of the text. A caller that stops earlier leaves the token of the last event out of the
/// sequence.
///
/// Draft tokens run together with the one before them and then lie ready in the context ([`Context::advance`]). All this holds
/// with them too: the sequence never holds a token that was not reported, and the sampler is asked one time for each event.
/// Another call that decodes in the same context between two events drops them, and they have run in vain.
///
/// A step allocates nothing once the first one is done, unless a token's text is of unusual length or tokens are forgotten
/// (`shift`).
pub struct Generator {
    pub(super) model: Arc<LoadedModel>,
    has_tokenizer: bool,
    pub(super) options: GenerateOptions,
    /// Text of the prompt, for the echo.
    echo: String,
    /// The tokens that the sequence shall hold before the next event: those it held, the prompt, and the generated ones.
    pub(super) tokens: Vec<u32>,
    /// How many of these it holds.
    n_run: usize,
    /// When the time is over.
    deadline: Option<Instant>,
    text: TextAssembler,
    tops: Vec<TokenLogprob>,
    phase: Phase,
    stopping: bool,
    /// Whether the last token is the first of a text: see `begins_answer`.
    is_first: bool,
    drafter: Option<Drafter>,
    /// The text under the constraint of the options.
    pub(super) constrained: Option<Run>,
    /// How many of the tokens that lie ready in the context are forced by a constraint.
    n_forced_ahead: usize,
    pub(super) usage: Usage,
}

impl Generator {
    /// The next event. The first step runs the prompt; each step runs the token of the event before. After the last
    /// event, that one comes again, without text.
    ///
    /// `context` must be the one the generator was made with, or one of the same model whose sequence holds the same.
    ///
    /// Errors leave the sequence as it was, and the step can be tried again: `ContextFull` when the prompt does not fit;
    /// `InvalidArgument` when other code changed the sequence; what decoding and sampling report. A cancel token gives no error
    /// but the end. With `reuse_prefix`, a cancelled prompt has shortened the sequence to the common prefix; otherwise the
    /// sequence lacks no more than the last event's token.
    pub fn next(&mut self, context: &mut Context, sampler: &mut Sampler) -> Result<Event<'_>> {
        if self.phase == Phase::Echo {
            return Ok(self.tell_echo());
        }
        if self.usage.finish.is_none()
            && let Some(reason) = self.settled().or(self.is_overdue().then_some(FinishReason::TimeLimit))
        {
            // The last token belongs into the sequence; where it does not fit, no other reason must hide that.
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

    /// The first event, if an echo was asked for and has not been taken.
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

    /// Continues in sequence `seq` of `context`, whatever it holds: it keeps or gets as much of the needed prefix as the cache
    /// has. `ContextFull` when a sequence is too short for the tokens so far.
    pub fn resume(&mut self, context: &mut Context, seq: u32) -> Result<()> {
        self.options.seq = seq;
        // At least one token has to run for its logits.
        let most = self.tokens.len().saturating_sub(1);
        let what = || format!("the prompt has {} tokens", self.tokens.len());
        let n = super::keep_prefix(context, seq, &self.tokens, most, what)?;
        if matches!(self.phase, Phase::Echo | Phase::Prompt) {
            self.usage.n_reused += n.saturating_sub(self.n_run);
        }
        self.n_run = n;
        Ok(())
    }

    /// Its sequence was emptied, so all tokens have to run again that [`Generator::resume`] does not find then.
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

    /// The prompt ran in another sequence, of which `seq` is a copy.
    pub(super) fn share_prompt(&mut self, seq: u32) {
        self.options.seq = seq;
        self.n_run = self.tokens.len();
        self.usage.n_reused = self.usage.n_prompt;
    }

    /// The tokens to run at the end of the sequence, with logits for the last one, before the next event can be taken.
    pub fn feed(&self) -> &[u32] {
        &self.tokens[self.n_run..]
    }

    /// The first `n` tokens of [`Generator::feed`] have run, in `time`.
    pub fn fed(&mut self, n: usize, time: Duration) {
        self.n_run = (self.n_run + n).min(self.tokens.len());
        match self.phase {
            Phase::Prompt => self.usage.prefill += time,
            _ => self.usage.decode += time,
        }
    }

    /// Whether the next token is that of the largest logit, and no option needs the other logits: then [`Choice::Largest`] is
    /// enough for [`Generator::take`].
    pub fn wants_largest(&self, sampler: &Sampler) -> bool {
        sampler.is_greedy() && self.constrained.is_none() && !self.options.logprobs && self.options.n_top == 0
    }

    /// The next event, when it is the echo, or when all of [`Generator::feed`] has run and its logits are still there.
    pub fn take(&mut self, context: &Context, sampler: &mut Sampler, choice: Choice) -> Result<Event<'_>> {
        if let (Phase::Ended, Some(reason)) = (self.phase, self.usage.finish) {
            return Ok(Event { text: "", kind: EventKind::End(reason) });
        }
        if self.phase == Phase::Echo {
            return Ok(self.tell_echo());
        }
        if self.phase == Phase::Prompt && !self.stopping {
            // The encoder's part of the sequence is not part of the continued text.
            let answer = self.model.info().decoder_start;
            let answer = answer.and_then(|start| self.tokens.iter().position(|&id| id == start)).unwrap_or(0);
            match self.options.reuse_prefix {
                true => sampler.read(&self.tokens[answer..]),
                false => {
                    let first = (self.tokens.len() - self.usage.n_prompt).max(answer);
                    self.tokens[first..].iter().for_each(|&id| sampler.accept(id));
                }
            }
            self.begin(sampler)?;
            self.phase = Phase::Tokens;
        }
        let start = Instant::now();
        // A stage of the host may end the generation.
        let step = match self.choose(context, sampler, choice) {
            Err(Error::Cancelled(_)) => Ok(Step::End(FinishReason::Cancelled)),
            other => other,
        };
        self.usage.decode += start.elapsed();
        match step? {
            Step::Token { id, logprob } => {
                let token = Token { id, bytes: self.bytes(id, self.is_first), logprob, tops: &self.tops };
                Ok(Event { text: self.text.text(), kind: EventKind::Token(token) })
            }
            Step::End(reason) => Ok(self.end(reason)),
        }
    }

    /// The counters so far.
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

    /// Chooses the next token, if there is to be one.
    fn choose(&mut self, context: &Context, sampler: &mut Sampler, choice: Choice) -> Result<Step> {
        if self.stopping {
            return Ok(Step::End(FinishReason::Stopped));
        }
        if let Some(reason) = self.settled() {
            return Ok(Step::End(reason));
        }
        let n = self.tokens.len();
        fallible(|| self.tokens.try_reserve(1))
            .map_err(|_| Error::NoMemory(format!("no memory for another token after {n}")))?;
        let o = &self.options;
        if o.shift.is_none() && context.n_past(o.seq)? == context.options().n_ctx {
            return Ok(Step::End(FinishReason::ContextFull));
        }
        let (id, logits) = match choice {
            Choice::Sampler => {
                let logits = context.end_logits(o.seq)?;
                let id = sampler.sample_under(logits, self.constrained.as_mut());
                (id.map_err(|e| e.within(self.model.name()))?, logits)
            }
            Choice::Forced(id) => (id, &[][..]),
            Choice::Largest(_) if o.logprobs || o.n_top > 0 => {
                return Err(Error::InvalidArgument(
                    "log-probabilities need logits, not the largest one's token".into(),
                ));
            }
            Choice::Largest(NO_COLUMN) => {
                return Err(Error::InvalidArgument(format!(
                    "{}: no token can be chosen: a logit is NaN, or all logits are -inf",
                    self.model.name()
                )));
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
        self.is_first = self.begins_answer();
        self.text.push(bytes(tokenizer, id, self.options.render_special, self.is_first));
        sampler.accept_generated(id);
        self.accept_constrained(id, sampler);
        self.usage.n_generated += 1;
        self.tokens.push(id);
        Ok(Step::Token { id, logprob })
    }

    /// The tokenizer, if there is one; its absence is no error.
    fn tokenizer(&self) -> Option<&Tokenizer> {
        if self.has_tokenizer { self.model.tokenizer().ok() } else { None }
    }

    /// Whether the next token is the first of a text: of an answer that a decoder begins. A constraint sees all bytes of such a token, and
    /// so does the text then.
    fn begins_answer(&self) -> bool {
        let Some(start) = self.model.info().decoder_start else { return false };
        let before = self.tokens.split_last().filter(|(last, _)| **last == start);
        self.constrained.is_none() && before.is_some_and(|(_, before)| !before.contains(&start))
    }

    fn bytes(&self, id: u32, is_first: bool) -> &[u8] {
        bytes(self.tokenizer(), id, self.options.render_special, is_first)
    }
}

/// What token `id`, the first of a text or not, adds to it.
fn bytes(tokenizer: Option<&Tokenizer>, id: u32, render_special: bool, is_first: bool) -> &[u8] {
    match tokenizer {
        // Embeddings may have more rows than there are tokens, to round sizes up; those rows have no text.
        Some(tokenizer) if (id as usize) < tokenizer.n_vocab() => {
            let hidden = tokenizer.is_hidden(id) && !render_special;
            let bytes = if is_first { tokenizer.first_bytes(id) } else { tokenizer.token_bytes(id) };
            if hidden { &[] } else { bytes.unwrap_or(&[]) }
        }
        _ => &[],
    }
}
