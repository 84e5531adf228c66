//! Several completions of one prompt.

use std::ffi::c_char;
use std::sync::Arc;

use super::args::{array, fill, fill_struct, free_handle, handle, output, output_struct, text};
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::generate::{
    ember_event, ember_event_kind, ember_generate_result, ember_token_logprob, sampler_or_greedy, to_event,
    to_result,
};
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::sampler::ember_sampler;
use crate::error::{Result, ember_status};
use crate::generate::{Completions, Event, EventKind, Prompt};

/// Several completions of one prompt under way. One thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_completions {
    _private: (),
}

impl CType for ember_completions {
    type Object = Exclusive<CompletionsState>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:cmpl");
    const NAME: &'static str = "ember_completions";
}

/// The object that an `ember_completions` handle points to.
pub struct CompletionsState {
    completions: Completions,
    context: Arc<Exclusive<ContextState>>,
    tops: Vec<ember_token_logprob>,
}

impl CompletionsState {
    fn handle(
        context: &Arc<Exclusive<ContextState>>,
        prompt: Prompt<'_>,
        n: u32,
        options: *const ember_generate_options,
        sampler: *mut ember_sampler,
    ) -> Result<*mut ember_completions> {
        let options = options_or_default(options)?;
        let sampler = sampler_or_greedy(sampler)?;
        let sampler = sampler.lock("sampler")?;
        let locked = context.lock("context")?;
        let completions = Completions::new(&locked.context, prompt, &options, &sampler, n as usize)?;
        let (context, tops) = (Arc::clone(context), Vec::with_capacity(options.n_top));
        try_into_raw::<ember_completions>(Exclusive::new(CompletionsState { completions, context, tops }))
    }

    fn next(&mut self) -> Result<(usize, ember_event)> {
        let mut context = self.context.lock("the completions' context")?;
        if let Some((i, event)) = self.completions.next(&mut context.context)? {
            return Ok((i, to_event(&event, &mut self.tops)));
        }
        let nothing = to_event(&Event { text: "", kind: EventKind::Echo }, &mut self.tops);
        Ok((0, ember_event { kind: ember_event_kind::EMBER_EVENT_NONE as i32, ..nothing }))
    }
}

/// Frees completions unless a call is using them, which the log then says.
fn may_go(state: &Exclusive<CompletionsState>) -> bool {
    let idle = state.is_idle();
    if !idle {
        log::error!("ember_completions_free: the completions are in use by another call and were not freed");
    }
    idle
}

/// Prepares several completions of a prompt, whose events ember_completions_next gives. The prompt runs once, and
/// each step runs a token of every completion, which takes far less time than one after the other. Completion i is in
/// sequence s + i, where s is that of the options (ember_generate_options_set_sequence). The prompt is the whole of
/// the text, as with ember_generate_options_set_reuse_prefix; the other sequences forget what they held. Afterwards
/// each sequence holds the prompt and its completion. Completion 0 draws as `sampler` would; completion i has a seed
/// that is i larger. Options hold for each completion; lookup and draft tokens are left out.
/// - @param context the context; not NULL
/// - @param prompt the prompt, UTF-8, not empty; not NULL
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param n number of completions; the context needs s + `n` sequences (ember_context_options_set_n_seq)
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy, so that all completions are the same
/// - @param out receives the completions; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_completions_free. `options` may be freed after the call. The
///   completions keep `context` alive and use it in ember_completions_next only. They draw with copies of `sampler`,
///   which stays as it is and may be freed.
/// - Threads: Any thread; one call at a time for `context`, `options` and `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when `n` is 0, the prompt is empty, or the context has too few sequences;
///   EMBER_E_CONTEXT_FULL for more tokens than a sequence holds; EMBER_E_UNSUPPORTED for an encoder, a model without
///   a tokenizer, and ember_generate_options_set_shift; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_new(
    context: *mut ember_context,
    prompt: *const c_char,
    prompt_len: usize,
    n: u32,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    out: *mut *mut ember_completions,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, prompt, out) = (handle!(context), text!(prompt, prompt_len), output!(out));
        out.set(CompletionsState::handle(context, Prompt::Text(prompt), n, options, sampler)?)
    })
}

