//! Chat templates: from the messages of a conversation to a prompt.

use std::ffi::c_char;

use super::args::{fill, free_handle, handle, output, text};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::error::{Error, Result, ember_status};
use crate::gguf::quoted;
use crate::memory::{copied_text, expect_room};
use crate::model::LoadedModel;
use crate::tokenizer::Tokenizer;

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

/// What stands behind an `ember_chat_options`.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    pub(super) tools: Option<String>,
    variables: Option<String>,
    pub(super) template: Option<String>,
    pub(super) template_name: Option<String>,
    pub(super) tool_choice: Option<String>,
    pub(super) parallel_calls: bool,
    add_generation_prompt: bool,
    now: Option<i64>,
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
            expect_room(texts.into_iter().flatten().map(String::len).sum(), "a copy of the options")?;
            Ok(options.clone())
        }
    }
}

/// The text, if there is any: an empty one takes a setting back.
fn given(text: &str, what: &str) -> Result<Option<String>> {
    (!text.is_empty()).then(|| copied_text(text, what)).transpose()
}

/// The model's template of the given name, or the one for the case.
pub(super) fn template_of<'m>(
    model: &'m LoadedModel,
    name: Option<&str>,
    has_tools: bool,
) -> Result<&'m str> {
    let tokenizer = model.tokenizer()?;
    let found = match name {
        Some(name) => tokenizer.named_chat_template(name),
        None => {
            let for_tools = tokenizer.named_chat_template("tool_use").filter(|_| has_tools);
            for_tools.or_else(|| tokenizer.chat_template())
        }
    };
    found.ok_or_else(|| missing(model.name(), tokenizer, name))
}

fn missing(model: &str, tokenizer: &Tokenizer, name: Option<&str>) -> Error {
    let names: Vec<&str> = tokenizer.chat_template_names().collect();
    match (name, names.is_empty()) {
        (_, true) => Error::Unsupported(format!(
            "{model}: the model has no chat template; if it was trained on conversations, give one with \
             ember_chat_options_set_template, else continue plain text"
        )),
        (name, false) => Error::NotFound(format!(
            "{model}: the model has no chat template {}; it has {}",
            quoted(name.unwrap_or("default").as_bytes()),
            names.join(", ")
        )),
    }
}

/// The token that has some role.
#[cfg(feature = "chat")]
type RoleOf = fn(&Tokenizer) -> Option<u32>;

#[cfg(feature = "chat")]
fn apply(model: &LoadedModel, messages: &str, options: ChatOptions) -> Result<String> {
    use crate::chat::{ChatInput, ChatTemplate, room, template_room};
    let compiled = |text: &str| {
        expect_room(template_room(text), "a chat template of this length")?;
        ChatTemplate::parse(text)
    };
    let template = match &options.template {
        Some(template) => compiled(template)?,
        None => {
            let text = template_of(model, options.template_name.as_deref(), options.tools.is_some())?;
            compiled(text).map_err(|e| e.within(model.name()))?
        }
    };
    let roles: [(&str, RoleOf); 4] = [
        ("bos_token", Tokenizer::bos),
        ("eos_token", Tokenizer::eos),
        ("pad_token", Tokenizer::pad),
        ("unk_token", Tokenizer::unk),
    ];
    let mut special_tokens = Vec::new();
    for (name, role) in roles {
        if let Ok(tokenizer) = model.tokenizer()
            && let Some(token) = role(tokenizer)
        {
            let text = String::from_utf8_lossy(tokenizer.token_bytes(token)?).into_owned();
            special_tokens.push((name.to_owned(), text));
        }
    }
    let ChatOptions { tools, variables, add_generation_prompt, now, .. } = options;
    let more = [&tools, &variables].into_iter().flatten();
    let n_bytes = more.fold(room(messages), |sum, json| sum.saturating_add(room(json)));
    expect_room(n_bytes, "a conversation of this length")?;
    template.render(messages, &ChatInput { tools, variables, add_generation_prompt, special_tokens, now })
}

#[cfg(not(feature = "chat"))]
fn apply(_: &LoadedModel, _: &str, _: ChatOptions) -> Result<String> {
    Err(Error::Unsupported(
        "this build of Ember was made without chat templates (the feature \"chat\")".into(),
    ))
}

/// Writes new options with their defaults to `out`; free them with ember_chat_options_free.
/// Errors: EMBER_E_INVALID_ARGUMENT when `out` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_new(
    out: *mut *mut ember_chat_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_chat_options>(Exclusive::new(ChatOptions::default()))?)
    })
}

/// Frees options. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_chat_options_free(options: *mut ember_chat_options) {
    guard_value((), || free_handle!(options))
}

/// The tools that the model may call: a JSON array, as a rule of objects with "type" and "function". An empty text, the
/// default, means none. It is read when a template is applied. Errors: EMBER_E_UTF8, EMBER_E_BUSY.
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

/// More variables for the template: a JSON object, for example `{"enable_thinking": false}`; which ones matter is the
/// template's to say. The names "messages", "tools" and "add_generation_prompt", which are given otherwise, are refused when a
/// template is applied. An empty text, the default, means none. Errors: EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// A template to use instead of the model's: its text, in the Jinja language. An empty text, the default, means the model's.
/// Errors: EMBER_E_UTF8, EMBER_E_BUSY.
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

/// Which of the model's templates to use, for models with several. By default it is "tool_use" when there are tools and
/// the model has one of that name, and else "default", which is also the name of a template without a name.
/// Errors: EMBER_E_UTF8, EMBER_E_BUSY.
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

/// Whether the text ends with what comes before an answer of the assistant. Default: true.
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

/// Whether the model calls tools, for ember_chat_parser_new: "auto" (the default, as is an empty text) that it may, "none" that
/// what looks like a call is text, "required" that it has to, and a tool's name, or OpenAI's object
/// `{"type": "function", "function": {"name": …}}`, that it has to call this one; a call of another is broken then.
/// Errors: EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Whether a reply may have several calls, for ember_chat_parser_new. Default: true. Else what comes behind the first is broken.
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

/// What time it is for templates that write the date: seconds since the start of 1970 as the local clock shows them
/// (universal time plus the zone's offset). By default it is the system's universal time.
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

/// Writes the text of a conversation, as `model` was trained on it, to `buffer` of `capacity` bytes, without NUL, and its
/// length to `n_needed`; a first call with capacity 0 asks for the length. `messages` is a JSON array of objects with
/// "role", "content" and what else the template looks at ("tool_calls", "name", "reasoning_content").
///
/// The text is what `apply_chat_template` of the Python package transformers gives. It spells control tokens, and BOS
/// where the template says so: tokenize it with parse_special true and add_special false. Texts of users that spell
/// control tokens become these tokens; a host that minds must look for them first.
///
/// `options` NULL: the defaults. Templates are bounded in work and memory, whatever a file holds. Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT for what is not the JSON it must be and for messages that the template refuses (the
/// sentence has the template's own words) or fails on; EMBER_E_UNSUPPORTED for a model without a template and a build
/// without the feature "chat"; EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a template that
/// is broken or takes too much; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
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

/// Writes the text of the model's chat template `name` ("default" if the name is empty) to `buffer` of `capacity` bytes,
/// without NUL, and its length to `n_needed`. Any thread. Errors: EMBER_E_UNSUPPORTED for a model without templates,
/// EMBER_E_NOT_FOUND for a name that it does not have, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL.
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
        let template = template_of(&model.model, Some(name).filter(|name| !name.is_empty()), false)?;
        fill!(template.as_bytes(), buffer, capacity, n_needed)
    })
}
