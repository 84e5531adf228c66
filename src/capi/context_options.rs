//! Options of making a context.

use super::args::{array, free_handle, handle, output};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model_options::to_limit;
use crate::backend::KvType;
use crate::context::{BackendKind, ContextOptions, MAX_BATCH, MAX_CTX, MAX_SEQ, MAX_SNAPSHOTS};
use crate::error::{Error, Result, ember_status};
use crate::threads::{CpuSet, MAX_THREADS};

/// How to make a context. Made with ember_context_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_context_options {
    _private: (),
}

impl CType for ember_context_options {
    type Object = Exclusive<ContextOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:copt");
    const NAME: &'static str = "ember_context_options";
}

/// What keys and values in the KV cache are rounded to.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_kv_type {
    /// IEEE binary16.
    EMBER_KV_F16 = 0,
    /// binary32: twice the memory, no rounding.
    EMBER_KV_F32 = 1,
    /// Bytes with a binary16 scale for each 32 components of a head: a little more than half the memory of binary16.
    /// The length of the model's heads must be a multiple of 32.
    EMBER_KV_Q8_0 = 2,
    /// 16-bit integers times a power of two for each head's key or value of a token: about as exact as binary16, four bytes
    /// more for each, and multiplied as integers, which is faster on x86-64.
    /// The length of the model's heads must be a multiple of 16, 2048 at most.
    EMBER_KV_I16 = 3,
    /// The default: EMBER_KV_I16 on x86-64 where the model's heads allow it, else EMBER_KV_F16. States can only be loaded where keys
    /// and values are of the same types: who takes them from one kind of processor to another chooses one.
    EMBER_KV_AUTO = 4,
}

/// Implementation of the mathematics.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_backend {
    /// The fastest there is, on all threads of the context: the default.
    EMBER_BACKEND_AUTO = 0,
    /// The plain scalar definition, on the calling thread: slow, the reference to compare with.
    EMBER_BACKEND_SCALAR = 1,
}

fn to_kv_type(arg: &str, kv_type: i32) -> Result<Option<KvType>> {
    match kv_type {
        0 => Ok(Some(KvType::F16)),
        1 => Ok(Some(KvType::F32)),
        2 => Ok(Some(KvType::Q8_0)),
        3 => Ok(Some(KvType::I16)),
        4 => Ok(None),
        _ => Err(Error::InvalidArgument(format!("{arg} must be an ember_kv_type (0 to 4), got {kv_type}"))),
    }
}

fn to_backend(backend: i32) -> Result<BackendKind> {
    match backend {
        0 => Ok(BackendKind::Auto),
        1 => Ok(BackendKind::Scalar),
        _ => Err(Error::InvalidArgument(format!("backend must be an ember_backend (0 or 1), got {backend}"))),
    }
}

pub(super) fn from_backend(backend: BackendKind) -> ember_backend {
    match backend {
        BackendKind::Auto => ember_backend::EMBER_BACKEND_AUTO,
        BackendKind::Scalar => ember_backend::EMBER_BACKEND_SCALAR,
    }
}

fn to_cpus(numbers: &[u32]) -> Result<Option<CpuSet>> {
    match numbers {
        [] => Ok(None),
        numbers => CpuSet::new(numbers).map(Some),
    }
}

fn in_range(arg: &str, value: u32, least: usize, most: usize) -> Result<usize> {
    match value as usize {
        value if (least..=most).contains(&value) => Ok(value),
        _ => Err(Error::InvalidArgument(format!("{arg} must be {least} to {most}, got {value}"))),
    }
}

pub(super) fn context_options_or_default(options: *const ember_context_options) -> Result<ContextOptions> {
    match options.is_null() {
        true => Ok(ContextOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

/// Makes options for a context, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_context_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_new(
    out: *mut *mut ember_context_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_context_options>(Exclusive::new(ContextOptions::default()))?)
    })
}

/// Frees options. Contexts made with them stay as they are.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_free(options: *mut ember_context_options) {
    guard_value((), || free_handle!(options))
}

