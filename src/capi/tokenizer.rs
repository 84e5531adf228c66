//! Tokenizers, with or without a model: loading, text to tokens and back, reference counting.

use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::args::{array, fill, fill_struct, free_handle, handle, output, text};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, try_into_raw};
use super::model::{ember_model, to_path_of};
use crate::error::{Result, ember_status};
use crate::memory::expect_memory;
use crate::model::{open_tokenizer, tokenizer_from_bytes};
use crate::tokenizer::Tokenizer;

/// A tokenizer: immutable, usable from any number of threads at the same time, reference-counted. It is a model's, or was loaded alone.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_tokenizer {
    _private: (),
}

/// The object that an `ember_tokenizer` handle points to.
pub struct TokenizerObject {
    pub(super) tokenizer: Arc<Tokenizer>,
    references: AtomicUsize,
}

impl TokenizerObject {
    /// The tokenizer, to encode a text of `n_bytes`. `NoMemory` when the system has too little for that.
    pub(super) fn for_text(&self, n_bytes: usize) -> Result<&Tokenizer> {
        let n_needed = n_bytes.saturating_mul(self.tokenizer.memory_per_byte());
        expect_memory(n_needed, "tokenizing a text of this length")?;
        Ok(&self.tokenizer)
    }
}

impl CType for ember_tokenizer {
    type Object = TokenizerObject;
    const TAG: u64 = u64::from_be_bytes(*b"emb:tokr");
    const NAME: &'static str = "ember_tokenizer";
}

fn new_tokenizer(tokenizer: Arc<Tokenizer>) -> Result<*mut ember_tokenizer> {
    try_into_raw::<ember_tokenizer>(TokenizerObject { tokenizer, references: AtomicUsize::new(1) })
}

/// What a tokenizer knows of its tokens; EMBER_TOKEN_NONE stands for a token that there is not. Set struct_size to
/// sizeof(ember_tokenizer_info) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_tokenizer_info {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Tokens; ids are below it. A model may have fewer embeddings, and more logits.
    pub n_vocab: u32,
    /// Beginning-of-sequence token.
    pub bos_token: u32,
    /// End-of-sequence token.
    pub eos_token: u32,
    /// End-of-turn token.
    pub eot_token: u32,
    /// The token for what no other stands for.
    pub unk_token: u32,
    /// Padding token.
    pub pad_token: u32,
    /// 1 when a text gets a token (BOS as a rule) put before it where that is asked for, else 0.
    pub add_bos: u32,
    /// 1 when a text gets a token (EOS as a rule) put after it where that is asked for, else 0.
    pub add_eos: u32,
    /// 1 when there is a chat template, else 0.
    pub has_chat_template: u32,
    /// Fill-in-the-middle: the token that precedes the text before a gap.
    pub fim_prefix_token: u32,
    /// The token that precedes the text after a gap.
    pub fim_suffix_token: u32,
    /// The token that precedes the text that fills a gap.
    pub fim_middle_token: u32,
    /// The token before the name of a repository.
    pub fim_repository_token: u32,
    /// The token before the name of a file.
    pub fim_file_token: u32,
}

fn tokenizer_info(t: &Tokenizer) -> ember_tokenizer_info {
    let token = |t: Option<u32>| t.unwrap_or(u32::MAX);
    let fill_in = t.fill_in();
    ember_tokenizer_info {
        struct_size: std::mem::size_of::<ember_tokenizer_info>(),
        n_vocab: t.n_vocab() as u32,
        bos_token: token(t.bos()),
        eos_token: token(t.eos()),
        eot_token: token(t.eot()),
        unk_token: token(t.unk()),
        pad_token: token(t.pad()),
        add_bos: u32::from(t.add_bos()),
        add_eos: u32::from(t.add_eos()),
        has_chat_template: u32::from(t.chat_template().is_some()),
        fim_prefix_token: token(fill_in.prefix),
        fim_suffix_token: token(fill_in.suffix),
        fim_middle_token: token(fill_in.middle),
        fim_repository_token: token(fill_in.repository),
        fim_file_token: token(fill_in.file),
    }
}

/// Loads a tokenizer without a model.
/// - @param path a GGUF file, whose tensors are not looked at, or a Hugging Face folder with a `tokenizer.json`,
///   which need not hold a model. Or a `tokenizer.json`, read with the files beside it; a JSON file of another name
///   is taken alone; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the tokenizer with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_tokenizer_release.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_IO (missing, unreadable); EMBER_E_FORMAT (malformed); EMBER_E_UNSUPPORTED (a kind of vocabulary
///   that this version does not know, or a file without one); EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
///   The error's sentence begins with the path.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_load(
    path: *const c_char,
    path_len: usize,
    out: *mut *mut ember_tokenizer,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (path, out) = (text!(path, path_len), output!(out));
        let path = to_path_of("a GGUF file, of a folder or of a tokenizer.json", path)?;
        out.set(new_tokenizer(Arc::new(open_tokenizer(path)?))?)
    })
}

/// Loads a tokenizer from bytes in memory, without a model.
/// - @param data a GGUF file, or a `tokenizer.json` alone; not NULL
/// - @param len number of bytes
/// - @param out receives the tokenizer with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_tokenizer_release. `data` may be freed after the call.
/// - Threads: Any thread, also several at the same time.
/// - Errors: as ember_tokenizer_load. The error's sentence begins with `<buffer>`.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_load_buffer(
    data: *const u8,
    len: usize,
    out: *mut *mut ember_tokenizer,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (data, out) = (array!(data, len), output!(out));
        out.set(new_tokenizer(Arc::new(tokenizer_from_bytes(data, "<buffer>")?))?)
    })
}

