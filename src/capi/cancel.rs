//! Cancel tokens: made here, given to options and contexts, and cancelled from anywhere.

use super::args::{free_handle, handle, output};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, peek, try_into_raw};
use crate::cancel::CancelToken;
use crate::error::{Result, ember_status};

/// A switch that ends calls early: loading, decoding, embedding, generating, scoring. Give it to them through
/// ember_model_options_set_cancel_token, ember_context_set_cancel_token and ember_generate_options_set_cancel_token; one
/// token may serve any number of them. Any number of threads may use it at the same time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_cancel_token {
    _private: (),
}

impl CType for ember_cancel_token {
    type Object = CancelToken;
    const TAG: u64 = u64::from_be_bytes(*b"emb:cncl");
    const NAME: &'static str = "ember_cancel_token";
}

/// A token given to an object, which keeps what it needs of it; NULL takes the object's token away.
pub(super) fn token_or_none(token: *const ember_cancel_token) -> Result<Option<CancelToken>> {
    match token.is_null() {
        true => Ok(None),
        false => Ok(Some(CancelToken::clone(handle!(token)))),
    }
}

/// Makes a cancel token, which is not cancelled.
/// - @param out receives the token; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_cancel_token_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_new(
    out: *mut *mut ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(try_into_raw::<ember_cancel_token>(CancelToken::new())?))
}

/// Frees the handle of a cancel token. Nobody can then cancel what the token was given to. What was given a cancelled
/// token stays cancelled until another token, or NULL, takes its place; reset the token first if that is not wanted.
/// - @param token the token; may be NULL
/// - Ownership: What was given the token keeps what it needs of it, so freeing may come at any time.
/// - Threads: Any thread; no other call may use the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_free(token: *mut ember_cancel_token) {
    guard_value((), || free_handle!(token))
}

/// Ends the calls that were given the token: those under way, and those to come until ember_cancel_token_reset. A
/// generation ends with EMBER_FINISH_CANCELLED, all else with EMBER_E_CANCELLED. The calls look at the token often
/// and so return soon:
/// - a forward pass before each task of a thread, within a layer too;
/// - encoding a text every thousand steps;
/// - loading and ember_memory_estimate at each tensor, at each half megabyte that is read or packed, and every few
///   thousand elements of metadata and of the vocabulary.
///
/// Some calls are short by other bounds, and no token ends them: rendering chat templates, compiling constraints,
/// saving and loading states, and the functions of tokenizers. Cancelling does not wait for the other calls.
/// - @param token the token; NULL, or what is no token, is left alone
/// - Threads: Any thread, and a signal handler too: all it does is one store to memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_cancel(token: *const ember_cancel_token) {
    guard_value((), || {
        // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
        unsafe { peek(token) }.into_iter().for_each(|token| token.cancel());
        Ok(())
    })
}

/// Takes a cancellation back, so that new calls run.
/// - @param token the token; NULL, or what is no token, is left alone
/// - Threads: Any thread, and a signal handler too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_reset(token: *const ember_cancel_token) {
    guard_value((), || {
        // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
        unsafe { peek(token) }.into_iter().for_each(|token| token.reset());
        Ok(())
    })
}

/// Says whether a token is cancelled.
/// - @param token the token; may be NULL
/// - Threads: Any thread, and a signal handler too.
/// - @return true when it is cancelled; false also for NULL and for what is no token
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_is_cancelled(token: *const ember_cancel_token) -> bool {
    // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
    guard_value(false, || Ok(unsafe { peek(token) }.is_some_and(|token| token.is_cancelled())))
}
