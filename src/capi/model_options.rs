//! Options of loading a model.

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use super::args::{UserData, free_handle, handle, output, text};
use super::cancel::{ember_cancel_token, token_or_none};
use super::error::ember_error;
use super::guard::{guard, guard_value, host};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::error::{Error, Result, ember_status};
use crate::gguf::{GgufString, Value};
use crate::kernels::Isa;
use crate::memory::{Allocator, expect_memory};
use crate::model::{LoadOptions, Pack, ProgressCallback};

/// How to load a model. Made with ember_model_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_model_options {
    _private: (),
}

impl CType for ember_model_options {
    type Object = Exclusive<LoadOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:mopt");
    const NAME: &'static str = "ember_model_options";
}

/// Which matrices are packed when a model is loaded: copied, with their rows rearranged for the vector instructions of this
/// machine, which multiply them faster than rows in the file's order. Packing reads the whole model, so that loading takes
/// about as long as copying it does. Packed matrices take as much memory as in the file and belong
/// to the process. A file that is mapped takes none of its own for them; a model that was read into memory or
/// came from a buffer keeps both and takes twice its size.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_pack {
    /// Those of number formats that this machine's instruction set has products with packed rows for: the default.
    EMBER_PACK_AUTO = 0,
    /// None: loading reads next to nothing, and the matrices lie in the mapped file, where processes with the same model
    /// share them and the system may drop and fetch them again. They are packed a few rows at a time whenever they are
    /// multiplied: on a machine with AVX-512 prompts take up to a third longer for it, and tokens one by one two to three
    /// times as long.
    EMBER_PACK_NEVER = 1,
    /// Those of every number format that can be packed. Where the instruction set has no products with packed rows, plain
    /// code multiplies them, slower than it does rows in the file's order: for comparing machines.
    EMBER_PACK_ALWAYS = 2,
}

/// Receives how far a load is, on the thread that loads.
/// - @param done how much is done, from 0 to 1
/// - @param user_data what was given with the callback
/// - @return 0 to go on; anything else ends the load with EMBER_E_CANCELLED
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_progress_callback = Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> i32>;

/// Gives memory to Ember, all bytes zero. It runs on any thread, also on several at the same time.
/// - @param size number of bytes
/// - @param alignment a power of two that the address must be a multiple of; with another address the call fails with
///   EMBER_E_INVALID_ARGUMENT
/// - @param user_data what was given with the callback
/// - @return the address, or NULL when there is no memory left
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_allocate_callback =
    Option<unsafe extern "C" fn(size: usize, alignment: usize, user_data: *mut c_void) -> *mut c_void>;

/// Takes back memory that an ember_allocate_callback gave. It runs on any thread, also on several at the same time.
/// - @param block the address
/// - @param size the number of bytes that was asked for
/// - @param alignment the alignment that was asked for
/// - @param user_data what was given with the callback
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_deallocate_callback =
    Option<unsafe extern "C" fn(block: *mut c_void, size: usize, alignment: usize, user_data: *mut c_void)>;

/// The host's functions for large buffers.
struct HostAllocator {
    allocate: unsafe extern "C" fn(usize, usize, *mut c_void) -> *mut c_void,
    deallocate: unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void),
    user_data: UserData,
}

// SAFETY: the header asks the host for memory that is zero and belongs to whoever asked until it is given back.
unsafe impl Allocator for HostAllocator {
    fn allocate(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        // SAFETY: the host's function with the host's pointer, as its documentation says.
        NonNull::new(host(|| unsafe { (self.allocate)(size, align, self.user_data.0) }).cast())
    }

    unsafe fn free(&self, block: NonNull<u8>, size: usize, align: usize) {
        // SAFETY: as above; the block came from it with these numbers.
        host(|| unsafe { (self.deallocate)(block.as_ptr().cast(), size, align, self.user_data.0) })
    }
}

/// Both functions of the host, or neither.
fn to_allocator(
    allocate: ember_allocate_callback,
    deallocate: ember_deallocate_callback,
    user_data: *mut c_void,
) -> Result<Option<Arc<dyn Allocator>>> {
    match (allocate, deallocate) {
        (None, None) => Ok(None),
        (Some(allocate), Some(deallocate)) => {
            Ok(Some(Arc::new(HostAllocator { allocate, deallocate, user_data: UserData(user_data) })))
        }
        (None, _) => Err(Error::InvalidArgument("allocate is NULL, but deallocate is not".into())),
        (_, None) => Err(Error::InvalidArgument("deallocate is NULL, but allocate is not".into())),
    }
}

