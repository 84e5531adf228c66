//! Chat templates: from the messages of a conversation to the prompt format that a model was trained on.
//!
//! A template comes with the model and is written in the Jinja2 language. Its output is that of `apply_chat_template` of the
//! Python package `transformers` for the same template and messages. Templates are hostile input: the work, the memory and the
//! recursion of a rendering are bounded.
#![forbid(unsafe_code)]

mod clock;
mod guarded;
mod jinja;
mod json;
pub mod reply;

use crate::error::{Error, Result};
use clock::Clock;
pub use guarded::{Guard, Rendered};
use jinja::Template;
use jinja::fault::{Budget, Fault, Kind};
use jinja::value::{Dict, Value};

/// Bytes of memory that a rendering usually takes for JSON input, and that reading it takes at most. For each byte: its text
/// parsed, combined with others, copied by filters, and the result. And the fixed size of elements, entries, lists and objects,
/// counted by the characters that begin or separate them.
pub fn memory_needed(json: &str) -> usize {
    json.bytes().fold(json.len().saturating_mul(16), |sum, byte| {
        sum.saturating_add(match byte {
            b'[' | b'{' => 128,
            b',' => 96,
            b':' => 320,
            _ => 0,
        })
    })
}

/// Bytes of memory that compiling a template takes at most.
pub fn template_memory(source: &str) -> usize {
    source.len().min(jinja::MOST_BYTES) * 384
}

/// The inputs of a rendering, besides the messages.
#[derive(Debug, Clone, Default)]
pub struct ChatInput {
    /// Descriptions of the tools that the model may call: a JSON array, usually of objects with `type` and `function`.
    pub tools: Option<String>,
    /// More variables for the template: a JSON object, for example `{"enable_thinking": false}`.
    pub variables: Option<String>,
    /// Whether the text ends with the beginning of an answer of the assistant.
    pub add_generation_prompt: bool,
    /// The names and texts of special tokens that templates use: `bos_token`, `eos_token` and so on.
    pub special_tokens: Vec<(String, String)>,
    /// The time of `strftime_now`: seconds since the start of 1970 on the local clock. `None`: now, in universal time.
    pub now: Option<i64>,
}

/// A chat template, compiled. It does not change, and many threads may use it at the same time.
#[derive(Debug)]
pub struct ChatTemplate {
    template: Template,
}

impl ChatTemplate {
    /// Compiles the text of a template.
    ///
    /// # Errors
    /// `Format` when it is not a template, or uses a statement that chat templates do not have; the sentence names the line.
    pub fn parse(source: &str) -> Result<ChatTemplate> {
        let template = Template::compile(source).map_err(|fault| {
            Error::Format(format!("the chat template cannot be compiled: {}", describe(&fault)))
        })?;
        Ok(ChatTemplate { template })
    }

    /// The text of a conversation. `messages` is a JSON array of objects, each with a `role`, usually a `content`, and other
    /// members that the template reads. A model's thought may be given as `reasoning_content`, `thinking` or `reasoning`; the
    /// template finds it under the first two names.
    ///
    /// # Errors
    /// `InvalidArgument` when an argument is not the JSON that it must be, when the template refuses the messages, or when
    /// it fails on them; `Format` when it takes more work or memory than a template may.
    pub fn render(&self, messages: &str, input: &ChatInput) -> Result<String> {
        self.render_guarded(messages, input, None).map(|rendered| rendered.text)
    }

