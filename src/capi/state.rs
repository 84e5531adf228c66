//! Sequences that are copied, saved and restored.

use std::ffi::{c_char, c_void};

use super::args::{UserData, array, handle, needs_capacity, output, text};
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::guard::{guard, host};
use super::model::to_path_of;
use crate::context::Context;
use crate::error::{Error, Result, ember_status};

/// Takes the next bytes of a state, on the calling thread.
/// - @param data the bytes, valid until the callback returns
/// - @param len number of bytes
/// - @param user_data what was given with the callback
/// - @return 0 to go on; anything else ends the saving with EMBER_E_CANCELLED
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_write_callback =
    Option<unsafe extern "C" fn(data: *const u8, len: usize, user_data: *mut c_void) -> i32>;

/// Gives the next bytes of a state, on the calling thread.
/// - @param buffer where to write the bytes
/// - @param capacity the most bytes to write
/// - @param user_data what was given with the callback
/// - @return the number of bytes written; 0 at the end; a negative number ends the loading with EMBER_E_CANCELLED
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_read_callback =
    Option<unsafe extern "C" fn(buffer: *mut u8, capacity: usize, user_data: *mut c_void) -> i64>;

/// `EMBER_ALL_SEQUENCES`, which cbindgen.toml writes into the header.
const ALL: u32 = u32::MAX;

fn which(sequence: u32) -> Option<u32> {
    (sequence != ALL).then_some(sequence)
}

/// Writes the state to a place for `len` bytes.
fn save(context: &Context, sequence: Option<u32>, place: *mut u8) -> Result<()> {
    let mut at = place;
    context.save_state(sequence, &mut |bytes| {
        // SAFETY: the caller's buffer has space for all of the state, whose length was asked for under the same lock.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        at = at.wrapping_add(bytes.len());
        Ok(())
    })
}

fn ended() -> Error {
    Error::Cancelled("the callback ended the call".into())
}

fn write_to(
    context: &Context,
    sequence: Option<u32>,
    callback: ember_write_callback,
    user_data: UserData,
) -> Result<()> {
    let Some(callback) = callback else {
        return Err(Error::InvalidArgument("callback is NULL".into()));
    };
    context.save_state(sequence, &mut |bytes| {
        // SAFETY: the host's function with the host's pointer, as its documentation says.
        match host(|| unsafe { callback(bytes.as_ptr(), bytes.len(), user_data.0) }) {
            0 => Ok(()),
            _ => Err(ended()),
        }
    })
}

fn read_from(
    state: &mut ContextState,
    sequence: Option<u32>,
    callback: ember_read_callback,
    user_data: UserData,
) -> Result<()> {
    let Some(callback) = callback else {
        return Err(Error::InvalidArgument("callback is NULL".into()));
    };
    state.context.load_state_from(sequence, &mut |buffer| {
        // SAFETY: the host's function with the host's pointer, as its documentation says.
        let n = host(|| unsafe { callback(buffer.as_mut_ptr(), buffer.len(), user_data.0) });
        match usize::try_from(n) {
            Ok(n) if n <= buffer.len() => Ok(n),
            Ok(n) => Err(Error::InvalidArgument(format!(
                "the callback returned {n} bytes, but the buffer has {}",
                buffer.len()
            ))),
            Err(_) => Err(ended()),
        }
    })
}

/// Copies the beginning of a sequence into another, for several answers to one prompt. The two share the memory of
/// the KV cache until they differ, so this costs next to nothing. If the logits after the last of these tokens are
/// there, `to` has them too, and an empty prompt goes on from there.
/// - @param context the context; not NULL
/// - @param from number of the sequence to copy from
/// - @param to number of the sequence to copy into; what it held is gone
/// - @param n_tokens how many tokens to copy, from the first on
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when a sequence does not exist, `from` is shorter, both are the same, or `from`
///   has given back what the next token would see (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_sequence_copy(
    context: *mut ember_context,
    from: u32,
    to: u32,
    n_tokens: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(context).lock("context")?.context.copy_sequence(from, to, n_tokens as usize))
}

/// Makes a sequence as much of the beginning of a text as the KV cache has already. That is what the sequence itself
/// has of it, or whole pages that were kept of other texts, if that is more
/// (ember_context_options_set_keep_prefixes). Decode the rest then. A sequence that has given back what its next
/// token would see (ember_context_options_set_keep_all_positions) reuses nothing of its own.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, from 0
/// - @param tokens the token ids of the text; may be NULL if `n` is 0
/// - @param n number of `tokens`
/// - @param most the most tokens to reuse; leave one token at least to decode, for its logits
/// - @param n_reused receives how many tokens the sequence has now; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist; EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_sequence_reuse(
    context: *mut ember_context,
    sequence: u32,
    tokens: *const u32,
    n: usize,
    most: usize,
    n_reused: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, tokens, n_reused) = (handle!(context), array!(tokens, n), output!(n_reused));
        n_reused.set(context.lock("context")?.context.reuse_prefix(sequence, tokens, most)?)
    })
}

