//! Options of chat templates.

use std::ffi::c_char;

use super::args::{free_handle, handle, output, text};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::error::{Error, Result, ember_status};
use crate::memory::{copied_text, expect_memory};

/// How a conversation becomes text. Made with ember_chat_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_chat_options {
    _private: (),
}

impl CType for ember_chat_options {
    type Object = Exclusive<ChatOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:chat");
    const NAME: &'static str = "ember_chat_options";
}

/// The object that an `ember_chat_options` handle points to.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    pub(super) tools: Option<String>,
    pub(super) variables: Option<String>,
    pub(super) template: Option<String>,
    pub(super) template_name: Option<String>,
    pub(super) tool_choice: Option<String>,
    pub(super) parallel_calls: bool,
    #[cfg_attr(not(feature = "chat"), allow(dead_code, reason = "a conversation reads it"))]
    pub(super) strict_tools: bool,
    pub(super) thinking: Option<bool>,
    pub(super) add_generation_prompt: bool,
    pub(super) now: Option<i64>,
}

impl Default for ChatOptions {
    fn default() -> ChatOptions {
        ChatOptions {
            tools: None,
            variables: None,
            template: None,
            template_name: None,
            tool_choice: None,
            parallel_calls: true,
            strict_tools: true,
            thinking: None,
            add_generation_prompt: true,
            now: None,
        }
    }
}

pub(super) fn options_or_default(options: *const ember_chat_options) -> Result<ChatOptions> {
    match options.is_null() {
        true => Ok(ChatOptions::default()),
        false => {
            let options = handle!(options).lock("options")?;
            let ChatOptions { tools, variables, template, template_name, tool_choice, .. } = &*options;
            let texts = [tools, variables, template, template_name, tool_choice];
            expect_memory(texts.into_iter().flatten().map(String::len).sum(), "a copy of the options")?;
            Ok(options.clone())
        }
    }
}

/// The text, if there is any: an empty one takes a setting back.
fn given(text: &str, what: &str) -> Result<Option<String>> {
    (!text.is_empty()).then(|| copied_text(text, what)).transpose()
}

/// Whether a model thinks before it answers.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_thinking {
    /// As the template has it.
    EMBER_THINKING_DEFAULT = 0,
    /// It does.
    EMBER_THINKING_ON = 1,
    /// It does not.
    EMBER_THINKING_OFF = 2,
}

fn to_thinking(mode: i32) -> Result<Option<bool>> {
    use ember_thinking::*;
    match mode {
        m if m == EMBER_THINKING_DEFAULT as i32 => Ok(None),
        m if m == EMBER_THINKING_ON as i32 => Ok(Some(true)),
        m if m == EMBER_THINKING_OFF as i32 => Ok(Some(false)),
        other => Err(Error::InvalidArgument(format!("thinking is {other}, which is no ember_thinking"))),
    }
}

/// Makes options for a chat template, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_chat_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_new(
    out: *mut *mut ember_chat_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_chat_options>(Exclusive::new(ChatOptions::default()))?)
    })
}

/// Frees options. What was made with them stays as it is.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_free(options: *mut ember_chat_options) {
    guard_value((), || free_handle!(options))
}

/// Sets the tools that the model may call. They are read when a template is applied.
/// - @param options the options to change; not NULL
/// - @param tools a JSON array, as a rule of objects with "type" and "function"; empty, the default: none; may be
///   NULL if `tools_len` is 0
/// - @param tools_len length of `tools` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tools`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_tools(
    options: *mut ember_chat_options,
    tools: *const c_char,
    tools_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.tools = given(text!(tools, tools_len), "tools")?;
        Ok(())
    })
}

/// Sets more variables for the template; which ones matter is the template's to say. They are read when a template is
/// applied. The names "messages", "tools" and "add_generation_prompt", which are given otherwise, are then refused.
/// - @param options the options to change; not NULL
/// - @param variables a JSON object, for example `{"enable_thinking": false}`; empty, the default: none; may be NULL
///   if `variables_len` is 0
/// - @param variables_len length of `variables` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `variables`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_variables(
    options: *mut ember_chat_options,
    variables: *const c_char,
    variables_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.variables = given(text!(variables, variables_len), "variables")?;
        Ok(())
    })
}