    /// As [`ChatTemplate::render`]; `guard` says which characters of messages and tools are distinguished from the template's. A
    /// template that searches messages for texts with such characters (`</think>`, say) does not find them there.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_guarded(
        &self,
        messages: &str,
        input: &ChatInput,
        guard: Option<&Guard>,
    ) -> Result<Rendered> {
        self.render_under(messages, input, guard, &|| Ok(()))
    }

    /// As [`ChatTemplate::render_guarded`]. `look` is called between the steps, each of which reads all messages, and its error
    /// ends the rendering.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and those of `look`.
    pub fn render_under(
        &self,
        messages: &str,
        input: &ChatInput,
        guard: Option<&Guard>,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<Rendered> {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let mut budget = Budget::for_input(messages.len() + length(&input.tools) + length(&input.variables));
        let messages = conversation(messages, &mut budget)?;
        let tools = match &input.tools {
            Some(tools) => match json::parse(tools, "tools", &mut budget)? {
                tools @ (Value::List(_) | Value::None) => tools,
                other => return Err(wrong("tools", "an array", &other)),
            },
            None => Value::None,
        };
        let (messages, tools, sign) = match guard {
            None => (messages, tools, None),
            Some(guard) => {
                look()?;
                let sign = Guard::sign(&[&messages, &tools])?;
                look()?;
                let mut put = |value| guard.put(value, sign, &mut budget).map_err(guarded::internal);
                (put(&messages)?, put(&tools)?, Some(sign))
            }
        };
        let mut variables = vec![
            ("messages".to_owned(), messages),
            ("tools".to_owned(), tools),
            ("documents".to_owned(), Value::None),
            ("add_generation_prompt".to_owned(), Value::Bool(input.add_generation_prompt)),
        ];
        let n_fixed = variables.len();
        let tokens = input.special_tokens.iter();
        variables.extend(tokens.map(|(name, text)| (name.clone(), Value::from(text.as_str()))));
        if let Some(more) = &input.variables {
            let Value::Dict(more) = json::parse(more, "variables", &mut budget)? else {
                return Err(Error::InvalidArgument("variables must be a JSON object".into()));
            };
            for (name, value) in more.entries() {
                let name = name.str().unwrap_or_default();
                if variables[..n_fixed].iter().any(|(n, _)| n == name && n != "documents") {
                    return Err(Error::InvalidArgument(format!(
                        "variables has \"{name}\", which is given by itself"
                    )));
                }
                variables.push((name.to_owned(), value.clone()));
            }
        }
        look()?;
        let clock = input.now.map_or_else(Clock::now, Clock::at);
        let text = self.template.render(&variables, &clock, budget).map_err(|fault| match fault.kind {
            Kind::Raised => {
                Error::InvalidArgument(format!("the chat template refuses the messages: {}", fault.message))
            }
            Kind::Limit => Error::Format(format!("the chat template was stopped: {}", describe(&fault))),
            Kind::Syntax | Kind::Failed => Error::InvalidArgument(format!(
                "the chat template fails on these messages: {}",
                describe(&fault)
            )),
        })?;
        look()?;
        Ok(match sign {
            None => Rendered { text, foreign: Vec::new() },
            Some(sign) => Guard::take(&text, sign),
        })
    }
}

fn describe(fault: &Fault) -> String {
    match fault.line {
        Some(line) => format!("line {line}: {}", fault.message),
        None => fault.message.clone(),
    }
}

fn wrong(what: &str, wanted: &str, got: &Value) -> Error {
    Error::InvalidArgument(format!("{what} must be {wanted} in JSON, not {}", got.type_name()))
}

/// The messages: a list of objects, with reasoning under the names that templates use.
fn conversation(messages: &str, budget: &mut Budget) -> Result<Value> {
    let Value::List(list) = json::parse(messages, "messages", budget)? else {
        return Err(Error::InvalidArgument("messages must be a JSON array".into()));
    };
    let mut out = Vec::with_capacity(list.items.len());
    for (i, message) in list.items.iter().enumerate() {
        let Value::Dict(dict) = message else {
            return Err(wrong(&format!("messages[{i}]"), "an object", message));
        };
        let names = ["reasoning_content", "thinking", "reasoning"];
        let mut reasoning = None;
        for name in names {
            let given = dict.get_str(name, budget).map_err(guarded::internal)?;
            reasoning = reasoning.or(given.filter(|v| !matches!(v, Value::None)));
        }
        out.push(match reasoning {
            None => message.clone(),
            Some(reasoning) => {
                let mut entries = vec![(Value::from("thinking"), reasoning.clone())];
                entries.extend(dict.entries().iter().cloned());
                entries.push((Value::from("reasoning_content"), reasoning.clone()));
                Value::Dict(Dict::new(entries, budget).map_err(guarded::internal)?)
            }
        });
    }
    jinja::value::List::new(out, budget).map(Value::List).map_err(guarded::internal)
}
