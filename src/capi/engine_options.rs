//! Options of making an engine.

use super::args::{free_handle, handle, output};
use super::context_options::ember_context_options;
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::context::MAX_SEQ;
use crate::engine::{EngineOptions, check_max_queue};
use crate::error::{Error, Result, ember_status};

/// How to make an engine. Made with ember_engine_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_engine_options {
    _private: (),
}

impl CType for ember_engine_options {
    type Object = Exclusive<EngineOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:ngop");
    const NAME: &'static str = "ember_engine_options";
}

pub(super) fn engine_options_or_default(options: *const ember_engine_options) -> Result<EngineOptions> {
    match options.is_null() {
        true => Ok(EngineOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

fn to_n_parallel(n: u32) -> Result<usize> {
    match n as usize {
        n if (1..=MAX_SEQ).contains(&n) => Ok(n),
        n => Err(Error::InvalidArgument(format!("n_parallel must be 1 to {MAX_SEQ}, got {n}"))),
    }
}

/// Makes options for an engine, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_engine_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_new(
    out: *mut *mut ember_engine_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let options = Exclusive::new(EngineOptions::default());
        output!(out).set(try_into_raw::<ember_engine_options>(options)?)
    })
}

/// Frees options. Engines made with them stay as they are.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_free(options: *mut ember_engine_options) {
    guard_value((), || free_handle!(options))
}

/// Sets how the engine's context is made: n_ctx is the positions of each request, n_batch the most rows of a step
/// (prompts get 32 in any case); kv_limit and threads are as in a context. The number of sequences, and whether
/// prefixes are kept, are the engine's own options.
/// - @param options the options to change; not NULL
/// - @param context_options the options; default: those of ember_context_options_new; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `context_options`.
/// - Threads: Any thread; one call at a time for `options` and `context_options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_set_context_options(
    options: *mut ember_engine_options,
    context_options: *const ember_context_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, context_options) = (handle!(options), handle!(context_options));
        let context = context_options.lock("context_options")?.clone();
        options.lock("options")?.context = context;
        Ok(())
    })
}

/// Sets how many requests run together. More give more tokens in all, fewer to each.
/// - @param options the options to change; not NULL
/// - @param n_parallel 1 to 4096; default: 8
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_set_n_parallel(
    options: *mut ember_engine_options,
    n_parallel: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, n_parallel) = (handle!(options), to_n_parallel(n_parallel)?);
        options.lock("options")?.n_parallel = n_parallel;
        Ok(())
    })
}

/// Sets how many requests may wait until one of those that run has ended; more are refused with EMBER_E_QUEUE_FULL. A
/// request waits until the next step in any case.
/// - @param options the options to change; not NULL
/// - @param max_queue requests, at least 1; default: 256
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_set_max_queue(
    options: *mut ember_engine_options,
    max_queue: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, max_queue) = (handle!(options), check_max_queue(max_queue as usize)?);
        options.lock("options")?.max_queue = max_queue;
        Ok(())
    })
}

/// Sets whether requests that begin alike, such as with the same system prompt, share what was computed for the first
/// of them, as long as it is in the cache. What they give does not change.
/// - @param options the options to change; not NULL
/// - @param share_prefixes true, the default: they do; false: each is computed alone
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_set_share_prefixes(
    options: *mut ember_engine_options,
    share_prefixes: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.share_prefixes = share_prefixes;
        Ok(())
    })
}

/// Sets which threads do the engine's steps.
/// - @param options the options to change; not NULL
/// - @param thread true: one of the engine's own, on which callbacks then run; false, the default: the caller's
///   threads, in ember_engine_step and ember_request_next
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_options_set_thread(
    options: *mut ember_engine_options,
    thread: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.thread = thread;
        Ok(())
    })
}