fn to_progress(callback: ember_progress_callback, user_data: *mut c_void) -> Option<ProgressCallback> {
    let callback = callback?;
    let user_data = UserData(user_data);
    Some(ProgressCallback(Arc::new(move |done| {
        let UserData(user_data) = { user_data };
        // SAFETY: the host's function with the host's pointer, as its documentation says.
        host(|| unsafe { callback(done, user_data) == 0 })
    })))
}

/// What a limit of bytes means: 0 is none.
pub(super) fn to_limit(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes)
}

fn set_meta(options: &mut LoadOptions, key: &str, value: Value) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidArgument("key is empty".into()));
    }
    expect_memory(key.len().saturating_mul(4), "a key of this length")?;
    options.metadata.retain(|(known, _)| &**known != key);
    options.metadata.push((key.into(), value));
    Ok(())
}

fn to_pack(pack: i32) -> Result<Pack> {
    match pack {
        0 => Ok(Pack::Auto),
        1 => Ok(Pack::Never),
        2 => Ok(Pack::Always),
        _ => Err(Error::InvalidArgument(format!("pack must be an ember_pack (0 to 2), got {pack}"))),
    }
}

pub(super) fn options_or_default(options: *const ember_model_options) -> Result<LoadOptions> {
    match options.is_null() {
        true => Ok(LoadOptions::default()),
        false => {
            let options = handle!(options).lock("options")?;
            let n_bytes = |(key, value): &(Box<str>, Value)| match value {
                Value::String(text) => key.len() + text.as_bytes().len(),
                _ => key.len(),
            };
            let sum = options.metadata.iter().map(n_bytes).sum::<usize>();
            expect_memory(sum.saturating_mul(4), "a copy of the options")?;
            Ok(options.clone())
        }
    }
}

fn to_isa(name: &str) -> Result<Option<Isa>> {
    match name {
        "" => Ok(None),
        name => Isa::parse("isa", name).map(Some),
    }
}

/// Makes options for loading a model, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_model_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_new(
    out: *mut *mut ember_model_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_model_options>(Exclusive::new(LoadOptions::default()))?)
    })
}

/// Frees options. Models loaded with them stay as they are.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_free(options: *mut ember_model_options) {
    guard_value((), || free_handle!(options))
}

/// Sets whether model files are mapped or read into memory. A mapped file must not be changed or shortened while the
/// model lives. If it is shortened all the same:
/// - Ember does not look at matrices that were packed again;
/// - calls that look up rows of embeddings that are gone give EMBER_E_IO;
/// - where other weights or keys are read, the operating system ends the process with SIGBUS.
///
/// Set it to false for files that others may change. A mapped file stays open, with a descriptor that a program
/// started by exec does not get. The mapping stays where the host closes that descriptor.
/// - @param options the options to change; not NULL
/// - @param use_mmap true, the default: mapped; false: read
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_use_mmap(
    options: *mut ember_model_options,
    use_mmap: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.use_mmap = use_mmap;
        Ok(())
    })
}

/// Lowers the instruction-set level of the model and its contexts. The environment variable EMBER_ISA, read when a
/// model is loaded, lowers the level of every model of the process in the same way.
/// - @param options the options to change; not NULL
/// - @param isa the highest level that may be used, for example "scalar" or "avx2" (ember_build_info lists those of
///   this machine), UTF-8; one above them changes nothing; empty, the default: no limit; may be NULL if `isa_len` is
///   0
/// - @param isa_len length of `isa` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `isa`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a name that this build does not know; EMBER_E_UTF8, EMBER_E_NOMEM,
///   EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_isa(
    options: *mut ember_model_options,
    isa: *const c_char,
    isa_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, isa) = (handle!(options), text!(isa, isa_len));
        options.lock("options")?.isa = to_isa(isa)?;
        Ok(())
    })
}

/// Sets which matrices are packed when a model is loaded. Packing changes no result but those of F16 and BF16
/// weights, by roundings, and of EMBER_PACK_ALWAYS where the instruction set has no products with packed rows. Packed
/// F16 and BF16 weights are multiplied as 16-bit integers where that is faster (x86-64); with EMBER_PACK_NEVER
/// they are multiplied in 32-bit floating point.
/// - @param options the options to change; not NULL
/// - @param pack an ember_pack
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_pack(
    options: *mut ember_model_options,
    pack: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.pack = to_pack(pack)?;
        Ok(())
    })
}

/// Sets the token that may end a load early, with EMBER_E_CANCELLED.
/// - @param options the options to change; not NULL
/// - @param token the token; NULL, the default: none
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The options, and a load under way, keep what they need of `token`; the caller may free it.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_cancel_token(
    options: *mut ember_model_options,
    token: *const ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, token) = (handle!(options), token_or_none(token)?);
        options.lock("options")?.cancel = token;
        Ok(())
    })
}

