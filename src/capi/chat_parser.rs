//! Replies read while they stream: the answer, thoughts, and calls of tools.

use std::ffi::c_char;

use super::args::{fill_struct, free_handle, handle, output, output_struct, text};
use super::chat_options::{ember_chat_options, options_or_default};
#[cfg(feature = "chat")]
use super::chat_reading::{Parts, Reading};
#[cfg(not(feature = "chat"))]
use super::chat_reading_off::{Parts, Reading};
use super::error::ember_error;
use super::generate::ember_finish_reason;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::error::{Error, Result, ember_status};

/// Reads one reply of a model. Made with ember_chat_parser_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_chat_parser {
    _private: (),
}

impl CType for ember_chat_parser {
    type Object = Exclusive<Reading>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:chpa");
    const NAME: &'static str = "ember_chat_parser";
}

/// What an ember_chat_event is.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_chat_event_kind {
    /// There is none: more text is needed, or the reply is over.
    EMBER_CHAT_EVENT_NONE = 0,
    /// More of the answer: text.
    EMBER_CHAT_EVENT_TEXT = 1,
    /// More of what the model thinks before it answers: text.
    EMBER_CHAT_EVENT_THINKING = 2,
    /// A call of a tool begins: index, id and name.
    EMBER_CHAT_EVENT_CALL_BEGIN = 3,
    /// More of the call's arguments: index, and JSON text.
    EMBER_CHAT_EVENT_CALL_ARGUMENTS = 4,
    /// The call is complete: index, id, name, and as text all of its arguments, a JSON object.
    EMBER_CHAT_EVENT_CALL_DONE = 5,
    /// What began as a call is none: index, name (if it came so far), reason, and the text as the model wrote it, which
    /// belongs to the answer at this place. What was said of a call of this index before is void.
    EMBER_CHAT_EVENT_CALL_BROKEN = 6,
    /// The reply is over, for finish_reason; only from conversations.
    EMBER_CHAT_EVENT_END = 7,
}

/// A part of a reply. What it points to is Ember's, UTF-8 and not NUL-terminated, never NULL, perhaps of length 0, and stays
/// until the next call with the parser. Set struct_size to sizeof(ember_chat_event) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_chat_event {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Text or JSON, as the kind says.
    pub text: *const c_char,
    /// Length of text.
    pub text_len: usize,
    /// The name of the tool that is called.
    pub name: *const c_char,
    /// Length of name.
    pub name_len: usize,
    /// The id of the call: the model's own where its format has ids, else nine letters and digits made from the prompt and
    /// the index, the same each time.
    pub id: *const c_char,
    /// Length of id.
    pub id_len: usize,
    /// Why a call is broken: a sentence.
    pub reason: *const c_char,
    /// Length of reason.
    pub reason_len: usize,
    /// The place of the call among those of the reply, from 0. A broken call has a place of its own too.
    pub index: u32,
    /// An ember_chat_event_kind.
    pub kind: i32,
    /// The ember_finish_reason of EMBER_CHAT_EVENT_END, else EMBER_FINISH_NONE.
    pub finish_reason: i32,
}

/// How replies to a template's prompts are written. What it points to is as in ember_chat_event, and stays as long as the
/// parser. Set struct_size to sizeof(ember_chat_format) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_chat_format {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// The form of calls: "hermes", "llama3", "mistral", "harmony" … Of length 0: none is known, calls come as text.
    pub name: *const c_char,
    /// Length of name.
    pub name_len: usize,
    /// The mark before a thought. Of length 0: the template knows no thoughts.
    pub thinking_open: *const c_char,
    /// Length of thinking_open.
    pub thinking_open_len: usize,
    /// The mark after a thought. A host that ends a thought itself appends this text, and the model goes on from there.
    pub thinking_close: *const c_char,
    /// Length of thinking_close.
    pub thinking_close_len: usize,
    /// The variable of the template (ember_chat_options_set_variables) that switches thinking, "enable_thinking" say. Of
    /// length 0: there is none.
    pub thinking_variable: *const c_char,
    /// Length of thinking_variable.
    pub thinking_variable_len: usize,
    /// The variable's value with which the model thinks, in JSON.
    pub thinking_on: *const c_char,
    /// Length of thinking_on.
    pub thinking_on_len: usize,
    /// The value with which it does not, in JSON. Of length 0: it cannot be switched off.
    pub thinking_off: *const c_char,
    /// Length of thinking_off.
    pub thinking_off_len: usize,
}

/// Where a text lies; for an empty one a NUL byte, since some languages do not bear the address of nothing.
fn address(text: &str) -> *const c_char {
    if text.is_empty() { c"".as_ptr() } else { text.as_ptr().cast::<c_char>() }
}

pub(super) fn to_event(parts: Parts<'_>) -> ember_chat_event {
    ember_chat_event {
        struct_size: std::mem::size_of::<ember_chat_event>(),
        text: address(parts.text),
        text_len: parts.text.len(),
        name: address(parts.name),
        name_len: parts.name.len(),
        id: address(parts.id),
        id_len: parts.id.len(),
        reason: address(parts.reason),
        reason_len: parts.reason.len(),
        index: parts.index as u32,
        kind: parts.kind,
        finish_reason: ember_finish_reason::EMBER_FINISH_NONE as i32,
    }
}