/// Sets a template to use instead of the model's.
/// - @param options the options to change; not NULL
/// - @param template_text the template in the Jinja language; empty, the default: the model's; may be NULL if
///   `template_len` is 0
/// - @param template_len length of `template_text` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `template_text`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_template(
    options: *mut ember_chat_options,
    template_text: *const c_char,
    template_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.template = given(text!(template_text, template_len), "a template")?;
        Ok(())
    })
}

/// Sets which of the model's templates to use, for models with several.
/// - @param options the options to change; not NULL
/// - @param name the template's name, UTF-8; "default" is also the name of a template without a name. Empty, the
///   default: "tool_use" when there are tools and the model has one of that name, and else "default"; may be NULL if
///   `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `name`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_template_name(
    options: *mut ember_chat_options,
    name: *const c_char,
    name_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.template_name = given(text!(name, name_len), "a name")?;
        Ok(())
    })
}

/// Sets whether the text ends with what comes before an answer of the assistant.
/// - @param options the options to change; not NULL
/// - @param add_generation_prompt true, the default: it does; false: it ends with the last message
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_add_generation_prompt(
    options: *mut ember_chat_options,
    add_generation_prompt: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.add_generation_prompt = add_generation_prompt;
        Ok(())
    })
}

/// Sets whether the model calls tools, for ember_chat_parser_new, ember_chat_constraint and conversations.
/// - @param options the options to change; not NULL
/// - @param tool_choice "auto", the default, as is an empty text: it may. "none": what looks like a call is text.
///   "required": it has to. A tool's name, or OpenAI's JSON object `{"type": "function", "function": {"name": …}}`:
///   it has to call this tool, and a call of another is broken; may be NULL if `tool_choice_len` is 0
/// - @param tool_choice_len length of `tool_choice` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tool_choice`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_tool_choice(
    options: *mut ember_chat_options,
    tool_choice: *const c_char,
    tool_choice_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let choice = given(text!(tool_choice, tool_choice_len), "a choice of tools")?;
        handle!(options).lock("options")?.tool_choice = choice;
        Ok(())
    })
}

/// Sets whether a reply may have several calls. Where calls are held to the schemas of the tools
/// (ember_chat_options_set_strict_tools), a reply has 32 calls at most.
/// - @param options the options to change; not NULL
/// - @param parallel_calls true, the default: it may; false: what comes after the first call is broken
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_parallel_calls(
    options: *mut ember_chat_options,
    parallel_calls: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.parallel_calls = parallel_calls;
        Ok(())
    })
}

/// Sets what time it is for templates that write the date.
/// - @param options the options to change; not NULL
/// - @param seconds seconds since the start of 1970 as the local clock shows them (universal time plus the zone's
///   offset); by default the system's universal time
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_now(
    options: *mut ember_chat_options,
    seconds: i64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.now = Some(seconds);
        Ok(())
    })
}

/// Sets whether a conversation (ember_conversation_new) constrains calls to the schemas of the tools, so that every
/// call parses. The constraint holds from the mark of a call on, or from the beginning of the answer where a call has
/// to be made. Calls of the form "llama3", which has no mark, are free as long as none has to be made. Ember refuses
/// by name a schema that has what constraints have not, or what the form of calls cannot be held to.
/// - @param options the options to change; not NULL
/// - @param strict_tools true, the default: it does; false: the calls are left to the model
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_strict_tools(
    options: *mut ember_chat_options,
    strict_tools: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.strict_tools = strict_tools;
        Ok(())
    })
}

/// Sets whether the model thinks before it answers. It sets the variable of the template that switches thinking,
/// which is found in the template itself. Where the template has none, or no value for off, using the options is
/// EMBER_E_UNSUPPORTED.
/// - @param options the options to change; not NULL
/// - @param thinking an ember_thinking
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_set_thinking(
    options: *mut ember_chat_options,
    thinking: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.thinking = to_thinking(thinking)?;
        Ok(())
    })
}