/// Prepares several completions of a prompt of token ids; see ember_completions_new. Nothing is added to the prompt.
/// - @param context the context; not NULL
/// - @param tokens the token ids of the prompt, at least one; not NULL
/// - @param n_tokens number of `tokens`
/// - @param n number of completions
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy, so that all completions are the same
/// - @param out receives the completions; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_completions_free. `options` may be freed after the call. The
///   completions keep `context` alive and draw with copies of `sampler`.
/// - Threads: Any thread; one call at a time for `context`, `options` and `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as ember_completions_new.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_new_tokens(
    context: *mut ember_context,
    tokens: *const u32,
    n_tokens: usize,
    n: u32,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    out: *mut *mut ember_completions,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, tokens, out) = (handle!(context), array!(tokens, n_tokens), output!(out));
        out.set(CompletionsState::handle(context, Prompt::Tokens(tokens), n, options, sampler)?)
    })
}

/// Frees completions. What was generated stays in the context's sequences.
/// - @param completions the completions; may be NULL
/// - Threads: Any thread. While a call is using the completions (on another thread) they are not freed, and the log
///   says so: free them afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_free(completions: *mut ember_completions) {
    guard_value((), || free_handle!(completions, may_go))
}

/// Writes the next event of a completion. The completions take turns, a token each; each ends with one
/// EMBER_EVENT_END. When all have ended the event is EMBER_EVENT_NONE. After an error all is as it was, and the next
/// call tries again.
/// - @param completions the completions; not NULL
/// - @param event receives the event; set its struct_size first; not NULL
/// - @param out_index receives which completion the event is of, from 0; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What the event points to stays until the next call with the completions, or their free.
/// - Threads: Any thread; one call at a time for `completions` and their context, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is left; EMBER_E_INVALID_ARGUMENT when a
///   sequence was changed by other calls, and for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY. A cancel token is
///   no error: each completion ends with EMBER_FINISH_CANCELLED.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_next(
    completions: *mut ember_completions,
    event: *mut ember_event,
    out_index: *mut u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (completions, event, index) = (handle!(completions), output_struct!(event), output!(out_index));
        let (i, next) = completions.lock("completions")?.next()?;
        event.set(&next)?;
        index.set(i as u32)
    })
}

/// Writes what one completion did so far. Its finish_reason is EMBER_FINISH_NONE before its end.
/// - @param completions the completions; not NULL
/// - @param index number of the completion, from 0
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `completions`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_usage(
    completions: *const ember_completions,
    index: u32,
    out: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let completions = handle!(completions).lock("completions")?;
        fill_struct!(out, to_result(&completions.completions.usage(index as usize)?))
    })
}

/// Writes the text of one completion so far, that of all its events.
/// - @param completions the completions; not NULL
/// - @param index number of the completion, from 0
/// - @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `completions`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_text(
    completions: *const ember_completions,
    index: u32,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let completions = handle!(completions).lock("completions")?;
        fill!(completions.completions.text(index as usize)?.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Ranks all completions from the likeliest to the least likely. The measure is the mean log-probability of the
/// tokens (mean_logprob of ember_completions_usage), so the first is the best of all. Needs
/// ember_generate_options_set_logprobs.
/// - @param completions the completions; not NULL
/// - @param buffer receives the numbers of the completions; may be NULL if `capacity` is 0
/// - @param capacity numbers that `buffer` can take; 0 to ask for their number
/// - @param n_needed receives the number of completions, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `completions`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT while one has not ended, and where log-probabilities were not asked for;
///   EMBER_E_NOMEM; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_rank(
    completions: *const ember_completions,
    buffer: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let ranking = handle!(completions).lock("completions")?.completions.ranking()?;
        let ranking: Vec<u32> = ranking.into_iter().map(|i| i as u32).collect();
        fill!(ranking, buffer, capacity, n_needed)
    })
}
