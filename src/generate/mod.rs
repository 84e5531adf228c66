//! From a prompt to text: tokenize, prefill, then sample and decode token by token.
//!
//! [`Generator`] gives events one at a time, [`generate`] hands them to a closure; [`score`] says how likely a given
//! continuation is. Text comes in whole code points, without stop strings or the beginning of one (`text`, `stop`,
//! `utf8`).
#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::time::Duration;

use crate::cancel::{CancelToken, Watch};
use crate::constrain::Constraint;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::LoadedModel;
use crate::sampler::Sampler;

mod breakers;
mod completions;
mod constrained;
mod event;
mod fim;
mod generator;
mod infill;
mod logprobs;
mod proposed;
pub mod score;
mod speculate;
mod stop;
pub mod text;
pub mod utf8;

pub use breakers::{DEFAULT_BREAKERS, breakers};
pub use completions::Completions;
pub use event::{Event, EventKind, FinishReason, Token, Usage};
pub use fim::{FimOptions, FimOrder, fim_prompt};
pub use generator::{Choice, Generator};
pub use infill::infill;
pub use logprobs::{LogSoftmax, TokenLogprob};
pub use proposed::proposed_sampler;
pub use speculate::{DraftModel, Lender, Lookup, MAX_DRAFT, MAX_NGRAM};

/// Most alternatives that a token's event reports.
pub const MAX_TOPS: usize = 64;

/// Most tokens that an engine runs in one step for a request because a constraint forces them. They are fewer than a page, so
/// that they do not count as a prompt that others share.
const MAX_FORCED: usize = 16;

/// The options of a generation.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Sequence of the context to continue.
    pub seq: u32,
    /// Whether the text of special tokens in the prompt stands for these tokens.
    pub parse_special: bool,
    /// Whether control tokens that the model generates appear in the text.
    pub render_special: bool,
    /// Go on after an end-of-generation token.
    pub ignore_eog: bool,
    /// Generation ends where one of these has been generated, and the text ends before it. Of several it is the one that is
    /// complete first; of those complete at the same byte, the longest.
    pub stops: Vec<String>,
    /// Whether the stop string that ended the generation is part of the text.
    pub include_stop: bool,
    /// The prompt is all that the sequence shall hold, from its first token on: the sequence keeps the common prefix and forgets
    /// the rest, and only new tokens run.
    pub reuse_prefix: bool,
    /// Begin with the prompt's text.
    pub echo: bool,
    /// Report the log-probability of each token.
    pub logprobs: bool,
    /// Report the likeliest tokens at each place: how many, at most [`MAX_TOPS`].
    pub n_top: usize,
    /// Ends the generation early.
    pub cancel: Option<CancelToken>,
    /// What is forgotten where the sequence is full; `None`: the generation ends there. An engine refuses this option.
    pub shift: Option<Shift>,
    /// Draft tokens from the text itself, to run several in one batch. The generated tokens are the same, and the sampler gives
    /// them in the same order; an engine ignores it.
    pub lookup: Option<Lookup>,
    /// Draft tokens by a smaller model, where `lookup` finds none. Likewise.
    pub draft: Option<DraftModel>,
    /// The constraint on the generated text, applied before all stages of the sampler. With the text's end the generation ends.
    pub constraint: Option<Constraint>,
    /// The longest time, counted from the making of the generator; checked before each token, not within a prompt.
    pub time_limit: Option<Duration>,
    /// Which of the requests that wait for an engine's pages begins first: that of the highest priority.
    pub priority: i32,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 128,
            seq: 0,
            parse_special: false,
            render_special: false,
            ignore_eog: false,
            stops: Vec::new(),
            include_stop: false,
            reuse_prefix: false,
            echo: false,
            logprobs: false,
            n_top: 0,
            cancel: None,
            shift: None,
            lookup: None,
            draft: None,
            constraint: None,
            time_limit: None,
            priority: 0,
        }
    }
}

/// What a generation forgets where its sequence is full, to continue: see [`Context::shift`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// Tokens that stay at the beginning.
    pub keep: usize,
    /// Tokens after them that are forgotten, each time; at least one must be left after those.
    pub drop: usize,
}

