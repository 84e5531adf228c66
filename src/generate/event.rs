//! The events of a generation, and its counters.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::logprobs::TokenLogprob;
use crate::constrain::Progress;

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// `max_tokens` were generated.
    MaxTokens,
    /// The model generated an end-of-generation token.
    EndOfGeneration,
    /// The caller asked to stop.
    Stopped,
    /// The context cannot hold another token.
    ContextFull,
    /// A stop string was generated.
    StopString,
    /// A cancel token ended it.
    Cancelled,
    /// Its time limit passed.
    TimeLimit,
    /// An error ended it; only requests of an engine have this.
    Failed,
}

/// The counters of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Tokens of the prompt, BOS included.
    pub n_prompt: usize,
    /// Of these, those that the sequence held already (`reuse_prefix`).
    pub n_reused: usize,
    /// Tokens generated, an end-of-generation token not counted.
    pub n_generated: usize,
    /// Draft tokens that were run ahead (`lookup`, `draft`).
    pub n_drafted: usize,
    /// Of these, those that were accepted.
    pub n_accepted: usize,
    /// Tokens that were forgotten to free their pages (`shift`).
    pub n_shifted: usize,
    /// Tokens that a constraint forced, and that ran together with the one before them.
    pub n_forced: usize,
    /// Sum of the log-probabilities of the generated tokens, before sampling stages, that of an end-of-generation token included.
    pub sum_logprob: f64,
    /// The number of these tokens; 0 where log-probabilities were not asked for.
    pub n_logprobs: usize,
    /// The progress of the text that follows a constraint; `None` without one.
    pub progress: Option<Progress>,
    /// Time spent on the prompt.
    pub prefill: Duration,
    /// Time spent on generated tokens.
    pub decode: Duration,
    /// Why it ended; `None` while it has not.
    pub finish: Option<FinishReason>,
}

impl Usage {
    /// The mean log-probability of a token, which says how likely the model finds the text whatever its length; `None` where
    /// log-probabilities were not asked for, or nothing was generated.
    pub fn mean_logprob(&self) -> Option<f64> {
        (self.n_logprobs > 0).then(|| self.sum_logprob / self.n_logprobs as f64)
    }
}

/// An event of a generation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event<'a> {
    /// New text that is certain; may be empty. The texts of all events together are the generated text.
    pub text: &'a str,
    /// What the event is.
    pub kind: EventKind<'a>,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EventKind<'a> {
    /// The prompt's text, when an echo was asked for; the first event.
    Echo,
    /// A token was generated. The event's text may be less or more than the token's.
    Token(Token<'a>),
    /// The last event; its text was held back as the possible beginning of a stop string.
    End(FinishReason),
}

/// A generated token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token<'a> {
    /// Its number.
    pub id: u32,
    /// The bytes it stands for, perhaps part of a code point or of a stop string. A control token that is not rendered has none,
    /// nor has a token without a tokenizer.
    pub bytes: &'a [u8],
    /// Its log-probability before sampling stages, if asked for.
    pub logprob: Option<f32>,
    /// The likeliest tokens at this place, the likeliest first.
    pub tops: &'a [TokenLogprob],
}
