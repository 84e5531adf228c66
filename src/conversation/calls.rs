//! Calls of tools that always parse: what a model may write where it calls one.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ToolChoice;
use crate::chat::reply::{ReplyFormat, Tools};
use crate::constrain::{Constraint, ConstraintOptions, Grammar, Trigger};
use crate::error::{Error, Result};
use crate::model::LoadedModel;

/// The constraints of a conversation's replies.
#[derive(Clone, Default)]
pub struct CallConstraints {
    /// Of a reply that begins with the answer.
    answer: Option<Constraint>,
    /// Of one that begins inside a thought.
    thought: Option<Constraint>,
}

impl CallConstraints {
    /// Those for these tools. Where a call may be made, the constraint begins behind the mark of one; where it must be, with the answer.
    ///
    /// Errors: `Unsupported` where a call has to be made in a form whose grammar is not known, and for schemas that have what
    /// constraints have not, by name; `InvalidArgument` for a tool that does not exist and schemas that cannot be met.
    pub fn new(
        model: &Arc<LoadedModel>,
        format: &ReplyFormat,
        tools: &Tools,
        choice: &ToolChoice,
        parallel: bool,
    ) -> Result<CallConstraints> {
        let tokenizer = model.tokenizer()?;
        let control = |text: &str| {
            let ids = tokenizer.encode(text, false, true).ok()?;
            let [id] = ids[..] else { return None };
            tokenizer.is_control(id).then_some(id)
        };
        let is_free = matches!(choice, ToolChoice::Auto | ToolChoice::None);
        let grammar = match format.tool_grammar(tools, choice, parallel, &control) {
            Ok(Some(grammar)) => grammar,
            Ok(None) => return Ok(CallConstraints::default()),
            // Whether and how it calls is the model's business then.
            Err(Error::Unsupported(_)) if is_free => return Ok(CallConstraints::default()),
            Err(error) => return Err(error.within(model.name())),
        };
        if !cfg!(feature = "constraints") && is_free {
            return Ok(CallConstraints::default());
        }
        let compiled = |triggers: Vec<String>| {
            let options = ConstraintOptions {
                triggers: triggers.into_iter().map(Trigger::Text).collect(),
                // Behind a call that might have been left out comes text again.
                repeat: is_free,
                ..ConstraintOptions::default()
            };
            Constraint::new(model.vocabulary()?, Grammar::Lark(&grammar.lark), &options)
        };
        let answer = compiled(grammar.triggers.clone())?;
        let thought = match (is_free, format.thinking()) {
            (false, Some(marks)) => compiled(vec![marks.close.clone()])?,
            _ => answer.clone(),
        };
        Ok(CallConstraints { answer: Some(answer), thought: Some(thought) })
    }

    /// That of a reply which begins inside a thought or not.
    pub fn of(&self, is_thinking: bool) -> Option<&Constraint> {
        if is_thinking { self.thought.as_ref() } else { self.answer.as_ref() }
    }
}