fn to_format(reading: &Reading) -> ember_chat_format {
    let known = reading.known();
    ember_chat_format {
        struct_size: std::mem::size_of::<ember_chat_format>(),
        name: address(known.name),
        name_len: known.name.len(),
        thinking_open: address(known.thinking_open),
        thinking_open_len: known.thinking_open.len(),
        thinking_close: address(known.thinking_close),
        thinking_close_len: known.thinking_close.len(),
        thinking_variable: address(known.thinking_variable),
        thinking_variable_len: known.thinking_variable.len(),
        thinking_on: address(known.thinking_on),
        thinking_on_len: known.thinking_on.len(),
        thinking_off: address(known.thinking_off),
        thinking_off_len: known.thinking_off.len(),
    }
}

/// Whether the model ended its reply, or something else did.
fn is_whole(finish_reason: i32) -> Result<bool> {
    use ember_finish_reason::*;
    let whole = [EMBER_FINISH_EOG as i32, EMBER_FINISH_STOP_STRING as i32];
    match finish_reason {
        reason if whole.contains(&reason) => Ok(true),
        reason if (EMBER_FINISH_MAX_TOKENS as i32..=EMBER_FINISH_FAILED as i32).contains(&reason) => {
            Ok(false)
        }
        reason => Err(Error::InvalidArgument(format!(
            "finish_reason is {reason}, which is not the ember_finish_reason of a reply that has ended"
        ))),
    }
}

/// Makes a parser for one reply of a model. It finds in the chat template what the reply looks like: the model's, or
/// that of `options`. Marks are often special tokens, whose text a generation leaves out by itself: have it write
/// them with ember_generate_options_set_render_special.
/// - @param model the model; not NULL
/// - @param options best those that the prompt was written with, so that the names of tools are known, and the types
///   of arguments where the format writes none down; NULL: the defaults
/// - @param prompt the text that ember_chat_apply_template gave, which may end inside a thought, UTF-8; empty: as the
///   template ends it when it has no variables; ids of calls are made from it too; may be NULL if `prompt_len` is 0
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the parser; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_chat_parser_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for tools or a tool choice that are not what they must be, and for the choice
///   of a tool that is none of the tools; EMBER_E_UNSUPPORTED for a model without a template, and in a build without
///   the feature "chat"; EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a broken template;
///   EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_new(
    model: *const ember_model,
    options: *const ember_chat_options,
    prompt: *const c_char,
    prompt_len: usize,
    out: *mut *mut ember_chat_parser,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, prompt, out) = (handle!(model), text!(prompt, prompt_len), output!(out));
        let reading = Reading::new(&model.model, options_or_default(options)?, prompt)?;
        out.set(try_into_raw::<ember_chat_parser>(Exclusive::new(reading))?)
    })
}

/// Frees a parser.
/// - @param parser the parser; may be NULL
/// - Threads: Any thread; no other call may use the parser.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_free(parser: *mut ember_chat_parser) {
    guard_value((), || free_handle!(parser))
}

/// Gives a parser more of the reply. Then take events with ember_chat_parser_next until there is none. Text after
/// ember_chat_parser_finish is ignored.
/// - @param parser the parser; not NULL
/// - @param text the text, UTF-8, of any length, which ends between two code points as that of an ember_event does;
///   may be NULL if `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `parser`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_push(
    parser: *mut ember_chat_parser,
    text: *const c_char,
    text_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(parser).lock("parser")?.push(text!(text, text_len)))
}

/// Tells a parser that the reply is over. Text that waited for more comes now, and a call that is not complete is
/// broken.
/// - @param parser the parser; not NULL
/// - @param finish_reason the ember_finish_reason of the reply
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `parser`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for EMBER_FINISH_NONE and what is no reason; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_finish(
    parser: *mut ember_chat_parser,
    finish_reason: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (parser, is_whole) = (handle!(parser), is_whole(finish_reason)?);
        parser.lock("parser")?.finish(is_whole);
        Ok(())
    })
}

/// Writes the next event of a reply.
/// - @param parser the parser; not NULL
/// - @param event receives the event, EMBER_CHAT_EVENT_NONE when there is none now; set its struct_size first; not
///   NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What the event points to stays until the next call with the parser.
/// - Threads: Any thread; one call at a time for `parser`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_next(
    parser: *mut ember_chat_parser,
    event: *mut ember_chat_event,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (parser, out) = (handle!(parser), output_struct!(event));
        out.set(&to_event(parser.lock("parser")?.next()))
    })
}

/// Says whether the reply is inside a thought now.
/// - @param parser the parser; not NULL
/// - @param out receives 1 or 0; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `parser`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_is_thinking(
    parser: *const ember_chat_parser,
    out: *mut u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(u32::from(handle!(parser).lock("parser")?.is_thinking())))
}

/// Says how the replies of a template are written: what form calls have, what is around thoughts, and which variable
/// switches them.
/// - @param parser the parser; not NULL
/// - @param out receives the description; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What `out` points to stays as long as the parser.
/// - Threads: Any thread; one call at a time for `parser`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_parser_format(
    parser: *const ember_chat_parser,
    out: *mut ember_chat_format,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_format(&*handle!(parser).lock("parser")?)))
}