/// The prompt.
#[derive(Debug, Clone, Copy)]
pub enum Prompt<'a> {
    /// Text. At the beginning of a sequence it gets the special tokens that the model's file asks for (BOS), but never EOS. Later
    /// in a sequence it gets none. The space that some models put before a text comes only where the whole text would have it:
    /// after these tokens alone and after a special token, never after text.
    Text(&'a str),
    /// Tokens, to which nothing is added.
    Tokens(&'a [u32]),
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(text: &'a str) -> Prompt<'a> {
        Prompt::Text(text)
    }
}

impl<'a> From<&'a [u32]> for Prompt<'a> {
    fn from(ids: &'a [u32]) -> Prompt<'a> {
        Prompt::Tokens(ids)
    }
}

/// The tokens of a prompt, after the tokens `past`, which are all of its sequence. `Cancelled` by `watch`.
fn encode(
    model: &LoadedModel,
    text: &str,
    past: &[u32],
    parse_special: bool,
    watch: Watch<'_>,
) -> Result<Vec<u32>> {
    let tokenizer = model.tokenizer_for(text.len())?;
    let look = || watch.check();
    let encoder = tokenizer.under(&look);
    if !past.is_empty() {
        return encoder.encode_after(past, text, parse_special);
    }
    let mut ids = encoder.encode(text, true, parse_special)?;
    if tokenizer.add_eos() && model.info().decoder_start.is_none() {
        // Some files ask for EOS after every text; after a prompt it would end the text to continue.
        ids.pop_if(|last| Some(*last) == tokenizer.eos());
    }
    if let (true, Some(bos), [first, second, ..]) = (parse_special, tokenizer.bos(), &ids[..])
        && *first == bos
        && *second == bos
    {
        // Texts of chat templates begin with BOS themselves.
        ids.remove(0);
    }
    Ok(ids)
}

/// `InvalidArgument` for a token that does not exist; those after the first `n_prompt` are the continuation's.
fn check_ids(model: &LoadedModel, ids: &[u32], n_prompt: usize) -> Result<()> {
    let n_vocab = model.info().n_vocab;
    let Some(i) = ids.iter().position(|&id| id as usize >= n_vocab) else { return Ok(()) };
    let (place, whose) = match i.checked_sub(n_prompt) {
        None => (i, "prompt"),
        Some(place) => (place, "continuation"),
    };
    Err(Error::InvalidArgument(format!(
        "token {place} of the {whose} is {}, but the vocabulary has {n_vocab} tokens",
        ids[i]
    )))
}

/// Shortens sequence `seq` to the prefix that it shares with `ids`, within `most` tokens, and returns its length. `ContextFull`,
/// and nothing forgotten, when a sequence cannot hold `ids`; the sentence begins with `what`.
fn keep_prefix(
    context: &mut Context,
    seq: u32,
    ids: &[u32],
    most: usize,
    what: impl FnOnce() -> String,
) -> Result<usize> {
    let n_ctx = context.options().n_ctx;
    if ids.len() > n_ctx {
        return Err(Error::ContextFull(format!(
            "{}, but a sequence of this context holds n_ctx {n_ctx}",
            what()
        )));
    }
    context.reuse_prefix(seq, ids, most)
}

/// `ContextFull` for a prompt of `n` tokens where `holder` has space for `n_ctx`.
fn check_length(n: usize, n_ctx: usize, holder: &str) -> Result<()> {
    match n <= n_ctx {
        true => Ok(()),
        false => {
            Err(Error::ContextFull(format!("the prompt has {n} tokens, but {holder} holds n_ctx {n_ctx}")))
        }
    }
}

/// The length of the common prefix of two lists.
fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Continues sequence `options.seq` of `context` by `prompt` and generated tokens, and hands every event to `on_event`, which may
/// end the generation: then no more events come. The rules are those of [`Generator`].
pub fn generate<'a>(
    context: &mut Context,
    sampler: &mut Sampler,
    prompt: impl Into<Prompt<'a>>,
    options: &GenerateOptions,
    mut on_event: impl FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<Usage> {
    let prompt = prompt.into();
    if let Prompt::Tokens(ids) = prompt {
        check_length(ids.len(), context.options().n_ctx, "a sequence of this context")?;
    }
    let mut generator = Generator::new(context, prompt, options)?;
    loop {
        let event = generator.next(context, sampler)?;
        let control = on_event(&event);
        if matches!(event.kind, EventKind::End(_)) {
            return Ok(generator.usage());
        }
        if control.is_break() {
            generator.stop();
            generator.next(context, sampler)?;
            return Ok(generator.usage());
        }
    }
}
