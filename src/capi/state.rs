//! Sequences that are copied, saved and restored.

use std::ffi::{c_char, c_void};

use super::args::{UserData, array, handle, needs_room, output, text};
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::guard::{guard, host};
use super::model::to_path_of;
use crate::context::Context;
use crate::error::{Error, Result, ember_status};

/// Takes `len` bytes of a state, the next after those of the call before. `user_data` is what was given with the callback.
/// Returning anything but 0 ends the saving with EMBER_E_CANCELLED.
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_write_callback =
    Option<unsafe extern "C" fn(data: *const u8, len: usize, user_data: *mut c_void) -> i32>;

/// Writes the next bytes of a state to `buffer`, `capacity` at most, and returns their number: 0 at the end, a negative
/// number to end the loading with EMBER_E_CANCELLED. `user_data` is what was given with the callback.
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
        // SAFETY: the caller's buffer has room for all of the state, whose length was asked for under the same lock.
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

/// Makes sequence `to` the first `n_tokens` tokens of sequence `from`; what `to` held is gone. The two share the memory of
/// the KV cache until they differ, so this costs next to nothing: for several answers to one prompt. Where the logits behind the
/// last of these tokens are there, they are `to`'s as well, so that an empty prompt goes on from there.
/// Errors: EMBER_E_INVALID_ARGUMENT when a sequence does not exist, `from` is shorter, both are the same, or `from` has given
/// back what the next token would see (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
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

/// Makes `sequence` as much of the beginning of the `n` tokens as the KV cache has, `most` tokens at most, and writes their number to
/// `n_reused`. That is what the sequence has of it already, or whole pages that were kept of other texts, if that is more
/// (ember_context_options_set_keep_prefixes). Decode the rest, then; leave one token at least, for its logits. Of what the sequence has, none is
/// reused where it has given back what its next token would see (ember_context_options_set_keep_all_positions).
/// Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist, EMBER_E_BUSY.
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

/// Forgets `n_drop` tokens of `sequence` behind its first `n_keep`, where a text has become too long. The tokens behind them move
/// forward to their places, and their keys in the KV cache are re-rotated to the new positions, which takes about as long as
/// reading them. What was computed from the forgotten tokens stays in what follows, so this is cheaper than running
/// the rest anew and not quite the same. Each time the moved keys are rounded once more. The logits behind the last token
/// stay, unless it is forgotten. Prefixes that are kept (ember_context_options_set_keep_prefixes) never have moved tokens.
/// Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is shorter, or of its first `n_keep` tokens would be
/// seen again what was given back (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a model with learned
/// positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5) and for an encoder; EMBER_E_CONTEXT_FULL when the KV cache has too few pages left to copy those
/// that other sequences have too; EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Empties all sequences but `sequence`. (ember_context_rewind to 0 empties one.)
/// Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_sequence_keep(
    context: *mut ember_context,
    sequence: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(context).lock("context")?.context.keep_sequence(sequence))
}

/// Writes the state of `sequence`, or of the whole context for EMBER_ALL_SEQUENCES, to `buffer` of `capacity` bytes and its
/// length to `n_needed`; a first call with capacity 0 asks for the length. A state holds tokens, KV cache and the logits of
/// the last token where they are there; loading it in another process with the same model goes on with the same bits. It holds
/// no sampler: what that has accepted, and its random state, is the host's to keep.
/// Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for an
/// encoder, EMBER_E_BUSY.
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
        let n_needed = needs_room!(len, buffer, capacity, n_needed);
        save(&state.context, which(sequence), buffer)?;
        n_needed.set(len)
    })
}

/// Makes `sequence` what a state of one sequence says; with EMBER_ALL_SEQUENCES the whole context what a state of a context
/// says, where sequences that the state does not have become empty. `len` bytes at `data`. The state is looked at whole
/// before anything changes: on an error all is as it was. Its checksum finds damage, not malice: load states of your own. With
/// ember_context_options_set_keep_prefixes no other sequence begins with pages that came with a state of one sequence; where the
/// cache has the same beginning already, its pages take the place of the state's. Ember distinguishes models by their dimensions,
/// keys and tensors' names, and by some bytes of each tensor, not by all.
/// Errors: EMBER_E_FORMAT for a damaged state; EMBER_E_INVALID_ARGUMENT for one of another model, another kind of KV cache,
/// more sequences or longer ones than the context has; EMBER_E_UNSUPPORTED for one of a later version, and for an encoder;
/// EMBER_E_CONTEXT_FULL when the KV cache has too few pages left; EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// As ember_context_state_save, to the file `path`. Whatever fails (a full disk, say), a file that was there before is as it
/// was: the state is written beside it and takes its place when it is whole and on disk. Its permissions stay, and so does a
/// symbolic link to it. A process that is killed meanwhile leaves the file beside it (`.ember-` and more, `.tmp`), which goes
/// when a state is saved to `path` again.
/// Errors: also EMBER_E_IO (a folder, pipe or device at `path` too), EMBER_E_UTF8.
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

/// As ember_context_state_load, from the file `path`. Errors: also EMBER_E_IO, EMBER_E_UTF8.
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

/// As ember_context_state_save, to a callback, which gets the state part by part; no copy of it is held.
/// Errors: also EMBER_E_CANCELLED by the callback.
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

/// As ember_context_state_load, from a callback, which is called until it gives no more. The state is held in memory until
/// it is found to be whole. Errors: also EMBER_E_CANCELLED by the callback, EMBER_E_INVALID_ARGUMENT when it returns more
/// bytes than it was asked for.
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
