//! Engines: many generations together.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use super::args::{UserData, array, fill_struct, free_handle, handle, optional_output, output, text};
use super::context::{context_info, ember_context_info};
use super::engine_options::{ember_engine_options, engine_options_or_default};
use super::error::ember_error;
use super::generate::{ember_event_callback, forward, sampler_or_greedy};
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::{guard, guard_value};
use super::handle::{CType, try_into_raw};
use super::model::ember_model;
use super::request::{ember_request, request_into_raw};
use super::sampler::ember_sampler;
use crate::engine::{Engine, Metrics, Sink};
use crate::error::{Result, ember_status};
use crate::generate::Prompt;

/// Many generations on one model: a queue of requests, and a context that runs as many of them together as it may. Any number
/// of threads may use it at the same time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_engine {
    _private: (),
}

impl CType for ember_engine {
    type Object = Engine;
    const TAG: u64 = u64::from_be_bytes(*b"emb:engn");
    const NAME: &'static str = "ember_engine";
}

/// What an engine has done since it was made, and how things stand. Set struct_size to sizeof(ember_engine_metrics) before
/// the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_engine_metrics {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Requests that were taken.
    pub n_submitted: u64,
    /// Requests that were refused with EMBER_E_QUEUE_FULL.
    pub n_refused: u64,
    /// Requests that ended by themselves, by a stop string, in a full context, or by their callback.
    pub n_finished: u64,
    /// Requests that were cancelled, or ended by their time limit.
    pub n_cancelled: u64,
    /// Requests that an error ended.
    pub n_failed: u64,
    /// How often a request gave its pages up for others and was run again later.
    pub n_preempted: u64,
    /// Tokens of the prompts of requests that generated.
    pub n_prompt: u64,
    /// Of these, those that were in the cache already.
    pub n_reused: u64,
    /// Tokens of prompts that were run, and what was run again of requests that had given their pages up.
    pub n_prefilled: u64,
    /// Tokens generated.
    pub n_generated: u64,
    /// Steps that ran something.
    pub n_steps: u64,
    /// Nanoseconds spent in steps.
    pub busy_ns: u64,
    /// Tokens generated for each second spent in steps. For the rate of the last minute take the difference of two
    /// snapshots of n_generated.
    pub tokens_per_s: f64,
    /// n_reused for each of n_prompt, 0 to 1.
    pub cache_hit_rate: f64,
    /// Requests that wait.
    pub n_queued: u32,
    /// Requests that run.
    pub n_active: u32,
    /// Pages of the KV cache.
    pub n_pages: u32,
    /// Pages that no request has; the cache may keep prefixes in them until they are needed.
    pub n_free_pages: u32,
}

fn to_metrics(m: &Metrics) -> ember_engine_metrics {
    let n = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ember_engine_metrics {
        struct_size: std::mem::size_of::<ember_engine_metrics>(),
        n_submitted: m.n_submitted,
        n_refused: m.n_refused,
        n_finished: m.n_finished,
        n_cancelled: m.n_cancelled,
        n_failed: m.n_failed,
        n_preempted: m.n_preempted,
        n_prompt: m.n_prompt,
        n_reused: m.n_reused,
        n_prefilled: m.n_prefilled,
        n_generated: m.n_generated,
        n_steps: m.n_steps,
        busy_ns: u64::try_from(m.busy.as_nanos()).unwrap_or(u64::MAX),
        tokens_per_s: m.tokens_per_s(),
        cache_hit_rate: m.cache_hit_rate(),
        n_queued: n(m.n_queued),
        n_active: n(m.n_active),
        n_pages: n(m.n_pages),
        n_free_pages: n(m.n_free_pages),
    }
}

/// `EMBER_FOREVER`, which cbindgen.toml writes into the header.
const FOREVER: u32 = u32::MAX;

/// How long to wait, as C says it.
pub(super) fn to_patience(timeout_ms: u32) -> Duration {
    match timeout_ms {
        FOREVER => Duration::MAX,
        ms => Duration::from_millis(u64::from(ms)),
    }
}

/// Frees an engine unless a call is using it, which the log then says.
fn may_go(engine: &Engine) -> bool {
    let idle = !engine.is_busy();
    if !idle {
        log::error!("ember_engine_free: the engine is in use by another call and was not freed");
    }
    idle
}

fn submit(
    engine: &Engine,
    prompt: Prompt<'_>,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_event_callback,
    user_data: UserData,
) -> Result<*mut ember_request> {
    let options = options_or_default(options)?;
    let sampler = sampler_or_greedy(sampler)?.lock("sampler")?.try_clone()?;
    let sink = match callback {
        None => Sink::Pull,
        Some(_) => Sink::Callback(Box::new(forward(callback, user_data)?)),
    };
    request_into_raw(engine.submit(prompt, &options, sampler, sink)?)
}

/// Makes an engine over a model, with a context of its own. It takes its large buffers here: as much as
/// ember_memory_estimate says of a context whose n_seq is n_parallel.
/// - @param model the model; not NULL
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the engine; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_engine_free. `options` may be freed after the call. The engine
///   keeps the model alive.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for options that contradict the model; EMBER_E_UNSUPPORTED for an encoder, and
///   for a thread where there are none; EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_new(
    model: *mut ember_model,
    options: *const ember_engine_options,
    out: *mut *mut ember_engine,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        let engine = Engine::new(&model.model, &engine_options_or_default(options)?)?;
        out.set(try_into_raw::<ember_engine>(engine)?)
    })
}

