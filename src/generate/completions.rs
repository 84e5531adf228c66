//! Several completions of one prompt: the prompt runs once, and each step runs a token of every completion.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::time::Instant;

use super::event::{Event, EventKind, FinishReason, Usage};
use super::generator::{Choice, Generator};
use super::{GenerateOptions, Prompt, check_length};
use crate::cancel::{CancelToken, Watch};
use crate::context::{Context, Tokens};
use crate::error::{Error, Result};
use crate::memory::{copied, filled, with_capacity};
use crate::sampler::Sampler;

/// Most bytes of capacity that a text has from the beginning.
const MOST_CAPACITY: usize = 1 << 14;

/// One of several completions.
struct Completion {
    generator: Generator,
    sampler: Sampler,
    /// Its sequence of the context.
    seq: u32,
    /// The text of all its events.
    text: String,
    /// Whether it ended before its first event.
    is_unreported: bool,
}

/// Several completions under way: [`Completions::next`] gives their events, a token of each in turn.
///
/// Completion `i` is in sequence `seq + i` of the context. Between two events the context is free for other work, as with a
/// [`Generator`]. Calls that drop the logits cost another run of the last tokens.
///
/// A step allocates nothing once the first one is done, unless a text outgrows its capacity.
pub struct Completions {
    list: Vec<Completion>,
    cancel: Option<CancelToken>,
    has_prompt: bool,
    /// Whether the step that was to run was cancelled.
    is_cancelled: bool,
    /// The completion whose event comes next, and whether it had one since the last step.
    turn: usize,
    has_reported: bool,
    ids: Vec<u32>,
    seqs: Vec<u32>,
    wants: Vec<bool>,
}

impl Completions {
    /// Prepares `n` completions of `prompt`, which runs with the first event. The prompt is the whole of the text: the prefix
    /// that sequence `options.seq` already holds does not run again (`reuse_prefix`), and the `n - 1` sequences after it share
    /// what they need. Each completion has a sampler of its own, with the stages and the past of `sampler`: the first one's
    /// continues as `sampler` would, that of completion `i` has the seed `sampler.seed() + i`. `lookup` and `draft` are left out,
    /// since they change no text.
    ///
    /// Errors: as [`Generator::new`], and `InvalidArgument` for no completions, or more than the context has sequences for;
    /// `Unsupported` for `shift`.
    pub fn new(
        context: &Context,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
        sampler: &Sampler,
        n: usize,
    ) -> Result<Completions> {
        let (n_ctx, n_seq) = (context.options().n_ctx, context.options().n_seq);
        if n == 0 {
            return Err(Error::InvalidArgument("0 completions were asked for".into()));
        }
        if n_seq.checked_sub(options.seq as usize).is_none_or(|n_left| n_left < n) {
            return Err(Error::InvalidArgument(format!(
                "{n} completions from sequence {} on need more sequences than this context has: {n_seq}",
                options.seq
            )));
        }
        if options.shift.is_some() {
            return Err(Error::Unsupported("completions cannot forget tokens (shift)".into()));
        }
        let holder = "a sequence of this context";
        if let Prompt::Tokens(ids) = prompt {
            check_length(ids.len(), n_ctx, holder)?;
        }
        let generator = Generator::anywhere(context.model(), n_ctx, prompt, options)?;
        let ids = copied(generator.tokens(), "the prompt's tokens")?;
        check_length(ids.len(), n_ctx, holder)?;
        let mut list = with_capacity(n, "completions")?;
        let text = || String::with_capacity(options.max_tokens.saturating_mul(8).min(MOST_CAPACITY));
        // A cancel token may have ended the encoding of the prompt already.
        let is_cancelled = generator.usage().finish.is_some();
        list.push(Completion {
            generator,
            sampler: sampler.try_clone()?,
            seq: options.seq,
            text: text(),
            is_unreported: is_cancelled,
        });
        for i in 1..n {
            let silent = GenerateOptions { echo: false, ..options.clone() };
            let again = if is_cancelled { prompt } else { Prompt::Tokens(&ids) };
            let mut generator = Generator::anywhere(context.model(), n_ctx, again, &silent)?;
            generator.echo_as(&list[0].generator)?;
            let (sampler, seq) = (sampler.with_seed_offset(i as u64)?, options.seq + i as u32);
            list.push(Completion { generator, sampler, seq, text: text(), is_unreported: is_cancelled });
        }
        Ok(Completions {
            list,
            cancel: options.cancel.clone(),
            has_prompt: false,
            is_cancelled,
            turn: 0,
            has_reported: false,
            ids: Vec::new(),
            seqs: Vec::new(),
            wants: Vec::new(),
        })
    }

    /// How many completions there are.
    pub fn n(&self) -> usize {
        self.list.len()
    }

    /// The next event and whose it is; `None` when all have ended.
    /// Errors leave all as it was, and the call can be tried again: `ContextFull` when the prompt does not fit, or no page is
    /// left; `InvalidArgument` when other code changed a sequence; what decoding and sampling report. A cancel token gives no
    /// error but the end of each.
    /// no error but the end of each.
    pub fn next(&mut self, context: &mut Context) -> Result<Option<(usize, Event<'_>)>> {
        let Some(choice) = self.ready(context)? else { return Ok(None) };
        let Completions { list, turn, has_reported, is_cancelled, .. } = self;
        let Completion { generator, sampler, text, is_unreported, .. } = &mut list[*turn];
        *is_unreported = false;
        let event = match choice {
            _ if *is_cancelled => generator.end(FinishReason::Cancelled),
            _ if generator.settled().is_none() && generator.is_overdue() => {
                generator.end(FinishReason::TimeLimit)
            }
            choice => generator.take(context, sampler, choice)?,
        };
        text.push_str(event.text);
        *has_reported = event.kind != EventKind::Echo;
        Ok(Some((*turn, event)))
    }

