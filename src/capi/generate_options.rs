//! Options of generation.

use std::ffi::c_char;
use std::time::Duration;

use super::args::{free_handle, handle, output, text};
use super::cancel::{ember_cancel_token, token_or_none};
use super::constraint::{constraint_or_none, ember_constraint};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::error::{Error, Result, ember_status};
use crate::generate::{GenerateOptions, MAX_TOPS, Shift};
use crate::memory::expect_memory;

/// How to generate. Made with ember_generate_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_generate_options {
    _private: (),
}

impl CType for ember_generate_options {
    type Object = Exclusive<GenerateOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:gopt");
    const NAME: &'static str = "ember_generate_options";
}

pub(super) fn options_or_default(options: *const ember_generate_options) -> Result<GenerateOptions> {
    match options.is_null() {
        true => Ok(GenerateOptions::default()),
        false => {
            let options = handle!(options).lock("options")?;
            let n_bytes = options.stops.iter().map(String::len).sum::<usize>();
            expect_memory(n_bytes.saturating_mul(16), "stops of this length")?;
            Ok(options.clone())
        }
    }
}

fn to_n_top(n: u32) -> Result<usize> {
    match n as usize {
        n if n <= MAX_TOPS => Ok(n),
        n => Err(Error::InvalidArgument(format!("n_top must be at most {MAX_TOPS}, got {n}"))),
    }
}

fn to_shift(n_keep: u32, n_drop: u32) -> Option<Shift> {
    (n_drop > 0).then_some(Shift { keep: n_keep as usize, drop: n_drop as usize })
}

fn to_stop(stop: &str) -> Result<String> {
    match stop {
        "" => Err(Error::InvalidArgument("stop is empty: it would end every text".into())),
        stop => {
            expect_memory(stop.len().saturating_mul(4), "a stop of this length").map(|()| stop.to_owned())
        }
    }
}

/// Makes options for a generation, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_generate_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_new(
    out: *mut *mut ember_generate_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_generate_options>(Exclusive::new(GenerateOptions::default()))?)
    })
}

/// Frees options. Generations made with them stay as they are.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_free(options: *mut ember_generate_options) {
    guard_value((), || free_handle!(options))
}

/// Sets how many tokens a generation may have.
/// - @param options the options to change; not NULL
/// - @param max_tokens the most tokens; default: 128
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_max_tokens(
    options: *mut ember_generate_options,
    max_tokens: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.max_tokens = max_tokens as usize;
        Ok(())
    })
}

/// Sets which sequence of the context a generation continues.
/// - @param options the options to change; not NULL
/// - @param sequence number of the sequence, from 0; default: 0
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_sequence(
    options: *mut ember_generate_options,
    sequence: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.seq = sequence;
        Ok(())
    })
}

/// Sets whether the text of a control token in the prompt stands for that token. A prompt made by
/// ember_chat_apply_template needs it. Text that users type must not have it: they could spell the marks of turns.
/// - @param options the options to change; not NULL
/// - @param parse_special true: control tokens are recognized; false, the default: all is plain text
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_parse_special(
    options: *mut ember_generate_options,
    parse_special: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.parse_special = parse_special;
        Ok(())
    })
}

/// Sets whether control tokens that the model generates appear in the text.
/// - @param options the options to change; not NULL
/// - @param render_special true: they appear; false, the default: they are left out
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_render_special(
    options: *mut ember_generate_options,
    render_special: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.render_special = render_special;
        Ok(())
    })
}

/// Sets whether a generation goes on after an end-of-generation token.
/// - @param options the options to change; not NULL
/// - @param ignore_eog true: it goes on; false, the default: it ends
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_ignore_eog(
    options: *mut ember_generate_options,
    ignore_eog: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.ignore_eog = ignore_eog;
        Ok(())
    })
}

/// Adds a stop string. A generation ends where it has been generated, with EMBER_FINISH_STOP_STRING, and the text
/// ends before it. Text that may be the beginning of a stop string is held back until that is certain, however the
/// model cuts it into tokens. Of several stop strings the one that is complete first counts, of those complete with
/// the same token the longest.
/// - @param options the options to change; not NULL
/// - @param stop the stop string, UTF-8, not empty; not NULL
/// - @param stop_len length of `stop` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `stop`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty one; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_add_stop(
    options: *mut ember_generate_options,
    stop: *const c_char,
    stop_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, stop) = (handle!(options), text!(stop, stop_len));
        options.lock("options")?.stops.push(to_stop(stop)?);
        Ok(())
    })
}

/// Sets whether the stop string that ended a generation is part of its text.
/// - @param options the options to change; not NULL
/// - @param include_stop true: the text ends with it; false, the default: the text ends before it
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_include_stop(
    options: *mut ember_generate_options,
    include_stop: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.include_stop = include_stop;
        Ok(())
    })
}

/// Sets whether the prompt is the whole text of the sequence, from its first token on. Ember then keeps what the
/// sequence begins with already, forgets the rest of it, and runs only the new part of the prompt (its last token in
/// any case). This is for conversations: give all of it each time and pay for what was added.
/// - @param options the options to change; not NULL
/// - @param reuse_prefix true: the prompt is the whole text; false, the default: it goes after what the sequence
///   holds
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_reuse_prefix(
    options: *mut ember_generate_options,
    reuse_prefix: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.reuse_prefix = reuse_prefix;
        Ok(())
    })
}