/// Ends all requests as cancelled, waits for the engine's own thread if it has one, and frees the engine. The KV
/// cache goes with it.
/// - @param engine the engine; may be NULL
/// - Ownership: Requests stay, with the events that were not taken, until they are freed themselves, in any order.
/// - Threads: Any thread. While a call of ember_engine_step is under way (in one of its callbacks, or on another
///   thread) the engine is not freed, and the log says so: free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_free(engine: *mut ember_engine) {
    guard_value((), || free_handle!(engine, may_go))
}

/// Has a prompt continued, together with other requests. The prompt is the whole text: it is tokenized here (BOS
/// included) and waits in the queue. A request gives what it would give alone (with keys and values in EMBER_KV_F32,
/// but for the last digits of log-probabilities). **A prompt made by ember_chat_apply_template needs
/// ember_generate_options_set_parse_special.** A prompt for which the whole KV cache has too few pages
/// (ember_context_options_set_kv_limit) ends with EMBER_FINISH_CONTEXT_FULL and no token when its turn comes.
/// - @param engine the engine; not NULL
/// - @param prompt the prompt, UTF-8, not empty; not NULL
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to generate; NULL: the defaults; of them the sequence and reuse_prefix mean nothing here
/// - @param sampler chooses the tokens; NULL: greedy; requests that shall differ need samplers of different seeds,
///   since Ember takes a copy, random state and all (ember_sampler_clone), in which the prompt takes the place of all
///   that was accepted
/// - @param callback receives each event, on the thread that does the step: a caller of ember_engine_step or
///   ember_request_next, or the engine's own; NULL: take the events with ember_request_next
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param out receives the request; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_request_free. `options` may be freed after the call. `sampler` is
///   copied. `user_data` must stay valid until the last event, EMBER_EVENT_END, or until the callback returned
///   non-zero.
/// - Threads: Any thread, and callbacks too; one call at a time for `options` and `sampler`, a second gives
///   EMBER_E_BUSY. A callback that waits for this engine's steps gets EMBER_E_BUSY.
/// - Errors: EMBER_E_QUEUE_FULL when as many requests wait as may; EMBER_E_CONTEXT_FULL for a prompt of more than
///   n_ctx tokens; EMBER_E_INVALID_ARGUMENT for an empty prompt; EMBER_E_UNSUPPORTED without a tokenizer;
///   EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_submit(
    engine: *mut ember_engine,
    prompt: *const c_char,
    prompt_len: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_event_callback,
    user_data: *mut c_void,
    out: *mut *mut ember_request,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (engine, prompt, out) = (handle!(engine), text!(prompt, prompt_len), output!(out));
        let prompt = Prompt::Text(prompt);
        out.set(submit(engine, prompt, options, sampler, callback, UserData(user_data))?)
    })
}

/// Has a prompt of token ids continued, together with other requests; see ember_engine_submit. Nothing is added to
/// the prompt.
/// - @param engine the engine; not NULL
/// - @param tokens the token ids of the prompt, at least one; not NULL
/// - @param n_tokens number of `tokens`
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param callback receives each event, on the thread that does the step; NULL: take the events with
///   ember_request_next
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param out receives the request; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_request_free. `options` may be freed after the call. `sampler` is
///   copied. `user_data` must stay valid until the last event, EMBER_EVENT_END, or until the callback returned
///   non-zero.
/// - Threads: Any thread, and callbacks too; one call at a time for `options` and `sampler`, a second gives
///   EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as ember_engine_submit.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_submit_tokens(
    engine: *mut ember_engine,
    tokens: *const u32,
    n_tokens: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_event_callback,
    user_data: *mut c_void,
    out: *mut *mut ember_request,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (engine, tokens, out) = (handle!(engine), array!(tokens, n_tokens), output!(out));
        let prompt = Prompt::Tokens(tokens);
        out.set(submit(engine, prompt, options, sampler, callback, UserData(user_data))?)
    })
}

/// Does one step on the calling thread: a batch with the next token of each request that runs, and chunks of prompts.
/// Callbacks and requests get its events. A pump is a thread that calls this in a loop, with a timeout after which it
/// looks whether the host has it stop: nothing but a request ends a longer wait. What ends a single request is
/// reported to that request.
/// - @param engine the engine; not NULL
/// - @param timeout_ms milliseconds to wait for something to do, and for another thread that does a step; 0: not at
///   all; EMBER_FOREVER: without end
/// - @param out_more receives whether there is more to do now; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_BUSY when another thread does steps all the while, the engine has a thread of its own, or the
///   caller is a callback of the step under way; EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_step(
    engine: *mut ember_engine,
    timeout_ms: u32,
    out_more: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (engine, out) = (handle!(engine), optional_output!(out_more));
        let more = engine.step(to_patience(timeout_ms))?;
        out.map_or(Ok(()), |out| out.set(more))
    })
}

/// Writes what an engine has done since it was made, and how things stand.
/// - @param engine the engine; not NULL
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_metrics_get(
    engine: *const ember_engine,
    out: *mut ember_engine_metrics,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_metrics(&handle!(engine).metrics()?)))
}

/// Writes the options in force in the engine's context. n_ctx are the positions of each request, for its prompt and
/// what is generated; n_seq is how many requests run together.
/// - @param engine the engine; not NULL
/// - @param out receives them; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_engine_info_get(
    engine: *const ember_engine,
    out: *mut ember_context_info,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let engine = handle!(engine);
        let kv_pages = engine.kv_pages()?;
        fill_struct!(out, context_info(engine.context_options(), kv_pages))
    })
}