    /// Runs what the next event needs. Returns how its token is chosen; `None` when all have ended.
    fn ready(&mut self, context: &mut Context) -> Result<Option<Choice>> {
        loop {
            if self.turn == self.list.len() {
                self.turn = 0;
                if self.list.iter().all(|completion| completion.has_ended()) {
                    return Ok(None);
                }
            }
            let n_ctx = context.options().n_ctx;
            let completion = &mut self.list[self.turn];
            if completion.has_ended() || self.has_reported {
                // Tokens that need no logits are reported right away, and run with the next step.
                let forced = match self.has_reported && !completion.has_ended() {
                    true => completion.generator.forced(&mut completion.sampler, n_ctx),
                    false => None,
                };
                if let Some(id) = forced {
                    return Ok(Some(Choice::Forced(id)));
                }
                self.has_reported = false;
                self.turn += 1;
                continue;
            }
            let generator = &completion.generator;
            let is_ready = generator.is_before_echo()
                || self.has_prompt
                    && generator.feed().is_empty()
                    && context.end_logits(completion.seq).is_ok();
            if !is_ready && !self.is_cancelled {
                match self.run(context) {
                    Err(Error::Cancelled(_)) => self.is_cancelled = true,
                    other => other?,
                }
            }
            return Ok(Some(Choice::Sampler));
        }
    }

    /// Runs the prompt, or the missing tokens of the completions whose events come next.
    fn run(&mut self, context: &mut Context) -> Result<()> {
        Watch::new(self.cancel.as_ref(), None).check()?;
        if !self.has_prompt {
            return self.run_prompt(context);
        }
        let begin = Instant::now();
        self.ids.clear();
        self.seqs.clear();
        self.wants.clear();
        let range = self.turn..self.list.len();
        for completion in self.list[range.clone()].iter_mut().filter(|completion| !completion.has_ended()) {
            completion.generator.find_logits(context)?;
            let feed = completion.generator.feed();
            self.ids.extend_from_slice(feed);
            self.seqs.extend(std::iter::repeat_n(completion.seq, feed.len()));
            self.wants.extend((1..=feed.len()).map(|n| n == feed.len()));
        }
        let (seqs, outputs) = (Some(&self.seqs[..]), Some(&self.wants[..]));
        let tokens = Tokens { ids: &self.ids, positions: None, seqs, outputs };
        context.decode_under(tokens, self.cancel.as_ref())?;
        self.fed(range, begin);
        Ok(())
    }

    /// Runs the prompt in the first sequence, and gives it to the others.
    fn run_prompt(&mut self, context: &mut Context) -> Result<()> {
        let begin = Instant::now();
        let (first, others) = self.list.split_first_mut().ok_or(Error::Internal("no completions".into()))?;
        first.generator.resume(context, first.seq)?;
        let ids = first.generator.feed();
        let seqs = filled(first.seq, ids.len(), "the prompt's sequence ids")?;
        let tokens = Tokens { seqs: Some(&seqs), ..Tokens::next(ids) };
        context.decode_under(tokens, self.cancel.as_ref())?;
        for other in others.iter() {
            context.copy_sequence(first.seq, other.seq, first.generator.tokens().len())?;
        }
        first.generator.fed(ids.len(), begin.elapsed());
        others.iter_mut().for_each(|other| other.generator.share_prompt(other.seq));
        self.has_prompt = true;
        Ok(())
    }

    /// The missing tokens of the completions `range` have run since `begin`.
    fn fed(&mut self, range: Range<usize>, begin: Instant) {
        for Completion { generator, .. } in &mut self.list[range] {
            generator.fed(generator.feed().len(), begin.elapsed());
        }
    }

    /// The counters of completion `i`. Each has the time of the steps that it was part of.
    pub fn usage(&self, i: usize) -> Result<Usage> {
        self.at(i).map(|completion| completion.generator.usage())
    }

    /// The text of completion `i` so far, of all its events.
    pub fn text(&self, i: usize) -> Result<&str> {
        self.at(i).map(|completion| &completion.text[..])
    }

    fn at(&self, i: usize) -> Result<&Completion> {
        self.list.get(i).ok_or_else(|| {
            Error::InvalidArgument(format!("there is no completion {i}: {} were asked for", self.n()))
        })
    }

    /// The completions from the likeliest to the least likely, by the mean log-probability of their tokens
    /// ([`Usage::mean_logprob`]); equally likely ones in order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while one has not ended, and where no log-probabilities were asked for.
    pub fn ranking(&self) -> Result<Vec<usize>> {
        let mut ranking = with_capacity(self.n(), "a ranking")?;
        for (i, completion) in self.list.iter().enumerate() {
            let usage = completion.generator.usage();
            if usage.finish.is_none() {
                return Err(Error::InvalidArgument(format!("completion {i} has not ended")));
            }
            if !completion.generator.tells_logprobs() {
                return Err(Error::InvalidArgument(
                    "the log-probabilities that rank completions were not asked for".into(),
                ));
            }
            // One without a token was cut before its first.
            ranking.push((i, usage.mean_logprob().unwrap_or(f64::NEG_INFINITY)));
        }
        ranking.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        Ok(ranking.into_iter().map(|(i, _)| i).collect())
    }
}

impl Completion {
    fn has_ended(&self) -> bool {
        self.generator.usage().finish.is_some() && !self.is_unreported
    }
}