/// Sets whether the weights stay in memory, whatever else the system is short of, as long as the model lives. Ember
/// then reads what lies in mapped files at once. Systems let a process lock little as a rule (`ulimit -l`); where
/// that is not enough, loading gives EMBER_E_NOMEM.
/// - @param options the options to change; not NULL
/// - @param lock true: they stay; false, the default: the system may drop them
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_lock(
    options: *mut ember_model_options,
    lock: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.lock = lock;
        Ok(())
    })
}

/// Sets whether loading looks at every number of every tensor. For one that is not finite it gives EMBER_E_FORMAT and
/// names tensor and element. Ember checks sizes, types and positions in any case.
/// - @param options the options to change; not NULL
/// - @param check_tensors true: it does, and reads the whole file; false, the default: it does not
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_check_tensors(
    options: *mut ember_model_options,
    check_tensors: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.check_tensors = check_tensors;
        Ok(())
    })
}

/// Sets a callback that hears how far a load is, every few milliseconds or megabytes.
/// - @param options the options to change; not NULL
/// - @param callback receives the progress; NULL, the default: none
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `callback` and `user_data` must stay valid as long as the options, and as long as a load with them.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_progress(
    options: *mut ember_model_options,
    callback: ember_progress_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.progress = to_progress(callback, user_data);
        Ok(())
    })
}

/// Limits the memory of a model and all its contexts: packed weights, files that are read or copied, KV caches,
/// activations, logits. What would go beyond it gives EMBER_E_NOMEM. Mapped files, tokenizer and metadata do not
/// count.
/// - @param options the options to change; not NULL
/// - @param bytes the most bytes of all large buffers together; 0, the default: no limit
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_memory_limit(
    options: *mut ember_model_options,
    bytes: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.memory.limit = to_limit(bytes);
        Ok(())
    })
}

/// Has the large buffers of a model and its contexts come from the host.
/// - @param options the options to change; not NULL
/// - @param allocate gives zeroed memory; may be NULL if `deallocate` is NULL: the system's, the default
/// - @param deallocate takes the memory back; may be NULL if `allocate` is NULL
/// - @param user_data handed to both callbacks as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The callbacks and `user_data` must stay valid until the model and all its contexts are gone. Any
///   thread calls them.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for one callback without the other; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_allocator(
    options: *mut ember_model_options,
    allocate: ember_allocate_callback,
    deallocate: ember_deallocate_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let options = handle!(options);
        options.lock("options")?.memory.allocator = to_allocator(allocate, deallocate, user_data)?;
        Ok(())
    })
}

/// Loads a model as if its file had this integer for a key, whether it has the key or not: to correct a wrong number.
/// Ember checks a key that it reads as it checks one of the file. A key that is set twice has the later value.
/// - @param options the options to change; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param value the integer
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `key`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_meta_i64(
    options: *mut ember_model_options,
    key: *const c_char,
    key_len: usize,
    value: i64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, key) = (handle!(options), text!(key, key_len));
        set_meta(&mut *options.lock("options")?, key, Value::I64(value))
    })
}

/// Loads a model as if its file had this floating-point number for a key; see ember_model_options_set_meta_i64.
/// - @param options the options to change; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param value the number
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `key`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_meta_f64(
    options: *mut ember_model_options,
    key: *const c_char,
    key_len: usize,
    value: f64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, key) = (handle!(options), text!(key, key_len));
        set_meta(&mut *options.lock("options")?, key, Value::F64(value))
    })
}

/// Loads a model as if its file had this boolean for a key; see ember_model_options_set_meta_i64.
/// - @param options the options to change; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param value the boolean
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `key`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_meta_bool(
    options: *mut ember_model_options,
    key: *const c_char,
    key_len: usize,
    value: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, key) = (handle!(options), text!(key, key_len));
        set_meta(&mut *options.lock("options")?, key, Value::Bool(value))
    })
}

/// Loads a model as if its file had this text for a key; see ember_model_options_set_meta_i64.
/// - @param options the options to change; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param value the text, UTF-8; may be NULL if `value_len` is 0
/// - @param value_len length of `value` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `key` and `value`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_meta_string(
    options: *mut ember_model_options,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, key, value) = (handle!(options), text!(key, key_len), text!(value, value_len));
        expect_memory(value.len().saturating_mul(4), "a text of this length")?;
        set_meta(&mut *options.lock("options")?, key, Value::String(GgufString::copy(value.as_bytes())))
    })
}
