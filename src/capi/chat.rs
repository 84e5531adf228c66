//! Chat templates: from the messages of a conversation to a prompt.

use std::ffi::c_char;
use std::sync::Arc;

use super::args::{fill, handle, output, text};
use super::chat_options::{ChatOptions, ember_chat_options, options_or_default};
use super::constraint::ember_constraint;
use super::error::ember_error;
use super::guard::guard;
use super::handle::try_into_raw;
use super::model::ember_model;
#[cfg(feature = "chat")]
use crate::chat::{ChatInput, reply::ToolChoice};
use crate::constrain::Constraint;
#[cfg(feature = "chat")]
use crate::conversation::{Template, with_thinking};
#[cfg(not(feature = "chat"))]
use crate::error::Error;
use crate::error::{Result, ember_status};
use crate::model::LoadedModel;

#[cfg(feature = "chat")]
fn apply(model: &LoadedModel, messages: &str, options: ChatOptions) -> Result<String> {
    let (template, input) = template_and_input(model, options)?;
    Ok(template.render(messages, input, &|| Ok(()))?.text)
}

/// The template that the options name, and what it is rendered with.
#[cfg(feature = "chat")]
fn template_and_input(model: &LoadedModel, options: ChatOptions) -> Result<(Template, ChatInput)> {
    let ChatOptions { tools, template, template_name, add_generation_prompt, now, .. } = options;
    let template = Template::new(model, template.as_deref(), template_name.as_deref(), tools.is_some())?;
    let variables = match options.thinking {
        None => options.variables,
        thinking => {
            with_thinking(options.variables.as_deref(), thinking, &template.reply_format(), model.name())?
        }
    };
    Ok((template, ChatInput { tools, variables, add_generation_prompt, now, ..ChatInput::default() }))
}

/// The tokens of a conversation.
#[cfg(feature = "chat")]
fn tokenize(model: &LoadedModel, messages: &str, options: ChatOptions) -> Result<Vec<u32>> {
    let (template, input) = template_and_input(model, options)?;
    let rendered = template.guarded(model).render(messages, input, &|| Ok(()))?;
    let tokenizer = model.tokenizer_for(rendered.text.len())?;
    tokenizer.encode_rendered(&[], &rendered.text, &rendered.foreign)
}

/// The constraint of a reply to `prompt`.
#[cfg(feature = "chat")]
fn call_constraint(
    model: &Arc<LoadedModel>,
    options: ChatOptions,
    prompt: &str,
) -> Result<Option<Constraint>> {
    let choice = ToolChoice::parse(options.tool_choice.as_deref().unwrap_or_default())?;
    let (tools, parallel) = (options.tools.clone().unwrap_or_else(|| "[]".into()), options.parallel_calls);
    let (template, _) = template_and_input(model, options)?;
    let prompt = (!prompt.is_empty()).then(|| prompt.to_owned());
    template.call_constraint(model, &tools, &choice, parallel, prompt)
}

#[cfg(not(feature = "chat"))]
fn call_constraint(model: &Arc<LoadedModel>, options: ChatOptions, _: &str) -> Result<Option<Constraint>> {
    apply(model, "[]", options).map(|_| None)
}

#[cfg(not(feature = "chat"))]
fn tokenize(model: &LoadedModel, messages: &str, options: ChatOptions) -> Result<Vec<u32>> {
    apply(model, messages, options).map(|_| Vec::new())
}

#[cfg(not(feature = "chat"))]
fn apply(_: &LoadedModel, _: &str, _: ChatOptions) -> Result<String> {
    Err(Error::Unsupported(
        "this build of Ember was made without chat templates (the feature \"chat\")".into(),
    ))
}

