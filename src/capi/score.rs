//! Scores: how likely a continuation is.

use std::ffi::c_char;

use super::args::{array, fill, handle, needs_capacity, optional_struct, text};
use super::context::ember_context;
use super::error::ember_error;
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::guard;
use crate::context::Context;
use crate::error::{Result, ember_status};
use crate::generate::score::{Score, ScoreOptions, Scoring, TokenScore};
use crate::memory::with_capacity;

/// What a token of a continuation scores. Of fixed size.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_token_score {
    /// The token.
    pub token: u32,
    /// Natural logarithm of its probability given all tokens before it, at most 0.
    pub logprob: f32,
    /// How many tokens are likelier at its place: 0 for the one that a greedy sampler would have taken.
    pub rank: u32,
}

/// What a continuation scores. Set struct_size to sizeof(ember_score_result) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_score_result {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// The sum of its tokens' log-probabilities.
    pub logprob: f64,
    /// Its tokens.
    pub n_scored: u32,
    /// Tokens before them.
    pub n_prompt: u32,
    /// Of these, those that the sequence held already.
    pub n_reused: u32,
    /// 1 when a greedy sampler would have generated all of it, else 0.
    pub is_greedy: u32,
}

fn to_result(score: &Score) -> ember_score_result {
    ember_score_result {
        struct_size: std::mem::size_of::<ember_score_result>(),
        logprob: score.sum(),
        n_scored: score.tokens.len() as u32,
        n_prompt: score.n_prompt as u32,
        n_reused: score.n_reused as u32,
        is_greedy: u32::from(score.is_greedy()),
    }
}

/// What of the options concerns scoring.
fn score_options(options: *const ember_generate_options) -> Result<ScoreOptions> {
    let options = options_or_default(options)?;
    Ok(ScoreOptions { seq: options.seq, parse_special: options.parse_special, cancel: options.cancel })
}

/// Runs it and fills the caller's buffer, unless `n_needed` is NULL.
fn run(
    context: &mut Context,
    scoring: &Scoring,
    scores: *mut ember_token_score,
    capacity: usize,
    n_needed: *mut usize,
) -> Result<ember_score_result> {
    if n_needed.is_null() {
        return Ok(to_result(&scoring.run(context)?));
    }
    needs_capacity!(scoring.n_scored(), scores, capacity, n_needed);
    let score = scoring.run(context)?;
    let of_token = |t: &TokenScore| ember_token_score { token: t.id, logprob: t.logprob, rank: t.rank };
    let mut list = with_capacity(score.tokens.len(), "the scores of tokens")?;
    list.extend(score.tokens.iter().map(of_token));
    fill!(list, scores, capacity, n_needed)?;
    Ok(to_result(&score))
}

/// Scores how likely a continuation is after a prompt: the log-probability of each of its tokens given all before it.
/// Both together are tokenized as one text, with the special tokens that texts begin with (BOS). Scored are the
/// tokens from the first on that is not one of the prompt's alone. The sequence keeps what it has in common with the
/// prompt and forgets the rest. Afterwards it holds all but the last token, so that scoring many continuations of one
/// prompt runs the prompt once. Memory for logits does not grow with the text.
/// - @param context the context; not NULL
/// - @param prompt the prompt, UTF-8; an empty one needs a model that begins texts with BOS; may be NULL if
///   `prompt_len` is 0
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param continuation the continuation, UTF-8; may be NULL if `continuation_len` is 0
/// - @param continuation_len length of `continuation` in bytes, or EMBER_NUL_TERMINATED
/// - @param options of them the sequence, parse_special and the cancel token count; NULL: the defaults
/// - @param scores receives the score of each token of the continuation; may be NULL if `capacity` is 0
/// - @param capacity scores that `scores` can take; 0 to ask for the number
/// - @param n_needed receives the number of scores, also with EMBER_E_BUFFER_TOO_SMALL; NULL: they are not wanted,
///   and `scores` is not looked at
/// - @param out_result receives the sums; set its struct_size first; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when there is no token to score or none before it; EMBER_E_CONTEXT_FULL for
///   more than n_ctx tokens, and one (the last is not run), or when no page is left; EMBER_E_CANCELLED by the cancel
///   token; EMBER_E_UNSUPPORTED for an encoder or a model without a tokenizer; EMBER_E_UTF8,
///   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY. For too many tokens, and with EMBER_E_BUFFER_TOO_SMALL,
///   the sequence is as before; after other errors it has forgotten what it had not in common.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_score(
    context: *mut ember_context,
    prompt: *const c_char,
    prompt_len: usize,
    continuation: *const c_char,
    continuation_len: usize,
    options: *const ember_generate_options,
    scores: *mut ember_token_score,
    capacity: usize,
    n_needed: *mut usize,
    out_result: *mut ember_score_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (prompt, continuation) = (text!(prompt, prompt_len), text!(continuation, continuation_len));
        let (mut state, out) = (handle!(context).lock("context")?, optional_struct!(out_result));
        let scoring = Scoring::of_text(&state.context, prompt, continuation, &score_options(options)?)?;
        let result = run(&mut state.context, &scoring, scores, capacity, n_needed)?;
        out.map_or(Ok(()), |out| out.set(&result))
    })
}

/// Scores how likely the last of given tokens are; see ember_score. Nothing is added to the tokens. The model needs
/// no tokenizer.
/// - @param context the context; not NULL
/// - @param tokens the token ids of the prompt and the continuation; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`
/// - @param n_prompt how many of them are the prompt, at least one
/// - @param options of them the sequence and the cancel token count; NULL: the defaults
/// - @param scores receives the score of each token of the continuation; may be NULL if `capacity` is 0
/// - @param capacity scores that `scores` can take; 0 to ask for the number
/// - @param n_needed receives the number of scores, also with EMBER_E_BUFFER_TOO_SMALL; NULL: they are not wanted,
///   and `scores` is not looked at
/// - @param out_result receives the sums; set its struct_size first; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as ember_score; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_score_tokens(
    context: *mut ember_context,
    tokens: *const u32,
    n_tokens: usize,
    n_prompt: usize,
    options: *const ember_generate_options,
    scores: *mut ember_token_score,
    capacity: usize,
    n_needed: *mut usize,
    out_result: *mut ember_score_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let tokens = array!(tokens, n_tokens);
        let (mut state, out) = (handle!(context).lock("context")?, optional_struct!(out_result));
        let scoring = Scoring::of_tokens(&state.context, tokens, n_prompt, &score_options(options)?)?;
        let result = run(&mut state.context, &scoring, scores, capacity, n_needed)?;
        out.map_or(Ok(()), |out| out.set(&result))
    })
}
