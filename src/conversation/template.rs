//! The chat template of a model, with its inputs.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::CallConstraints;
use crate::chat::reply::{ReplyFormat, ReplyOptions, ReplyParser, ToolChoice, Tools};
use crate::chat::{ChatInput, ChatTemplate, Guard, Rendered, memory_needed, template_memory};
use crate::constrain::Constraint;
use crate::error::Result;
use crate::memory::expect_memory;
use crate::model::LoadedModel;
use crate::tokenizer::Tokenizer;

/// A compiled template, the names of special tokens, and the guard against their texts.
#[derive(Debug)]
pub struct Template {
    compiled: ChatTemplate,
    source: String,
    special_tokens: Vec<(String, String)>,
    guard: Option<Guard>,
}

/// The token of a role.
type RoleOf = fn(&Tokenizer) -> Option<u32>;

impl Template {
    /// The template with the text `source`, or else the model's of the given name, or else the one for the case.
    ///
    /// Errors: `Unsupported` for a model without a template, `NotFound` for a name that no template has, `Format`.
    pub fn new(
        model: &LoadedModel,
        source: Option<&str>,
        name: Option<&str>,
        has_tools: bool,
    ) -> Result<Template> {
        let (text, is_own) = match source {
            Some(text) => (text, true),
            None => (model.chat_template(name, has_tools)?, false),
        };
        expect_memory(template_memory(text), "a chat template of this length")?;
        let compiled = ChatTemplate::parse(text);
        let compiled = if is_own { compiled? } else { compiled.map_err(|e| e.within(model.name()))? };
        let roles: [(&str, RoleOf); 4] = [
            ("bos_token", Tokenizer::bos),
            ("eos_token", Tokenizer::eos),
            ("pad_token", Tokenizer::pad),
            ("unk_token", Tokenizer::unk),
        ];
        let mut special_tokens = Vec::new();
        if let Ok(tokenizer) = model.tokenizer() {
            for (name, role) in roles {
                if let Some(token) = role(tokenizer) {
                    let text = String::from_utf8_lossy(tokenizer.token_bytes(token)?).into_owned();
                    special_tokens.push((name.to_owned(), text));
                }
            }
        }
        Ok(Template { compiled, source: text.to_owned(), special_tokens, guard: None })
    }

    /// The same, with a guard against texts that spell the model's control tokens.
    pub fn guarded(mut self, model: &LoadedModel) -> Template {
        if let Ok(tokenizer) = model.tokenizer() {
            let controls = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id));
            let texts = controls.filter_map(|id| std::str::from_utf8(tokenizer.token_bytes(id).ok()?).ok());
            self.guard = Some(Guard::new(texts));
        }
        self
    }

    /// The format of replies to its prompts.
    pub fn reply_format(&self) -> ReplyFormat {
        ReplyFormat::of_parsed(&self.compiled, &self.source)
    }

    /// The constraint of a reply to `prompt` that may call tools: that its calls follow the tools' schemas, or that there is one.
    /// `None` where nothing is constrained. Errors: those of [`CallConstraints::new`], and `InvalidArgument` for tools that are
    /// no tools.
    pub fn call_constraint(
        &self,
        model: &Arc<LoadedModel>,
        tools: &str,
        choice: &ToolChoice,
        parallel: bool,
        prompt: Option<String>,
    ) -> Result<Option<Constraint>> {
        let (format, tools) = (self.reply_format(), Tools::parse(tools)?);
        let constraints = CallConstraints::new(model, &format, &tools, choice, parallel)?;
        let options = ReplyOptions { prompt, tools, ..ReplyOptions::default() };
        let is_thinking = ReplyParser::new(&format, options).is_thinking();
        Ok(constraints.of(is_thinking).cloned())
    }

    /// The prompt for these messages. Without a guard, texts of messages that spell control tokens count as the template's own.
    /// Errors: those of [`ChatTemplate::render`], `NoMemory`.
    pub fn render(
        &self,
        messages: &str,
        input: ChatInput,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<Rendered> {
        let more = [&input.tools, &input.variables].into_iter().flatten();
        let n_bytes = more.fold(memory_needed(messages), |sum, json| sum.saturating_add(memory_needed(json)));
        // With a guard there are two copies of all texts.
        let n_copies = if self.guard.is_some() { 2 } else { 1 };
        expect_memory(n_bytes.saturating_mul(n_copies), "a conversation of this length")?;
        let input = ChatInput { special_tokens: self.special_tokens.clone(), ..input };
        self.compiled.render_under(messages, &input, self.guard.as_ref(), look)
    }
}