/// Gives the tokenizer of a model. It is the model's own, not a copy, and may outlive the model.
/// - @param model the model; not NULL
/// - @param out receives the tokenizer with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_tokenizer_release.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_tokenizer(
    model: *const ember_model,
    out: *mut *mut ember_tokenizer,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        out.set(new_tokenizer(Arc::clone(model.model.shared_tokenizer()?))?)
    })
}

/// Adds a reference to a tokenizer.
/// - @param tokenizer the tokenizer; may be NULL
/// - Ownership: The caller gives each reference back with ember_tokenizer_release.
/// - Threads: Any thread, also several at the same time.
/// - @return `tokenizer`, or NULL when it is not a tokenizer
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_retain(tokenizer: *mut ember_tokenizer) -> *mut ember_tokenizer {
    guard_value(std::ptr::null_mut(), || {
        handle!(tokenizer).references.fetch_add(1, SeqCst);
        Ok(tokenizer)
    })
}

/// Gives a reference to a tokenizer back. The last one frees the tokenizer, unless a model has it too.
/// - @param tokenizer the tokenizer; may be NULL
/// - Threads: Any thread, also several at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_release(tokenizer: *mut ember_tokenizer) {
    guard_value((), || free_handle!(tokenizer, |t| t.references.fetch_sub(1, SeqCst) == 1))
}

/// Writes what is known of a tokenizer's tokens.
/// - @param tokenizer the tokenizer; not NULL
/// - @param out receives the token ids and counts; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_info_get(
    tokenizer: *const ember_tokenizer,
    out: *mut ember_tokenizer_info,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, tokenizer_info(&handle!(tokenizer).tokenizer)))
}

/// Makes token ids of text.
/// - @param tokenizer the tokenizer; not NULL
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
/// - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails on; EMBER_E_INVALID_ARGUMENT,
///   EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_tokenize(
    tokenizer: *const ember_tokenizer,
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
        let (tokenizer, text) = (handle!(tokenizer), text!(text, text_len));
        let ids = tokenizer.for_text(text.len())?.encode(text, add_special, parse_special)?;
        fill!(ids, tokens, capacity, n_needed)
    })
}

/// Makes token ids of bytes that need not be UTF-8, as ember_model_tokenize_bytes does.
/// - @param tokenizer the tokenizer; not NULL
/// - @param bytes the bytes; may be NULL if `len` is 0
/// - @param len number of bytes
/// - @param add_special whether to add the BOS and EOS tokens that the file asks for
/// - @param parse_special whether the text of a control token stands for that token
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails on; EMBER_E_INVALID_ARGUMENT,
///   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_tokenize_bytes(
    tokenizer: *const ember_tokenizer,
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
        let (tokenizer, bytes) = (handle!(tokenizer), array!(bytes, len));
        let ids = tokenizer.for_text(bytes.len())?.encode_bytes(bytes, add_special, parse_special)?;
        fill!(ids, tokens, capacity, n_needed)
    })
}

/// Counts the tokens that ember_tokenizer_tokenize would give for a text.
/// - @param tokenizer the tokenizer; not NULL
/// - @param text the text, UTF-8; may be NULL if `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param add_special whether to count the BOS and EOS tokens that the file asks for
/// - @param parse_special whether the text of a control token stands for that token
/// - @param out receives the number of tokens; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails on; EMBER_E_INVALID_ARGUMENT,
///   EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_count(
    tokenizer: *const ember_tokenizer,
    text: *const c_char,
    text_len: usize,
    add_special: bool,
    parse_special: bool,
    out: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, text, out) = (handle!(tokenizer), text!(text, text_len), output!(out));
        out.set(tokenizer.for_text(text.len())?.encode(text, add_special, parse_special)?.len())
    })
}

/// Makes text of token ids. The tokens are taken for the beginning of a text: a space that tokenizing puts before one
/// goes again.
/// - @param tokenizer the tokenizer; not NULL
/// - @param tokens the token ids; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`
/// - @param render_special whether control tokens appear as their text; false: they are left out
/// - @param buffer receives the bytes, without NUL; no whole UTF-8 where the tokens begin or end inside a code point;
///   may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_detokenize(
    tokenizer: *const ember_tokenizer,
    tokens: *const u32,
    n_tokens: usize,
    render_special: bool,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, tokens) = (handle!(tokenizer), array!(tokens, n_tokens));
        fill!(tokenizer.tokenizer.decode(tokens, render_special)?, buffer, capacity, n_needed)
    })
}

/// Writes the exact bytes of a token: those it stands for, or the text of a control token.
/// - @param tokenizer the tokenizer; not NULL
/// - @param token the token id
/// - @param buffer receives the bytes, without NUL, perhaps a part of a code point; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_token_bytes(
    tokenizer: *const ember_tokenizer,
    token: u32,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let tokenizer = handle!(tokenizer);
        fill!(tokenizer.tokenizer.token_bytes(token)?, buffer, capacity, n_needed)
    })
}

/// Says whether a token is a control token, such as BOS or the marks of a chat's turns, which stands for no text.
/// - @param tokenizer the tokenizer; not NULL
/// - @param token the token id
/// - @param out receives the answer; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_token_is_control(
    tokenizer: *const ember_tokenizer,
    token: u32,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, out) = (&handle!(tokenizer).tokenizer, output!(out));
        tokenizer.token_bytes(token)?;
        out.set(tokenizer.is_control(token))
    })
}

/// Says whether a token ends a generation (end of sequence, of turn, of message).
/// - @param tokenizer the tokenizer; not NULL
/// - @param token the token id
/// - @param out receives the answer; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_token_is_eog(
    tokenizer: *const ember_tokenizer,
    token: u32,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (tokenizer, out) = (&handle!(tokenizer).tokenizer, output!(out));
        tokenizer.token_bytes(token)?;
        out.set(tokenizer.is_eog(token))
    })
}
