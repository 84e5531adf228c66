//! What a context has done, and how long it took.

use std::time::Duration;

use super::args::{fill_struct, handle};
use super::context::ember_context;
use super::error::ember_error;
use super::guard::guard;
use crate::context::Context;
use crate::error::ember_status;

/// Tokens run and nanoseconds spent since the context was made or ember_context_timings_reset. Calls that ended with an
/// error do not count. Set struct_size to sizeof(ember_timings) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_timings {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Nanoseconds that loading the model took.
    pub load_ns: u64,
    /// Tokens of calls with several tokens of a sequence: prompts.
    pub n_prefill: u64,
    /// Their nanoseconds.
    pub prefill_ns: u64,
    /// Tokens of calls with one token of a sequence, or one of each of several in ascending order: generation.
    pub n_decode: u64,
    /// Their nanoseconds.
    pub decode_ns: u64,
    /// Tokens of texts that were embedded, without those that were cut off.
    pub n_embed: u64,
    /// Their nanoseconds.
    pub embed_ns: u64,
    /// Tokens that were run once more for the states of recurrent layers (LFM2, Qwen 3.5), since their sequence was shortened to where it
    /// has no snapshot.
    pub n_replay: u64,
    /// Their nanoseconds.
    pub replay_ns: u64,
}

fn to_timings(context: &Context) -> ember_timings {
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let t = context.timings();
    ember_timings {
        struct_size: std::mem::size_of::<ember_timings>(),
        load_ns: ns(context.model().load_time()),
        n_prefill: t.n_prefill,
        prefill_ns: ns(t.prefill),
        n_decode: t.n_decode,
        decode_ns: ns(t.decode),
        n_embed: t.n_embed,
        embed_ns: ns(t.embed),
        n_replay: t.n_replay,
        replay_ns: ns(t.replay),
    }
}

/// Writes what a context has done, and how long it took.
/// - @param context the context; not NULL
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_timings_get(
    context: *const ember_context,
    out: *mut ember_timings,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_timings(&handle!(context).lock("context")?.context)))
}

/// Sets the counters of a context to 0; load_ns stays.
/// - @param context the context; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_timings_reset(
    context: *mut ember_context,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(context).lock("context")?.context.reset_timings();
        Ok(())
    })
}