/// Sets how many positions each sequence has.
/// - @param options the options to change; not NULL
/// - @param n_ctx tokens per sequence, 2147483647 at most; 0, the default: what the model was trained on, but no more
///   than 4096
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_n_ctx(
    options: *mut ember_context_options,
    n_ctx: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_ctx = in_range("n_ctx", n_ctx, 0, MAX_CTX)?;
        Ok(())
    })
}

/// Sets how many sequences a context has.
/// - @param options the options to change; not NULL
/// - @param n_seq 1 to 4096; default: 1
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_n_seq(
    options: *mut ember_context_options,
    n_seq: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_seq = in_range("n_seq", n_seq, 1, MAX_SEQ)?;
        Ok(())
    })
}

/// Sets how many rows run through the model at a time; longer calls are cut. More is faster and takes more memory. It
/// is never more than n_ctx times n_seq.
/// - @param options the options to change; not NULL
/// - @param n_batch rows, 65536 at most; 0, the default: 256, and for an encoder, which must see a text as a whole,
///   n_ctx where that is more, up to 65536
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_n_batch(
    options: *mut ember_context_options,
    n_batch: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_batch = in_range("n_batch", n_batch, 0, MAX_BATCH)?;
        Ok(())
    })
}

/// Sets how many threads compute. Results do not depend on it. When the contexts at work in a process have more
/// threads than it has CPUs, some of their threads sleep.
/// - @param options the options to change; not NULL
/// - @param n_threads threads, the calling one included, 512 at most; 0, the default: one for each core that the
///   process may use (by its affinity mask and cgroup quota, or by ember_context_options_set_worker_cpus), of
///   performance cores only where there are slower ones too
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_n_threads(
    options: *mut ember_context_options,
    n_threads: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_threads = in_range("n_threads", n_threads, 0, MAX_THREADS)?;
        Ok(())
    })
}

/// Binds the threads that a context makes to CPUs. The calling thread, which works too, is never bound; bind it
/// yourself if you want that. Whether the process may use each of these CPUs, and whether the system can bind threads
/// at all (Linux and Android can), shows when a context is made.
/// - @param options the options to change; not NULL
/// - @param cpus the system's numbers of the CPUs, each below 8192; one may come twice; may be NULL if `n` is 0
/// - @param n number of `cpus`; 0, the default: the system chooses
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `cpus`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_worker_cpus(
    options: *mut ember_context_options,
    cpus: *const u32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, cpus) = (handle!(options), array!(cpus, n));
        options.lock("options")?.worker_cpus = to_cpus(cpus)?;
        Ok(())
    })
}

/// Sets what keys and values in the KV cache are rounded to. The cache of an encoder, which holds one layer at a
/// time, is float32 all the same. Whether the type fits the model shows when a context is made.
/// - @param options the options to change; not NULL
/// - @param kv_type an ember_kv_type; default: EMBER_KV_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_kv_type(
    options: *mut ember_context_options,
    kv_type: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let mut options = handle!(options).lock("options")?;
        let kv_type = to_kv_type("kv_type", kv_type)?;
        (options.k_type, options.v_type) = (kv_type, kv_type);
        Ok(())
    })
}

/// Sets what keys in the KV cache are rounded to; see ember_context_options_set_kv_type.
/// - @param options the options to change; not NULL
/// - @param k_type an ember_kv_type; default: EMBER_KV_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_k_type(
    options: *mut ember_context_options,
    k_type: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.k_type = to_kv_type("k_type", k_type)?;
        Ok(())
    })
}

/// Sets what values in the KV cache are rounded to; see ember_context_options_set_kv_type. A model whose values are
/// parts of its keys (latent attention, as in DeepSeek) keeps no others, and refuses another type than that of keys.
/// - @param options the options to change; not NULL
/// - @param v_type an ember_kv_type; default: EMBER_KV_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_v_type(
    options: *mut ember_context_options,
    v_type: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.v_type = to_kv_type("v_type", v_type)?;
        Ok(())
    })
}

/// Sets the implementation of the mathematics.
/// - @param options the options to change; not NULL
/// - @param backend an ember_backend; default: EMBER_BACKEND_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_backend(
    options: *mut ember_context_options,
    backend: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.backend = to_backend(backend)?;
        Ok(())
    })
}

