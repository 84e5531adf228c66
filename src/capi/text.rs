//! Text to tokens and back.

use std::ffi::c_char;

use super::args::{array, fill, handle, output, text};
use super::error::ember_error;
use super::guard::guard;
use super::model::ember_model;
use crate::error::ember_status;

/// Writes the token ids of `text` to `tokens`, which holds `capacity` of them, and their number to `n_needed`; a first
/// call with capacity 0 asks for the number. `add_special` adds the BOS and EOS tokens that the file asks for;
/// `parse_special` takes the text of control tokens ("<|im_start|>") for these tokens instead of plain text. Any
/// thread. Errors: EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a model without a tokenizer.
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

/// As ember_model_tokenize for `len` bytes at `bytes` that need not be UTF-8. Valid stretches are taken as text; the bytes
/// between them become byte tokens, or the unknown token where the vocabulary has none. A vocabulary of bytes that lacks some, as
/// SmolLM2's lacks twenty, leaves these out, in valid text too, as the model's own tokenizer does. Any thread.
/// Errors: EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a model without a tokenizer.
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

/// Writes the bytes of `n_tokens` tokens, joined, to `buffer` of `capacity` bytes, and their number to `n_needed`. No
/// NUL is added. They are taken for the beginning of a text: where tokenizing puts a space before that, it goes again. Tokens that
/// continue a text keep it in ember_model_token_bytes and in the bytes of events. The bytes need not be UTF-8 when the tokens begin or end inside a code point. `render_special`
/// writes control tokens as their text instead of leaving them out. Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED.
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

/// Writes the exact bytes of one token to `buffer` of `capacity` bytes, and their number to `n_needed`. Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED.
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

/// Writes to `out` whether `token` is a control token, such as BOS or the marks of a chat's turns, which stands for no
/// text. Any thread. Errors: as ember_model_token_is_eog.
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

/// Writes to `out` whether `token` ends a generation (end of sequence, of turn, of message). Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist, EMBER_E_UNSUPPORTED for a model without a tokenizer.
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
