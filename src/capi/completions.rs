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

/// What stands behind an `ember_completions`.
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

/// Prepares `n` completions of `prompt`, and writes them to `out`; free them with ember_completions_free. Their events come from
/// ember_completions_next. The prompt runs once, and each step runs a token of every completion, which takes far less time than
/// one after the other.
///
/// Completion i is in sequence s + i of the context, where s is that of the options (ember_generate_options_set_sequence), so the
/// context needs s + `n` sequences (ember_context_options_set_n_seq). The prompt is the whole of the text, as with
/// ember_generate_options_set_reuse_prefix: Ember runs only what sequence s does not begin with already, and the other
/// sequences forget what they held. Afterwards each sequence holds the prompt and its completion.
///
/// Each completion draws with a copy of `sampler`. Completion 0 draws as `sampler` would; completion i has a seed that is i larger.
/// `sampler` itself stays as it is and may be freed, and so may `options`. `options` NULL: the defaults; `sampler` NULL: greedy, so that all
/// completions are the same. The completions keep the context alive, and use it in ember_completions_next only.
///
/// Options hold for each completion: each may have so many tokens, and each text ends at stop strings. Lookup and draft tokens are
/// left out.
/// Errors: EMBER_E_INVALID_ARGUMENT (`n` is 0, too few sequences, an empty prompt), EMBER_E_UTF8, EMBER_E_CONTEXT_FULL for more tokens
/// than a sequence holds, EMBER_E_UNSUPPORTED for an encoder, a model without a tokenizer, and
/// ember_generate_options_set_shift; EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// As ember_completions_new for a prompt of `n_tokens` token ids, to which nothing is added.
/// Errors: as ember_completions_new, and EMBER_E_INVALID_ARGUMENT for a token that does not exist.
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

/// Frees completions. NULL is fine. What was generated stays in the context's sequences. While a call is using the completions (on
/// another thread) they are not freed, and the log says so: free them afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_completions_free(completions: *mut ember_completions) {
    guard_value((), || free_handle!(completions, may_go))
}

/// Writes the next event to `event`, whose struct_size must be set, and to `out_index` which completion it is of, from 0 on. What the event
/// points to stays until the next call with these completions, or their free. The completions take turns, a token each; each ends
/// with one EMBER_EVENT_END. When all have ended the event is EMBER_EVENT_NONE.
/// Errors leave all as it was, and the next call tries again: EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is left;
/// EMBER_E_INVALID_ARGUMENT when a sequence was changed by other calls, and for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY
/// when the context is in use. A cancel token is no error: each completion ends with EMBER_FINISH_CANCELLED.
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

/// Writes what completion `index` did so far to `out`, whose struct_size must be set; its finish_reason is EMBER_FINISH_NONE before its
/// end. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
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

/// Writes the text of completion `index` so far, that of all its events, to `buffer` of `capacity` bytes, and its length to `n_needed`.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
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

/// Writes the indices of all completions to `buffer` of `capacity` elements, from the likeliest to the least likely, and their number to
/// `n_needed`. The measure is the mean log-probability of the tokens (mean_logprob of ember_completions_usage), so the first is the
/// best of `n`. Needs ember_generate_options_set_logprobs.
/// Errors: EMBER_E_INVALID_ARGUMENT while one has not ended, and where log-probabilities were not asked for;
/// EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
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
