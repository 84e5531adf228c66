//! Generation: events, and the push form.

use std::ffi::{c_char, c_void};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::args::{UserData, array, handle, optional_struct, text};
use super::constraint::from_progress;
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::generate_drafts::check_draft;
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::{guard, host};
use super::handle::Exclusive;
use super::sampler::ember_sampler;
use crate::error::{Error, Result, ember_status};
use crate::generate::{Event, EventKind, FinishReason, GenerateOptions, Prompt, Usage, generate};
use crate::sampler::{Sampler, Stage};

/// What an event is.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_event_kind {
    /// The text of the prompt, if an echo was asked for and it has any; the first event. (A request of an engine that ends before it
    /// began has none.)
    EMBER_EVENT_ECHO = 0,
    /// A token was generated.
    EMBER_EVENT_TOKEN = 1,
    /// The generation has ended; the last event.
    EMBER_EVENT_END = 2,
    /// There is no event yet, from ember_request_next, whose time is over; or none any more, from ember_completions_next.
    EMBER_EVENT_NONE = 3,
}

/// Why a generation ended.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_finish_reason {
    /// It has not ended.
    EMBER_FINISH_NONE = -1,
    /// As many tokens as asked for were generated.
    EMBER_FINISH_MAX_TOKENS = 0,
    /// The model gave an end-of-generation token.
    EMBER_FINISH_EOG = 1,
    /// The callback asked to stop.
    EMBER_FINISH_STOPPED = 2,
    /// The sequence has n_ctx tokens and cannot grow.
    EMBER_FINISH_CONTEXT_FULL = 3,
    /// A stop string was generated.
    EMBER_FINISH_STOP_STRING = 4,
    /// A cancel token ended it, or a stage of the sampler's that is the caller's own (ember_sampler_add_callback).
    EMBER_FINISH_CANCELLED = 5,
    /// It took longer than its time limit (ember_generate_options_set_time_limit).
    EMBER_FINISH_TIME_LIMIT = 6,
    /// An error ended a request of an engine, which ember_request_next gives.
    EMBER_FINISH_FAILED = 7,
}

/// A token and the natural logarithm of its probability, at most 0. Of fixed size.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_token_logprob {
    /// The token.
    pub token: u32,
    /// Its log-probability, before the sampler's stages.
    pub logprob: f32,
}

/// What happens in a generation. What it points to is Ember's, and stays until the next call with the generator (or, in a
/// callback, until that returns). Set struct_size to sizeof(ember_event) before ember_generator_next.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_event {
    /// Size of this struct as the caller knows it; in a callback, as the library knows it.
    pub struct_size: usize,
    /// New text, text_len bytes of whole UTF-8 code points, not NUL-terminated, never NULL, perhaps of length 0. Bytes of the
    /// model that are no UTF-8 are U+FFFD here. Text that may be the beginning of a stop string comes with a later event,
    /// so it need not be that of the event's token. The texts of all events in a row are the whole text.
    pub text: *const c_char,
    /// Length of text.
    pub text_len: usize,
    /// The bytes that the token stands for, perhaps a part of a code point; n_bytes of them, never NULL.
    pub bytes: *const u8,
    /// Length of bytes.
    pub n_bytes: usize,
    /// The likeliest tokens at the place of this one, the likeliest first; NULL when there are none.
    pub tops: *const ember_token_logprob,
    /// Length of tops.
    pub n_tops: usize,
    /// An ember_event_kind.
    pub kind: i32,
    /// The token of EMBER_EVENT_TOKEN, else EMBER_TOKEN_NONE.
    pub token: u32,
    /// Its log-probability, before the sampler's stages; NaN when it was not asked for.
    pub logprob: f32,
    /// The ember_finish_reason of EMBER_EVENT_END, else EMBER_FINISH_NONE.
    pub finish_reason: i32,
}

/// Receives an event of a generation. It runs on the calling thread; with an engine, on the thread that does the
/// step. It must return: an exception of C++ that leaves it, or a longjmp out of it, is undefined behaviour, since
/// the library has no way to clean up. Catch everything inside, keep it in `user_data`, and return 1.
/// - @param event the event, valid until the callback returns
/// - @param user_data what was given with the callback
/// - @return 0 to go on; anything else ends the generation, and no more events come
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_event_callback =
    Option<unsafe extern "C" fn(event: *const ember_event, user_data: *mut c_void) -> i32>;