/// Writes the text of a conversation as the model was trained on it. The text is what `apply_chat_template` of the
/// Python package transformers gives. Templates are bounded in work and memory, whatever a file holds.
///
/// **The text spells control tokens**, and BOS where the template says so. Generate from it with
/// ember_generate_options_set_parse_special, or tokenize it with parse_special true and add_special false. Texts of
/// users that spell control tokens then become these tokens. ember_chat_tokenize has neither trap.
/// - @param model the model; not NULL
/// - @param messages a JSON array of objects with "role", "content" and what else the template looks at
///   ("tool_calls", "name", "reasoning_content"); not NULL
/// - @param messages_len length of `messages` in bytes, or EMBER_NUL_TERMINATED
/// - @param options the template, tools and variables; NULL: the defaults
/// - @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for what is not the JSON it must be, and for messages that the template refuses
///   (the sentence has the template's own words) or fails on; EMBER_E_UNSUPPORTED for a model without a template, and
///   in a build without the feature "chat"; EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a
///   template that is broken or takes too much; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_apply_template(
    model: *const ember_model,
    messages: *const c_char,
    messages_len: usize,
    options: *const ember_chat_options,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, messages) = (handle!(model), text!(messages, messages_len));
        let text = apply(&model.model, messages, options_or_default(options)?)?;
        fill!(text.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Writes the tokens of a conversation as the model was trained on it. Generate from them with ember_generate_tokens.
/// **No text of a message or tool can spell a control token**: "<|im_end|>" in what a user typed is text. A template
/// that looks for such marks in messages ("</think>" in an answer) does not find them. BOS comes first where the file
/// asks for it, once.
/// - @param model the model; not NULL
/// - @param messages a JSON array of objects with "role", "content" and what else the template looks at
///   ("tool_calls", "name", "reasoning_content"); not NULL
/// - @param messages_len length of `messages` in bytes, or EMBER_NUL_TERMINATED
/// - @param options the template, tools and variables; NULL: the defaults
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: as ember_chat_apply_template; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_tokenize(
    model: *const ember_model,
    messages: *const c_char,
    messages_len: usize,
    options: *const ember_chat_options,
    tokens: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, messages) = (handle!(model), text!(messages, messages_len));
        let ids = tokenize(&model.model, messages, options_or_default(options)?)?;
        fill!(ids, tokens, capacity, n_needed)
    })
}

/// Makes the constraint of a reply that may call tools, for ember_generate_options_set_constraint. Every call follows
/// the schema of its tool. Where the options' tool choice asks for a call, the reply is one. A conversation
/// (ember_conversation_new) does this by itself. The reply's marks are often special tokens: see
/// ember_chat_parser_new.
/// - @param model the model; not NULL
/// - @param options tools and tool choice; NULL: the defaults, which have no tools
/// - @param prompt the text that ember_chat_apply_template gave with the same options, which may end inside a
///   thought: then the constraint begins after it, UTF-8; empty: as the template ends it when it has no variables;
///   may be NULL if `prompt_len` is 0
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the constraint, or a null pointer where there is nothing to constrain: without tools, with
///   the choice "none", and where no call has to be made in the form "llama3", which has no mark; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED, by name, for schemas that have what constraints or the form of calls have not;
///   EMBER_E_UNSUPPORTED where a call has to be made and Ember knows no form of the template, for a model without a
///   template, and in builds without the features "chat" and "constraints"; EMBER_E_INVALID_ARGUMENT for tools and
///   choices that are not what they must be; EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a
///   broken template; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_constraint(
    model: *const ember_model,
    options: *const ember_chat_options,
    prompt: *const c_char,
    prompt_len: usize,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, prompt, out) = (handle!(model), text!(prompt, prompt_len), output!(out));
        let constraint = call_constraint(&model.model, options_or_default(options)?, prompt)?;
        out.set(constraint.map_or(Ok(std::ptr::null_mut()), try_into_raw::<ember_constraint>)?)
    })
}

/// Writes the text of a model's chat template.
/// - @param model the model; not NULL
/// - @param name the template's name, UTF-8; empty: "default"; may be NULL if `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a model without templates; EMBER_E_NOT_FOUND for a name that it does not have;
///   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_chat_template(
    model: *const ember_model,
    name: *const c_char,
    name_len: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, name) = (handle!(model), text!(name, name_len));
        let template = model.model.chat_template(Some(name).filter(|name| !name.is_empty()), false)?;
        fill!(template.as_bytes(), buffer, capacity, n_needed)
    })
}
