//! The texts of a model's chat templates.
#![forbid(unsafe_code)]

use super::LoadedModel;
use crate::error::{Error, Result, quoted};

impl LoadedModel {
    /// The text of the chat template of the given name, or of the one for the case: "tool_use" for conversations with tools, where
    /// there is one, else "default".
    ///
    /// Errors: `Unsupported` for a model without a tokenizer or without templates, `NotFound` for a name that no template has.
    pub fn chat_template(&self, name: Option<&str>, has_tools: bool) -> Result<&str> {
        let tokenizer = self.tokenizer()?;
        let found = match name {
            Some(name) => tokenizer.named_chat_template(name),
            None => {
                let for_tools = tokenizer.named_chat_template("tool_use").filter(|_| has_tools);
                for_tools.or_else(|| tokenizer.chat_template())
            }
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = tokenizer.chat_template_names().collect();
            match names.is_empty() {
                true => Error::Unsupported(format!(
                    "{}: the model has no chat template; if it was trained on conversations, give one with \
                     ember_chat_options_set_template, else continue plain text",
                    self.name()
                )),
                false => Error::NotFound(format!(
                    "{}: the model has no chat template {}; it has {}",
                    self.name(),
                    quoted(name.unwrap_or("default").as_bytes()),
                    names.join(", ")
                )),
            }
        })
    }
}
