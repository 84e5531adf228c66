//! Prompts to fill a gap in a text.

use std::ffi::c_char;

use super::args::{fill, free_handle, handle, output, text};
use super::error::ember_error;
use super::guard::{check_memory, guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::tokenizer::ember_tokenizer;
use crate::error::{Error, Result, ember_status};
use crate::generate::{FimOptions, FimOrder, fim_prompt};
use crate::memory::{copied_text, expect_memory};

/// What a prompt to fill a gap has beside the text around it. Made with ember_fim_options_new, owned by the caller, used by one
/// thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_fim_options {
    _private: (),
}

impl CType for ember_fim_options {
    type Object = Exclusive<FimOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:fimo");
    const NAME: &'static str = "ember_fim_options";
}

/// In which order the parts of a prompt stand that is to fill a gap.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_fim_order {
    /// The model's: prefix, suffix, middle; suffix, prefix where it has no token for the middle, as Mistral's have. The default.
    EMBER_FIM_AUTO = 0,
    /// The text before the gap, the text after it, the middle; each after its token.
    EMBER_FIM_PSM = 1,
    /// The text after the gap, the text before it, the middle; each after its token.
    EMBER_FIM_SPM = 2,
    /// The tokens of prefix and suffix, the text after the gap, the token of the middle, the text before the gap: what CodeLlama
    /// and StarCoder were trained with beside EMBER_FIM_PSM.
    EMBER_FIM_SPM_JOINED = 3,
}

fn to_order(order: i32) -> Result<FimOrder> {
    match order {
        0 => Ok(FimOrder::Auto),
        1 => Ok(FimOrder::Psm),
        2 => Ok(FimOrder::Spm),
        3 => Ok(FimOrder::Spm2),
        _ => Err(Error::InvalidArgument(format!("order must be an ember_fim_order (0 to 3), got {order}"))),
    }
}

/// The most files.
const MOST_FILES: usize = 4096;

fn add_file(options: &mut FimOptions, name: &str, text: &str) -> Result<()> {
    if options.others.len() == MOST_FILES {
        return Err(Error::InvalidArgument(format!("there may be {MOST_FILES} files at most")));
    }
    let file = (copied_text(name, "the name of a file")?, copied_text(text, "the text of a file")?);
    let reserved = options.others.try_reserve(1);
    reserved.map_err(|_| Error::NoMemory("no memory for one more file".into()))?;
    check_memory()?;
    options.others.push(file);
    Ok(())
}

fn options_or_default(options: *const ember_fim_options) -> Result<FimOptions> {
    match options.is_null() {
        true => Ok(FimOptions::default()),
        false => {
            let options = handle!(options).lock("options")?;
            let n_bytes =
                options.others.iter().map(|(name, text)| name.len() + text.len() + 64).sum::<usize>();
            expect_memory(n_bytes + options.repository.len() + options.file.len(), "a copy of the options")?;
            Ok(options.clone())
        }
    }
}

/// Makes options for a prompt that asks to fill a gap, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_fim_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_new(
    out: *mut *mut ember_fim_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(try_into_raw::<ember_fim_options>(Exclusive::new(FimOptions::default()))?))
}

/// Frees options.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_free(options: *mut ember_fim_options) {
    guard_value((), || free_handle!(options))
}

/// Sets in which order the parts of the prompt stand.
/// - @param options the options to change; not NULL
/// - @param order an ember_fim_order; default: EMBER_FIM_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_set_order(
    options: *mut ember_fim_options,
    order: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.order = to_order(order)?;
        Ok(())
    })
}

/// Sets the name of the repository, which stands first in the prompt.
/// - @param options the options to change; not NULL
/// - @param name the name, UTF-8; empty, the default: none; may be NULL if `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `name`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_set_repository(
    options: *mut ember_fim_options,
    name: *const c_char,
    name_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, name) = (handle!(options), text!(name, name_len));
        options.lock("options")?.repository = copied_text(name, "the name of a repository")?;
        check_memory()
    })
}

/// Sets the name of the file that has the gap.
/// - @param options the options to change; not NULL
/// - @param name the name, UTF-8; empty, the default: none; may be NULL if `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `name`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_set_file(
    options: *mut ember_fim_options,
    name: *const c_char,
    name_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, name) = (handle!(options), text!(name, name_len));
        options.lock("options")?.file = copied_text(name, "the name of a file")?;
        check_memory()
    })
}

/// Adds another file, to stand before the one with the gap, in the order of the calls; 4096 at most.
/// - @param options the options to change; not NULL
/// - @param name the name of the file, UTF-8; may be NULL if `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param text its text, UTF-8; may be NULL if `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `name` and `text`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_fim_options_add_file(
    options: *mut ember_fim_options,
    name: *const c_char,
    name_len: usize,
    text: *const c_char,
    text_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, name, text) = (handle!(options), text!(name, name_len), text!(text, text_len));
        add_file(&mut *options.lock("options")?, name, text)
    })
}

/// Writes the tokens of a prompt that asks for what stands between two texts. Give the tokens to
/// ember_generator_new_tokens or ember_engine_submit_tokens; what is generated fills the gap. The control tokens are
/// the tokenizer's (ember_tokenizer_info); BOS comes first where it asks for that. Texts spell no control tokens.
/// - @param tokenizer the tokenizer; not NULL
/// - @param prefix the text in front of the gap, UTF-8; may be NULL if `prefix_len` is 0
/// - @param prefix_len length of `prefix` in bytes, or EMBER_NUL_TERMINATED
/// - @param suffix the text after the gap, UTF-8; may be NULL if `suffix_len` is 0
/// - @param suffix_len length of `suffix` in bytes, or EMBER_NUL_TERMINATED
/// - @param options file names and order; NULL: the defaults
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED names the token that a prompt of this kind needs and the tokenizer lacks;
///   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_tokenizer_fim_prompt(
    tokenizer: *const ember_tokenizer,
    prefix: *const c_char,
    prefix_len: usize,
    suffix: *const c_char,
    suffix_len: usize,
    options: *const ember_fim_options,
    tokens: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let tokenizer = handle!(tokenizer);
        let (prefix, suffix) = (text!(prefix, prefix_len), text!(suffix, suffix_len));
        let prompt = fim_prompt(&tokenizer.tokenizer, prefix, suffix, &options_or_default(options)?)?;
        fill!(prompt, tokens, capacity, n_needed)
    })
}
