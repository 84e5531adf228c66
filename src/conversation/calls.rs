//! Constraints for tool calls, so that they always parse.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ToolChoice;
use crate::chat::reply::{Control, GrammarParts, ReplyFormat, ToolUse, Tools};
use crate::constrain::{Constraint, ConstraintOptions, Grammar, Limits, Trigger, expression, read_schema};
use crate::error::Result;
use crate::model::LoadedModel;
use crate::tokenizer::Tokenizer;

/// Most characters of white space between two parts of arguments: a model could write it without end.
const WHITE_SPACE: usize = 8;
/// Most steps for a mask: texts with several bounds take more than others, the first time.
const MASK: u64 = 1_000_000;

/// The constraints of a conversation's replies.
#[derive(Clone, Default)]
pub struct CallConstraints {
    /// For a reply that begins with the answer.
    answer: Option<Constraint>,
    /// For a reply that begins inside a thought.
    thought: Option<Constraint>,
}

impl CallConstraints {
    /// The constraints for these tools. Where a call may be made, the constraint begins after the mark of one; where it must be,
    /// with the answer.
    ///
    /// Errors: `Unsupported` where a call has to be made in a form whose grammar is not known, and for schemas with keywords that
    /// constraints do not have, by name; `InvalidArgument` for a tool that does not exist and schemas that no value meets.
    pub fn new(
        model: &Arc<LoadedModel>,
        format: &ReplyFormat,
        tools: &Tools,
        choice: &ToolChoice,
        parallel: bool,
    ) -> Result<CallConstraints> {
        let tokenizer = model.tokenizer()?;
        let controls = |text: &str| controls(tokenizer, text);
        let options = ConstraintOptions { whitespace: WHITE_SPACE, ..ConstraintOptions::default() };
        let schema = |text: &str| read_schema(text, &options);
        let parts = GrammarParts { controls: &controls, schema: &schema, expression: &expression };
        let is_free = matches!(choice, ToolChoice::Auto | ToolChoice::None);
        if is_free && (!cfg!(feature = "constraints") || format.name().is_none()) {
            return Ok(CallConstraints::default());
        }
        let made = |in_thought: bool| {
            let asked = ToolUse { tools, choice, parallel, in_thought };
            let Some(grammar) = format.tool_grammar(asked, &parts).map_err(|e| e.within(model.name()))?
            else {
                return Ok(None);
            };
            let options = ConstraintOptions {
                // After an optional call, free text comes again.
                repeat: is_free && !grammar.triggers.is_empty(),
                triggers: grammar.triggers.into_iter().map(Trigger::Text).collect(),
                never: grammar.never,
                must_begin: !is_free,
                most_parts: grammar.most_parts,
                limits: Limits { mask: MASK, ..Limits::default() },
                ..ConstraintOptions::default()
            };
            Constraint::new(model.vocabulary()?, Grammar::Lark(&grammar.lark), &options).map(Some)
        };
        let answer = made(false)?;
        let thought = match format.thinking() {
            Some(_) => made(true)?,
            None => answer.clone(),
        };
        Ok(CallConstraints { answer, thought })
    }

    /// The constraint of a reply that begins inside a thought or not.
    pub fn of(&self, is_thinking: bool) -> Option<&Constraint> {
        if is_thinking { self.thought.as_ref() } else { self.answer.as_ref() }
    }
}

/// The control tokens in a text of a template.
pub fn controls(tokenizer: &Tokenizer, text: &str) -> Vec<Control> {
    let ids = tokenizer.encode(text, false, true).unwrap_or_default();
    let (mut found, mut from) = (Vec::new(), 0);
    for id in ids.into_iter().filter(|&id| tokenizer.is_control(id)) {
        let mark = tokenizer.token_bytes(id).ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let Some(mark) = mark.filter(|mark| !mark.is_empty()) else { continue };
        if let Some(at) = text[from..].find(mark).map(|at| from + at) {
            from = at + mark.len();
            found.push(Control { at: at..from, id, is_end: tokenizer.is_eog(id) });
        }
    }
    found
}