/// Sets whether the first event is the prompt's text.
/// - @param options the options to change; not NULL
/// - @param echo true: it is; false, the default: it is not
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_echo(
    options: *mut ember_generate_options,
    echo: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.echo = echo;
        Ok(())
    })
}

/// Sets whether events carry the log-probability of their token, in the model's own distribution, before the
/// sampler's stages.
/// - @param options the options to change; not NULL
/// - @param logprobs true: they do; false, the default: they do not
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_logprobs(
    options: *mut ember_generate_options,
    logprobs: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.logprobs = logprobs;
        Ok(())
    })
}

/// Sets how many of the likeliest tokens each event carries, with their log-probabilities. More than 0 means
/// ember_generate_options_set_logprobs too.
/// - @param options the options to change; not NULL
/// - @param n_top tokens, 64 at most; default: 0
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for more than 64; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_n_top(
    options: *mut ember_generate_options,
    n_top: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_top = to_n_top(n_top)?;
        Ok(())
    })
}

/// Limits how long a generation may take. It ends with EMBER_FINISH_TIME_LIMIT when another token would come later.
/// The time counts from the making of the generator, or from the submission to an engine. A prompt that runs already
/// is run to its end, or, by an engine, to the end of the step. A limit that is over before the first step ends the
/// generation there, and the prompt is not run.
/// - @param options the options to change; not NULL
/// - @param time_limit_ms milliseconds; 0, the default: no limit
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_time_limit(
    options: *mut ember_generate_options,
    time_limit_ms: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let limit = (time_limit_ms > 0).then_some(Duration::from_millis(time_limit_ms));
        handle!(options).lock("options")?.time_limit = limit;
        Ok(())
    })
}

/// Sets which of the requests that wait in an engine's queue begins first: the one of the highest priority, of equal
/// ones the one that came first. Nobody waits for ever. Of the requests that 32 later ones have passed, the one that
/// came first is next all the same, and all others are counted from 0 again. So an urgent request after a long queue
/// waits for one of these at most, and then 32 go by priority. Where pages of the KV cache are few, requests give
/// theirs up in the opposite order and are run again later. Requests that came later and stay have passed them too.
/// - @param options the options to change; not NULL
/// - @param priority any number, higher first; default: 0
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_priority(
    options: *mut ember_generate_options,
    priority: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.priority = priority;
        Ok(())
    })
}

/// Sets the token that ends a generation early, with EMBER_FINISH_CANCELLED and no error. The context's own token
/// ends it too. A request of an engine ends with the engine's next step, as with ember_request_cancel.
/// - @param options the options to change; not NULL
/// - @param token the token; NULL, the default: none
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The options keep what they need of `token`; the caller may free it.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_cancel_token(
    options: *mut ember_generate_options,
    token: *const ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, token) = (handle!(options), token_or_none(token)?);
        options.lock("options")?.cancel = token;
        Ok(())
    })
}

/// Sets what a generation forgets where its sequence is full (n_ctx). Each time it then forgets tokens as
/// ember_context_sequence_shift does, and goes on; ember_generate_result counts them. A prompt that does not fit is
/// an error all the same. If the KV cache has no pages to copy those that other sequences have too, the step gives
/// EMBER_E_CONTEXT_FULL.
/// - @param options the options to change; not NULL
/// - @param n_keep how many tokens stay at the beginning
/// - @param n_drop how many tokens after these are forgotten each time; 0, the default: none, and the generation ends
///   with EMBER_FINISH_CONTEXT_FULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins: EMBER_E_INVALID_ARGUMENT
///   when both numbers together are not below n_ctx, or the first `n_keep` tokens would see again what was given back
///   (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a model with learned positions (GPT-2)
///   or recurrent layers (LFM2, Qwen 3.5), and in an engine.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_shift(
    options: *mut ember_generate_options,
    n_keep: u32,
    n_drop: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.shift = to_shift(n_keep, n_drop);
        Ok(())
    })
}

/// Sets what generated text has to follow. Only tokens that the constraint allows are candidates, before all stages
/// of the sampler, and the generation ends with it, as EMBER_FINISH_EOG. It begins with the first generated token, or
/// after its trigger. ember_generate_result says whether the text is complete: one that is cut off, by max_tokens, a
/// stop string, a full context or a cancel token, is EMBER_CONSTRAINT_UNFINISHED. Tokens that the constraint leaves
/// no choice for are run together with the one before them, in one batch; each has its event all the same. Draft
/// tokens that it does not allow are not run.
/// - @param options the options to change; not NULL
/// - @param constraint the constraint, made for the same model; NULL, the default: none
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The options keep what they need of `constraint`; the caller may free it.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins: EMBER_E_INVALID_ARGUMENT for
///   a constraint of another model, and with ember_generate_options_set_ignore_eog. Errors of a step:
///   EMBER_E_INVALID_ARGUMENT where a limit of the constraint is reached, or the sampler's stages rule out all that
///   it allows.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_constraint(
    options: *mut ember_generate_options,
    constraint: *const ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, constraint) = (handle!(options), constraint_or_none(constraint)?);
        options.lock("options")?.constraint = constraint;
        Ok(())
    })
}
