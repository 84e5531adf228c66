//! The messages of a conversation: JSON objects, as templates take them.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The host's text before all others.
    System,
    /// As system, in newer templates.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The whole object.
    pub json: String,
}

impl Message {
    /// Reads an object with a `role`. `InvalidArgument` for any other text.
    pub fn parse(json: &str) -> Result<Message> {
        #[derive(Deserialize)]
        struct Spoken {
            role: Role,
        }
        let spoken: Spoken = serde_json::from_str(json).map_err(|e| {
            Error::InvalidArgument(format!(
                "a message must be a JSON object whose role is system, developer, user, assistant or tool: {e}"
            ))
        })?;
        Ok(Message { role: spoken.role, json: json.trim().to_owned() })
    }

    /// A message of plain text.
    pub fn text(role: Role, content: &str) -> Result<Message> {
        #[derive(Serialize)]
        struct Plain<'a> {
            role: &'a str,
            content: &'a str,
        }
        let name = match role {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        Ok(Message { role, json: to_json(&Plain { role: name, content })? })
    }
}

/// A reply as it was parsed.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// The answer.
    pub content: String,
    /// The thought.
    pub thinking: String,
    /// The calls that are complete: id, name, and the arguments as a JSON object.
    pub calls: Vec<(String, String, String)>,
}

impl Reply {
    /// The reply as a message.
    pub fn message(&self) -> Result<Message> {
        #[derive(Serialize)]
        struct Said<'a> {
            role: &'a str,
            content: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reasoning_content: &'a str,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            tool_calls: Vec<Call<'a>>,
        }
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let internal = |e| Error::Internal(format!("the arguments of a call are no JSON: {e}"));
        let calls = self.calls.iter().map(|(id, name, arguments)| {
            let arguments = serde_json::from_str(arguments).map_err(internal)?;
            Ok(Call { id, r#type: "function", function: Function { name, arguments } })
        });
        let said = Said {
            role: "assistant",
            content: &self.content,
            reasoning_content: &self.thinking,
            tool_calls: calls.collect::<Result<_>>()?,
        };
        Ok(Message { role: Role::Assistant, json: to_json(&said)? })
    }
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Internal(format!("a message cannot be written: {e}")))
}

/// The JSON array of these messages.
pub fn array<'m>(messages: impl Iterator<Item = &'m Message>) -> String {
    let mut out = String::from("[");
    for message in messages {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&message.json);
    }
    out.push(']');
    out
}

/// The messages of a JSON array. `InvalidArgument` for any other text.
pub fn parse_array(json: &str) -> Result<Vec<Message>> {
    let list: Vec<&RawValue> = serde_json::from_str(json)
        .map_err(|e| Error::InvalidArgument(format!("messages cannot be read as a JSON array: {e}")))?;
    list.into_iter().map(|message| Message::parse(message.get())).collect()
}

/// The JSON object `variables` with one more member. `InvalidArgument` when it has that already.
pub fn with_variable(variables: Option<&str>, name: &str, value: &str) -> Result<String> {
    let rest = variables.unwrap_or("{}").trim();
    let known: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(rest)
        .map_err(|e| Error::InvalidArgument(format!("variables must be a JSON object: {e}")))?;
    if known.contains_key(name) {
        return Err(Error::InvalidArgument(format!(
            "variables has {name:?}, and thinking is set too: leave one out"
        )));
    }
    let comma = if known.is_empty() { "" } else { "," };
    let inner = rest.strip_prefix('{').unwrap_or(rest);
    Ok(format!("{{{}:{value}{comma}{inner}", to_json(&name)?))
}