/// Limits the KV cache, whose pages all sequences share. When no page is left, what would need one gives
/// EMBER_E_CONTEXT_FULL and leaves every sequence as it was; rewind one, then. Making a context gives
/// EMBER_E_INVALID_ARGUMENT for less than one page.
/// - @param options the options to change; not NULL
/// - @param bytes the most bytes of the cache; 0, the default: as many as all sequences need at full length, or at
///   the same time where they give pages back (ember_context_options_set_keep_all_positions)
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_kv_limit(
    options: *mut ember_context_options,
    bytes: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.kv_limit = to_limit(bytes);
        Ok(())
    })
}

/// Sets whether whole pages of the KV cache are kept when no sequence has them any more, until the pages are needed.
/// Texts that begin alike (with the same instructions, say) are then not computed again. ember_context_sequence_reuse
/// finds such pages, and so does a generation with ember_generate_options_set_reuse_prefix.
/// - @param options the options to change; not NULL
/// - @param keep_prefixes true: they are kept; false, the default: they are given back
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_keep_prefixes(
    options: *mut ember_context_options,
    keep_prefixes: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.keep_prefixes = keep_prefixes;
        Ok(())
    })
}

/// Sets whether sequences keep all their positions in layers with a window (all of Mistral 0.1 and Phi-3 mini, some
/// of Gemma 2 to 4 and gpt-oss). By default a growing sequence gives back the memory that no later token sees: a long
/// text then takes about as much memory in these layers as its last tokens, those of a window and of a batch. All
/// n_ctx positions can be used, and the numbers are the same. But a sequence cannot be cut (ember_context_rewind,
/// ember_context_sequence_copy) where a window would reach back to what is gone. It can be cut within its last 32
/// tokens, and to nothing. Unless the pages were needed since, it can also be cut at the end of the last call with
/// several tokens, which is the last prompt as a rule.
/// - @param options the options to change; not NULL
/// - @param keep_all_positions true: all are kept; false, the default: those that no later token sees are given back
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_keep_all_positions(
    options: *mut ember_context_options,
    keep_all_positions: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.keep_all_positions = keep_all_positions;
        Ok(())
    })
}

/// Sets how many snapshots of recurrent states a context can hold, in models with recurrent layers (LFM2, Qwen 3.5).
/// Such a layer keeps one state of a sequence, which cannot be taken back by a few tokens. So a sequence that is
/// shortened goes on from its nearest snapshot, and what lies between is run once more (`n_replay` of ember_timings).
/// Ember takes snapshots at the ends of prompts and answers, and within prompts. A new one replaces the one that was
/// unused for the longest time. As many draft tokens can be checked at a time as there are snapshots.
/// - @param options the options to change; not NULL
/// - @param n_snapshots snapshots, 65536 at most, each of the size of a state, which counts as part of the KV cache;
///   0, the default: 8 for each sequence, but no more than 64
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for more than 65536; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_n_snapshots(
    options: *mut ember_context_options,
    n_snapshots: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let n = in_range("n_snapshots", n_snapshots, 0, MAX_SNAPSHOTS)?;
        handle!(options).lock("options")?.n_snapshots = (n > 0).then_some(n);
        Ok(())
    })
}

/// Sets how many tokens lie between two snapshots of recurrent states within a prompt. In a long prompt they are
/// further apart, so that it takes no more than half of all snapshots.
/// - @param options the options to change; not NULL
/// - @param n_tokens tokens, rounded up to whole pages (page_len of ember_context_info); 0, the default: 256
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_snapshot_distance(
    options: *mut ember_context_options,
    n_tokens: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.snapshot_distance = n_tokens as usize;
        Ok(())
    })
}

/// Limits the large buffers of a context: KV cache, activations, logits. A limit of the model
/// (ember_model_options_set_memory_limit) counts as well.
/// - @param options the options to change; not NULL
/// - @param bytes the most bytes of these buffers; 0, the default: no limit of its own
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_options_set_memory_limit(
    options: *mut ember_context_options,
    bytes: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.memory_limit = to_limit(bytes);
        Ok(())
    })
}
