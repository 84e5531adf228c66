//! Text to tokens and back.

use std::ffi::c_char;

use super::args::{array, fill, handle, output, text};
use super::error::ember_error;
use super::guard::guard;
use super::model::ember_model;
use crate::error::ember_status;

/// Makes token ids of text.
/// - @param model the model; not NULL
/// - @param text the text, UTF-8; may be NULL if `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param add_special whether to add the BOS and EOS tokens that the file asks for
/// - @param parse_special whether the text of a control token ("<|im_start|>") stands for that token; false: it is
///   plain text, as is right for what users type
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
///   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_tokenize(
    model: *const ember_model,
    text: *const c_char,
    text_len: usize,
    add_special: bool,
    parse_special: bool,
    tokens: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, text) = (handle!(model), text!(text, text_len));
        let ids = model.model.tokenizer_for(text.len())?.encode(text, add_special, parse_special)?;
        fill!(ids, tokens, capacity, n_needed)
    })
}

/// Makes token ids of bytes that need not be UTF-8. Valid stretches are taken as text. The bytes between them become
/// byte tokens, or the unknown token where the vocabulary has none. A vocabulary of bytes that lacks some, as
/// SmolLM2's lacks twenty, leaves these out, in valid text too, as the model's own tokenizer does.
/// - @param model the model; not NULL
/// - @param bytes the bytes; may be NULL if `len` is 0
/// - @param len number of bytes
/// - @param add_special whether to add the BOS and EOS tokens that the file asks for
/// - @param parse_special whether the text of a control token stands for that token
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL,
///   EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_tokenize_bytes(
    model: *const ember_model,
    bytes: *const u8,
    len: usize,
    add_special: bool,
    parse_special: bool,
    tokens: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, bytes) = (handle!(model), array!(bytes, len));
        let ids = model.model.tokenizer_for(bytes.len())?.encode_bytes(bytes, add_special, parse_special)?;
        fill!(ids, tokens, capacity, n_needed)
    })
}

/// Makes text of token ids. The tokens are taken for the beginning of a text: a space that tokenizing puts before one
/// goes again. ember_model_token_bytes, and the bytes of events, keep it.
/// - @param model the model; not NULL
/// - @param tokens the token ids; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`
/// - @param render_special whether control tokens appear as their text; false: they are left out
/// - @param buffer receives the bytes, without NUL; no whole UTF-8 where the tokens begin or end inside a code point;
///   may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_UNSUPPORTED for a model without a
///   tokenizer; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_detokenize(
    model: *const ember_model,
    tokens: *const u32,
    n_tokens: usize,
    render_special: bool,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, tokens) = (handle!(model), array!(tokens, n_tokens));
        let bytes = model.model.tokenizer()?.decode(tokens, render_special)?;
        fill!(bytes, buffer, capacity, n_needed)
    })
}

/// Writes the exact bytes that a token stands for.
/// - @param model the model; not NULL
/// - @param token the token id
/// - @param buffer receives the bytes, without NUL, perhaps a part of a code point; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_UNSUPPORTED for a model without a
///   tokenizer; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_token_bytes(
    model: *const ember_model,
    token: u32,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let model = handle!(model);
        fill!(model.model.tokenizer()?.token_bytes(token)?, buffer, capacity, n_needed)
    })
}

/// Says whether a token is a control token, such as BOS or the marks of a chat's turns, which stands for no text.
/// - @param model the model; not NULL
/// - @param token the token id
/// - @param out receives the answer; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_UNSUPPORTED for a model without a
///   tokenizer.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_token_is_control(
    model: *const ember_model,
    token: u32,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, out) = (handle!(model).model.tokenizer()?, output!(out));
        tokenizer.token_bytes(token)?;
        out.set(tokenizer.is_control(token))
    })
}

/// Says whether a token ends a generation (end of sequence, of turn, of message).
/// - @param model the model; not NULL
/// - @param token the token id
/// - @param out receives the answer; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_UNSUPPORTED for a model without a
///   tokenizer.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_token_is_eog(
    model: *const ember_model,
    token: u32,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, out) = (handle!(model).model.tokenizer()?, output!(out));
        tokenizer.token_bytes(token)?;
        out.set(tokenizer.is_eog(token))
    })
}