/// Forgets tokens within a sequence, where a text has become too long. The tokens after them move forward, and their
/// keys in the KV cache are re-rotated to the new positions, which takes about as long as reading them. What was
/// computed from the forgotten tokens stays in what follows: this is cheaper than running the rest anew, and not
/// quite the same. Each shift rounds the moved keys once more. The logits after the last token stay, unless it is
/// forgotten. Prefixes that are kept (ember_context_options_set_keep_prefixes) never have moved tokens.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, from 0
/// - @param n_keep how many tokens stay at the beginning
/// - @param n_drop how many tokens after these are forgotten
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is shorter, or the first `n_keep` tokens
///   would see again what was given back (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a
///   model with learned positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5) and for an encoder;
///   EMBER_E_CONTEXT_FULL when the KV cache has too few pages to copy those that other sequences have too;
///   EMBER_E_NOMEM; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_sequence_shift(
    context: *mut ember_context,
    sequence: u32,
    n_keep: u32,
    n_drop: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(context).lock("context")?.context.shift(sequence, n_keep as usize, n_drop as usize))
}

/// Empties all sequences but one. (ember_context_rewind to 0 empties one.)
/// - @param context the context; not NULL
/// - @param sequence number of the sequence that stays
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_sequence_keep(
    context: *mut ember_context,
    sequence: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(context).lock("context")?.context.keep_sequence(sequence))
}

/// Writes the state of a sequence, or of a whole context, as bytes. A state holds tokens, KV cache, and the logits of
/// the last token where they are there. Loaded in another process with the same model it goes on with the same bits.
/// It holds no sampler: the host keeps what that has accepted, and its random state.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole context
/// - @param buffer receives the state; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist; EMBER_E_UNSUPPORTED for an encoder;
///   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_save(
    context: *const ember_context,
    sequence: u32,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let state = handle!(context).lock("context")?;
        let len = state.context.state_len(which(sequence))? as usize;
        let n_needed = needs_capacity!(len, buffer, capacity, n_needed);
        save(&state.context, which(sequence), buffer)?;
        n_needed.set(len)
    })
}

/// Loads the state of a sequence, or of a whole context, from bytes. Ember looks at the whole state before anything
/// changes: on an error all is as it was. Its checksum finds damage, not malice: load only states of your own. Ember
/// distinguishes models by their dimensions, keys and tensors' names, and by some bytes of each tensor, not by all.
/// With ember_context_options_set_keep_prefixes no other sequence begins with pages that came with the state of one
/// sequence. Where the cache has the same beginning already, its pages take the place of the state's.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, for the state of one; or EMBER_ALL_SEQUENCES for the state of a context,
///   where sequences that the state does not have become empty
/// - @param data the state, as ember_context_state_save wrote it; not NULL
/// - @param len number of bytes
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_FORMAT for a damaged state; EMBER_E_INVALID_ARGUMENT for one of another model, of another kind
///   of KV cache, and for more or longer sequences than the context has; EMBER_E_UNSUPPORTED for one of a later
///   version, and for an encoder; EMBER_E_CONTEXT_FULL when the KV cache has too few pages left; EMBER_E_NOMEM,
///   EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_load(
    context: *mut ember_context,
    sequence: u32,
    data: *const u8,
    len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (mut state, data) = (handle!(context).lock("context")?, array!(data, len));
        state.context.load_state(which(sequence), data)
    })
}

/// Writes the state of a sequence, or of a whole context, to a file; see ember_context_state_save. Ember writes the
/// state beside the file and puts it in the file's place when it is whole and on disk. Whatever fails (a full disk,
/// say), a file that was there before is as it was. Its permissions stay, and so does a symbolic link to it. A
/// process that is killed meanwhile leaves the file beside it (`.ember-` and more, `.tmp`), which goes when a state
/// is saved to `path` again.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole context
/// - @param path the file, UTF-8; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_IO, for a folder, pipe or device at `path` too; EMBER_E_INVALID_ARGUMENT when the sequence does
///   not exist; EMBER_E_UNSUPPORTED for an encoder; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_save_file(
    context: *const ember_context,
    sequence: u32,
    path: *const c_char,
    path_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (state, path) =
            (handle!(context).lock("context")?, to_path_of("a state's file", text!(path, path_len))?);
        state.context.save_state_file(which(sequence), path)
    })
}

/// Loads the state of a sequence, or of a whole context, from a file; see ember_context_state_load.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the state of a whole context
/// - @param path the file, UTF-8; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_IO for a file that cannot be read; EMBER_E_UTF8; else as ember_context_state_load.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_load_file(
    context: *mut ember_context,
    sequence: u32,
    path: *const c_char,
    path_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (mut state, path) =
            (handle!(context).lock("context")?, to_path_of("a state's file", text!(path, path_len))?);
        state.context.load_state_file(which(sequence), path)
    })
}

/// Hands the state of a sequence, or of a whole context, to a callback, part by part; see ember_context_state_save.
/// Ember holds no copy of the state.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole context
/// - @param callback takes the parts, on the calling thread; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_CANCELLED by the callback; EMBER_E_INVALID_ARGUMENT when the sequence does not exist;
///   EMBER_E_UNSUPPORTED for an encoder; EMBER_E_NOMEM; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_write(
    context: *const ember_context,
    sequence: u32,
    callback: ember_write_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        write_to(&handle!(context).lock("context")?.context, which(sequence), callback, UserData(user_data))
    })
}

/// Loads the state of a sequence, or of a whole context, from a callback, which Ember calls until it gives no more;
/// see ember_context_state_load. Ember holds the state in memory until it is found to be whole.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the state of a whole context
/// - @param callback gives the parts, on the calling thread; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_CANCELLED by the callback; EMBER_E_INVALID_ARGUMENT when it returns more bytes than it was asked
///   for; else as ember_context_state_load.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_state_read(
    context: *mut ember_context,
    sequence: u32,
    callback: ember_read_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        read_from(&mut *handle!(context).lock("context")?, which(sequence), callback, UserData(user_data))
    })
}
