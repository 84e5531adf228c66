//! How likely a given continuation is: the log-probability of each of its tokens, given all before it.
#![forbid(unsafe_code)]

use super::logprobs::{LogSoftmax, rank};
use super::{check_ids, common_prefix, encode, keep_prefix};
use crate::cancel::CancelToken;
use crate::context::{Context, Tokens};
use crate::error::{Error, Result};
use crate::memory::{copied, expect_memory, filled, with_capacity};

/// The options of scoring.
#[derive(Debug, Clone, Default)]
pub struct ScoreOptions {
    /// The sequence to run in. It keeps the prefix that it shares with the prompt, and forgets the rest.
    pub seq: u32,
    /// Whether the text of special tokens stands for these tokens.
    pub parse_special: bool,
    /// Ends it early.
    pub cancel: Option<CancelToken>,
}

/// One token of the continuation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScore {
    /// The token.
    pub id: u32,
    /// Its log-probability given all tokens before it.
    pub logprob: f32,
    /// How many tokens are likelier at its place: 0 for the one that a greedy sampler would have taken.
    pub rank: u32,
}

/// The scores of a continuation.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Its tokens.
    pub tokens: Vec<TokenScore>,
    /// Tokens before them.
    pub n_prompt: usize,
    /// Of these, those that the sequence held already.
    pub n_reused: usize,
}

impl Score {
    /// The log-probability of the whole continuation.
    pub fn sum(&self) -> f64 {
        self.tokens.iter().map(|token| f64::from(token.logprob)).sum()
    }

    /// Whether a greedy sampler would have generated it.
    pub fn is_greedy(&self) -> bool {
        self.tokens.iter().all(|token| token.rank == 0)
    }
}

/// A prompt and its continuation, ready to be scored.
#[derive(Debug, Clone)]
pub struct Scoring {
    ids: Vec<u32>,
    /// Of these, how many are given.
    n_prompt: usize,
    options: ScoreOptions,
}

impl Scoring {
    /// Scores the text `continuation` after the text `prompt`. Both together are tokenized as one text, with the special tokens
    /// at its beginning (BOS). The scores begin with the first token that the prompt alone does not have, so a token that spans
    /// the border counts as continuation. An empty prompt needs a model that begins texts with BOS.
    ///
    /// Errors: `Unsupported` for an encoder or a model without a tokenizer; `InvalidArgument` when there is no token
    /// to score, or none before it.
    pub fn of_text(
        context: &Context,
        prompt: &str,
        continuation: &str,
        options: &ScoreOptions,
    ) -> Result<Scoring> {
        let model = context.model();
        model.require_logits()?;
        let watch = context.watch(options.cancel.as_ref());
        let ids = |text: &str| encode(model, text, &[], options.parse_special, watch);
        let given = ids(prompt)?;
        if let Some(start) = model.info().decoder_start {
            let answer = ids(continuation)?;
            let eos = model.tokenizer()?.eos();
            let n = answer.len() - usize::from(eos.is_some() && answer.last() == eos.as_ref());
            let whole = [&given[..], &[start], &answer[..n]].concat();
            return Scoring::of_tokens(context, &whole, given.len() + 1, options);
        }
        expect_memory(prompt.len() + continuation.len(), "a text of this length")?;
        let whole = ids(&[prompt, continuation].concat())?;
        let n_prompt = common_prefix(&given, &whole);
        Scoring::of_tokens(context, &whole, n_prompt, options)
    }

    /// Scores the tokens `ids[n_prompt..]` after the others, of which there must be at least one. Nothing is added.
    ///
    /// Errors: as [`Scoring::of_text`], and `InvalidArgument` for a sequence out of range.
    pub fn of_tokens(
        context: &Context,
        ids: &[u32],
        n_prompt: usize,
        options: &ScoreOptions,
    ) -> Result<Scoring> {
        context.model().require_logits()?;
        context.n_past(options.seq)?;
        if n_prompt >= ids.len() {
            return Err(Error::InvalidArgument(format!(
                "there is no token to score: {n_prompt} of {} tokens are the prompt's",
                ids.len()
            )));
        }
        if n_prompt == 0 {
            return Err(Error::InvalidArgument(
                "the prompt has no token (the model begins texts with none): the first token has no probability".into(),
            ));
        }
        check_ids(context.model(), ids, n_prompt)?;
        Ok(Scoring { ids: copied(ids, "the tokens to score")?, n_prompt, options: options.clone() })
    }

    /// How many tokens will be scored.
    pub fn n_scored(&self) -> usize {
        self.ids.len() - self.n_prompt
    }

    /// Runs it. Memory for logits does not grow with the text. Afterwards the sequence holds the prompt and all of the
    /// continuation but its last token, for the next call with the same prompt.
    ///
    /// Errors: `ContextFull` when it does not fit (the sequence is as before); `Cancelled`, `InvalidArgument` for logits that are
    /// NaN, and what decoding reports (the sequence may be shortened to the prefix that it shares with the prompt).
    pub fn run(&self, context: &mut Context) -> Result<Score> {
        let (n, seq) = (self.ids.len(), self.options.seq);
        let rest = &self.ids[..n - 1];
        let what = || {
            let (n_prompt, n_scored) = (self.n_prompt, self.n_scored());
            format!("prompt and continuation have {n_prompt} and {n_scored} tokens, all run but the last")
        };
        let n_reused = keep_prefix(context, seq, rest, self.n_prompt - 1, what)?;
        let rest = &rest[n_reused..];
        let seqs = filled(seq, rest.len(), "the sequence ids of the tokens to score")?;
        let mut wants = with_capacity(rest.len(), "the tokens to score")?;
        wants.extend((n_reused..n - 1).map(|i| i + 1 >= self.n_prompt));
        let tokens = Tokens { ids: rest, positions: None, seqs: Some(&seqs), outputs: Some(&wants) };
        let mut scores = with_capacity(self.n_scored(), "the scores of tokens")?;
        context.decode_each(tokens, self.options.cancel.as_ref(), &mut |i, logits| {
            let id = self.ids[n_reused + i + 1];
            let logprob = LogSoftmax::of(logits).logprob(logits[id as usize]);
            scores.push(TokenScore { id, logprob, rank: rank(logits, id) });
        })?;
        if let Some(i) = scores.iter().position(|score| score.logprob.is_nan()) {
            return Err(Error::InvalidArgument(format!(
                "{}: the logits of token {i} of the continuation are NaN: the model's numbers do not stay finite",
                context.model().name()
            )));
        }
        Ok(Score { tokens: scores, n_prompt: self.n_prompt, n_reused })
    }
}
