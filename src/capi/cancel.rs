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

/// Writes a new token, not cancelled, to `out`; free it with ember_cancel_token_free. Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT when `out` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_new(
    out: *mut *mut ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(try_into_raw::<ember_cancel_token>(CancelToken::new())?))
}

/// Frees the token's handle. What it was given to keeps what it needs of it, and nobody can cancel that any more. A token that is cancelled
/// stays so there until another, or NULL, takes its place. Reset it first if that is not wanted.
/// This may come at any time, but nobody may use the handle meanwhile or afterwards. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_free(token: *mut ember_cancel_token) {
    guard_value((), || free_handle!(token))
}

/// Ends the calls under way that were given the token, and those to come, until ember_cancel_token_reset. Generation ends with
/// EMBER_FINISH_CANCELLED, all else with EMBER_E_CANCELLED. The calls return soon, since they look at the token often:
///  - a forward pass before each task of a thread, within a layer too;
///  - encoding a text every thousand steps;
///  - loading and ember_memory_estimate at each tensor, at each half megabyte that is read or packed, and every few thousand elements of
///    metadata and of the vocabulary.
///
/// No token ends what is bounded otherwise: rendering chat templates, compiling constraints, saving and loading states, and the functions
/// of tokenizers. This call does not wait for the others. Any thread, and a signal handler too: all it does is one store to memory. NULL, or
/// what is no token, is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_cancel(token: *const ember_cancel_token) {
    guard_value((), || {
        // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
        unsafe { peek(token) }.into_iter().for_each(|token| token.cancel());
        Ok(())
    })
}

/// Makes a token fit for new calls. NULL, or what is no token, is left alone. Any thread, and a signal handler too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_reset(token: *const ember_cancel_token) {
    guard_value((), || {
        // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
        unsafe { peek(token) }.into_iter().for_each(|token| token.reset());
        Ok(())
    })
}

/// Whether the token is cancelled; false for NULL and for what is no token. Any thread, and a signal handler too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_cancel_token_is_cancelled(token: *const ember_cancel_token) -> bool {
    // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
    guard_value(false, || Ok(unsafe { peek(token) }.is_some_and(|token| token.is_cancelled())))
}