/// What a generation did. Set struct_size to sizeof(ember_generate_result) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_generate_result {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Nanoseconds spent on the prompt.
    pub prefill_ns: u64,
    /// Nanoseconds spent on the generated tokens, the caller's own work between them not counted.
    pub decode_ns: u64,
    /// Tokens of the prompt, BOS included.
    pub n_prompt: u32,
    /// Tokens generated, an end-of-generation token not counted.
    pub n_generated: u32,
    /// An ember_finish_reason.
    pub finish_reason: i32,
    /// Tokens of the prompt that the sequence held already (ember_generate_options_set_reuse_prefix).
    pub n_reused: u32,
    /// Draft tokens that were run ahead (ember_generate_options_set_lookup, ember_generate_options_set_draft).
    pub n_drafted: u32,
    /// Of these, those that were accepted.
    pub n_accepted: u32,
    /// Tokens that were forgotten because the sequence was full (ember_generate_options_set_shift).
    pub n_shifted: u64,
    /// Tokens that a constraint left no choice for and that were run together with others (ember_generate_options_set_constraint).
    pub n_forced: u32,
    /// How far the text is that follows a constraint: an ember_constraint_progress. A text that is cut off is
    /// EMBER_CONSTRAINT_UNFINISHED.
    pub progress: i32,
    /// Sum of the log-probabilities of the tokens generated, before the sampler's stages, that of an end-of-generation token
    /// included; NaN when they were not asked for (ember_generate_options_set_logprobs), or nothing was generated.
    pub sum_logprob: f64,
    /// Their mean, which says how likely the model finds the text whatever its length; NaN likewise.
    pub mean_logprob: f64,
}

pub(super) fn from_finish(reason: Option<FinishReason>) -> i32 {
    use ember_finish_reason::*;
    let reason = match reason {
        None => EMBER_FINISH_NONE,
        Some(FinishReason::MaxTokens) => EMBER_FINISH_MAX_TOKENS,
        Some(FinishReason::EndOfGeneration) => EMBER_FINISH_EOG,
        Some(FinishReason::Stopped) => EMBER_FINISH_STOPPED,
        Some(FinishReason::ContextFull) => EMBER_FINISH_CONTEXT_FULL,
        Some(FinishReason::StopString) => EMBER_FINISH_STOP_STRING,
        Some(FinishReason::Cancelled) => EMBER_FINISH_CANCELLED,
        Some(FinishReason::TimeLimit) => EMBER_FINISH_TIME_LIMIT,
        Some(FinishReason::Failed) => EMBER_FINISH_FAILED,
    };
    reason as i32
}

/// The usage in the form of C.
pub(super) fn to_result(usage: &Usage) -> ember_generate_result {
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    ember_generate_result {
        struct_size: std::mem::size_of::<ember_generate_result>(),
        prefill_ns: ns(usage.prefill),
        decode_ns: ns(usage.decode),
        n_prompt: usage.n_prompt as u32,
        n_generated: usage.n_generated as u32,
        finish_reason: from_finish(usage.finish),
        n_reused: usage.n_reused as u32,
        n_drafted: usage.n_drafted as u32,
        n_accepted: usage.n_accepted as u32,
        n_shifted: usage.n_shifted as u64,
        n_forced: usage.n_forced as u32,
        progress: from_progress(usage.progress),
        sum_logprob: usage.mean_logprob().map_or(f64::NAN, |_| usage.sum_logprob),
        mean_logprob: usage.mean_logprob().unwrap_or(f64::NAN),
    }
}

/// Where `bytes` lie; for none of them a NUL byte, since some languages do not bear the address of nothing.
fn address(bytes: &[u8]) -> *const u8 {
    if bytes.is_empty() { c"".as_ptr().cast::<u8>() } else { bytes.as_ptr() }
}

/// The event in the form of C, whose likeliest tokens go to `tops`.
pub(super) fn to_event(event: &Event<'_>, tops: &mut Vec<ember_token_logprob>) -> ember_event {
    tops.clear();
    let mut out = ember_event {
        struct_size: std::mem::size_of::<ember_event>(),
        text: address(event.text.as_bytes()).cast::<c_char>(),
        text_len: event.text.len(),
        bytes: address(&[]),
        n_bytes: 0,
        tops: std::ptr::null(),
        n_tops: 0,
        kind: ember_event_kind::EMBER_EVENT_ECHO as i32,
        token: u32::MAX,
        logprob: f32::NAN,
        finish_reason: from_finish(None),
    };
    match &event.kind {
        EventKind::Echo => {}
        EventKind::Token(token) => {
            out.kind = ember_event_kind::EMBER_EVENT_TOKEN as i32;
            out.token = token.id;
            (out.bytes, out.n_bytes) = (address(token.bytes), token.bytes.len());
            out.logprob = token.logprob.unwrap_or(f32::NAN);
            tops.extend(token.tops.iter().map(|t| ember_token_logprob { token: t.id, logprob: t.logprob }));
            out.n_tops = tops.len();
            out.tops = if tops.is_empty() { std::ptr::null() } else { tops.as_ptr() };
        }
        EventKind::End(reason) => {
            out.kind = ember_event_kind::EMBER_EVENT_END as i32;
            out.finish_reason = from_finish(Some(*reason));
        }
    }
    out
}

/// The caller's sampler, or a greedy one when there is none.
pub(super) fn sampler_or_greedy(sampler: *mut ember_sampler) -> Result<Arc<Exclusive<Sampler>>> {
    if sampler.is_null() {
        let mut greedy = Sampler::new(0);
        greedy.push(Stage::Greedy)?;
        return Ok(Arc::new(Exclusive::new(greedy)));
    }
    Ok(Arc::clone(&**handle!(sampler)))
}

/// The caller's callback as a closure.
pub(super) fn forward(
    callback: ember_event_callback,
    user_data: UserData,
) -> Result<impl FnMut(&Event<'_>) -> ControlFlow<()> + Send + 'static> {
    let callback = callback.ok_or_else(|| Error::InvalidArgument("callback is NULL".into()))?;
    let mut tops = Vec::new();
    Ok(move |event: &Event<'_>| {
        let event = to_event(event, &mut tops);
        let user_data = &user_data;
        // SAFETY: the callback and its data were given together by the caller, for this use.
        let stop = host(|| unsafe { callback(&event, user_data.0) });
        if stop == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

fn run(
    context: &Arc<Exclusive<ContextState>>,
    sampler: *mut ember_sampler,
    prompt: Prompt<'_>,
    options: &GenerateOptions,
    on_event: impl FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<ember_generate_result> {
    check_draft(options, context)?;
    let mut context = context.lock("context")?;
    let sampler = sampler_or_greedy(sampler)?;
    let mut sampler = sampler.lock("sampler")?;
    generate(&mut context.context, &mut sampler, prompt, options, on_event).map(|usage| to_result(&usage))
}

/// Generates text after a prompt, and hands each event to a callback.
///
/// **A prompt made by ember_chat_apply_template needs ember_generate_options_set_parse_special.** Without it the
/// template's marks are plain text to the model, and the answer is poor without an error. ember_chat_tokenize with
/// ember_generate_tokens, and ember_conversation_send, have no such trap.
///
/// An empty sequence begins with the special tokens that the file asks for (BOS). A sequence that holds tokens gets
/// none before the prompt. The space that texts of some models begin with is there where the whole text would have
/// it: at the start and after a special token, never after text.
///
/// Afterwards the sequence holds the prompt and the generated tokens, without an end-of-generation token. The next
/// call goes on from there, and an empty prompt continues the text itself if nothing else was decoded in between.
/// ember_context_rewind starts anew; ember_generate_options_set_reuse_prefix takes the prompt for the whole text.
///
/// A callback that ends the generation at EMBER_EVENT_ECHO leaves the sequence without the prompt.
/// EMBER_FINISH_CANCELLED leaves it with what was run by then (ember_context_n_past gives the number):
/// - nothing of the prompt where that was not run to its end; with reuse_prefix perhaps what both have in common;
/// - all but the last token where that was to be run;
/// - all where a stage of the sampler ended the choice of the next token.
///
/// The sampler accepts the tokens of the prompt (ember_sampler_accept) and each token that is generated: penalties
/// count them all. With reuse_prefix the prompt takes the place of all that was accepted before. ember_generator_new
/// is the same generation in pull form.
/// - @param context the context; not NULL
/// - @param prompt the prompt, UTF-8; empty: continue what the sequence holds; may be NULL if `prompt_len` is 0
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param callback receives each event, on the calling thread; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param out_result receives what the generation did; set its struct_size first; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `sampler`, a second gives EMBER_E_BUSY, from the
///   callback too. Freeing either in the callback does nothing but write a line to the log.
/// - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit (the sequence is as before, but for what reuse_prefix
///   lets it forget), or when the pages of the KV cache are used up later (what was run stays); EMBER_E_UNSUPPORTED
///   for an encoder or a model without a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
///   EMBER_E_BUSY. A cancel token is no error: finish_reason says so.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate(
    context: *mut ember_context,
    prompt: *const c_char,
    prompt_len: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_event_callback,
    user_data: *mut c_void,
    out_result: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, prompt) = (handle!(context), text!(prompt, prompt_len));
        let (on_event, out) = (forward(callback, UserData(user_data))?, optional_struct!(out_result));
        let options = options_or_default(options)?;
        let result = run(context, sampler, Prompt::Text(prompt), &options, on_event)?;
        out.map_or(Ok(()), |out| out.set(&result))
    })
}

/// Generates text after a prompt of token ids, and hands each event to a callback; see ember_generate. Nothing is
/// added to the prompt. The model needs no tokenizer, unless there are stop strings or an echo.
/// - @param context the context; not NULL
/// - @param tokens the token ids of the prompt; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param callback receives each event, on the calling thread; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param out_result receives what the generation did; set its struct_size first; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `sampler`, a second gives EMBER_E_BUSY, from the
///   callback too.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as ember_generate.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_tokens(
    context: *mut ember_context,
    tokens: *const u32,
    n_tokens: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_event_callback,
    user_data: *mut c_void,
    out_result: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, tokens) = (handle!(context), array!(tokens, n_tokens));
        let (on_event, out) = (forward(callback, UserData(user_data))?, optional_struct!(out_result));
        let options = options_or_default(options)?;
        let result = run(context, sampler, Prompt::Tokens(tokens), &options, on_event)?;
        out.map_or(Ok(()), |out| out.set(&result))
    })
}
