//! The options of a conversation.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::messages::with_variable;
use super::{CallConstraints, ToolChoice};
use crate::chat::reply::{ReplyFormat, Tools};
use crate::error::{Error, Result};
use crate::generate::GenerateOptions;
use crate::model::LoadedModel;

/// What happens where a conversation would become longer than its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Whole turns are dropped, the oldest first. The system text and the first turn stay.
    #[default]
    DropOldest,
    /// As `DropOldest`, but the first turn may go too.
    DropOldestAndFirst,
    /// It is an error.
    Refuse,
}

/// The options of a conversation.
#[derive(Debug, Clone)]
pub struct ConversationOptions {
    /// The system text.
    pub system: Option<String>,
    /// Descriptions of the tools that the model may call, a JSON array.
    pub tools: Option<String>,
    /// Whether it has to call one.
    pub tool_choice: ToolChoice,
    /// Whether it may call several in one reply.
    pub parallel_calls: bool,
    /// Whether calls are constrained to the schemas of the tools, so that they always parse, where Ember knows the grammar of the
    /// template's calls. Where a call has to be made, Ember must know it.
    pub strict_tools: bool,
    /// Whether it thinks before it answers; `None`: as the template says.
    pub thinking: Option<bool>,
    /// Most tokens of a thought; then it is closed by the template's own mark.
    pub thinking_budget: Option<usize>,
    /// More variables for the template, a JSON object.
    pub variables: Option<String>,
    /// The text of a template in place of the model's.
    pub template: Option<String>,
    /// The name of one of the model's templates.
    pub template_name: Option<String>,
    /// What happens where the sequence would become too long.
    pub when_full: WhenFull,
    /// Tokens that must be free for a reply when it begins; `None`: as many as the reply may have, and a quarter of the sequence
    /// at most.
    pub reserve: Option<usize>,
    /// What `strftime_now` shows in a template: seconds since the start of 1970 on the local clock. `None`: the time when the
    /// conversation begins, in all of its turns.
    pub now: Option<i64>,
    /// Options of generation: `max_tokens` of each reply, the sequence, stop strings and so on.
    pub generate: GenerateOptions,
}

impl Default for ConversationOptions {
    fn default() -> ConversationOptions {
        ConversationOptions {
            system: None,
            tools: None,
            tool_choice: ToolChoice::Auto,
            parallel_calls: true,
            strict_tools: true,
            thinking: None,
            thinking_budget: None,
            variables: None,
            template: None,
            template_name: None,
            when_full: WhenFull::default(),
            reserve: None,
            now: None,
            generate: GenerateOptions { max_tokens: 1024, ..GenerateOptions::default() },
        }
    }
}

impl ConversationOptions {
    /// `InvalidArgument` for options that a conversation does not have.
    pub(super) fn check(&self) -> Result<()> {
        let o = &self.generate;
        let refused = [
            ("echo", o.echo),
            ("shift", o.shift.is_some()),
            ("logprobs", o.logprobs),
            ("n_top", o.n_top > 0),
            ("ignore_eog", o.ignore_eog),
        ];
        if let Some((name, _)) = refused.into_iter().find(|(_, is_set)| *is_set) {
            return Err(Error::InvalidArgument(format!(
                "a conversation takes no {name} among its options of generation"
            )));
        }
        match &self.tool_choice {
            ToolChoice::Auto | ToolChoice::None => Ok(()),
            _ if self.tools.is_none() => {
                Err(Error::InvalidArgument("tool_choice asks for a call, but there are no tools".into()))
            }
            _ => Ok(()),
        }
    }

    /// The constraints of replies that may call these tools. Errors: those of [`CallConstraints::new`], and `InvalidArgument` for
    /// another constraint beside them.
    pub(super) fn call_constraints(
        &self,
        model: &Arc<LoadedModel>,
        format: &ReplyFormat,
        tools: &Tools,
    ) -> Result<CallConstraints> {
        self.tool_choice.check_name(tools)?;
        if !self.strict_tools || tools.is_empty() {
            return Ok(CallConstraints::default());
        }
        let calls = CallConstraints::new(model, format, tools, &self.tool_choice, self.parallel_calls)?;
        if calls.of(false).is_some() && self.generate.constraint.is_some() {
            return Err(Error::InvalidArgument(
                "a constraint on replies does not go with tools whose calls are constrained (strict_tools)"
                    .into(),
            ));
        }
        Ok(calls)
    }

    /// The variables for a template of this format, with the variable that switches thinking. `Unsupported` where the template
    /// cannot switch it, or cannot have a budget.
    pub(super) fn variables_for(&self, format: &ReplyFormat, model: &str) -> Result<Option<String>> {
        if self.thinking_budget.is_some() && format.thinking().is_none() {
            return Err(Error::Unsupported(format!(
                "{model}: the chat template has no marks of thoughts, so thinking can have no budget"
            )));
        }
        with_thinking(self.variables.as_deref(), self.thinking, format, model)
    }
}

/// The JSON object `variables` with the variable of a template of this format that switches thinking on or off; `None` leaves it
/// as the template says. `Unsupported` where the template cannot switch it.
pub fn with_thinking(
    variables: Option<&str>,
    thinking: Option<bool>,
    format: &ReplyFormat,
    model: &str,
) -> Result<Option<String>> {
    let unsupported = |what: &str| Err(Error::Unsupported(format!("{model}: {what}")));
    let as_it_is = Ok(variables.map(str::to_owned));
    let Some(thinking) = thinking else { return as_it_is };
    match (format.thinking_switch(), thinking) {
        (Some(switch), true) => with_variable(variables, &switch.variable, &switch.on).map(Some),
        (Some(switch), false) => match &switch.off {
            Some(off) => with_variable(variables, &switch.variable, off).map(Some),
            None => unsupported("the chat template has no value that switches thinking off"),
        },
        // Nothing to switch: the model always thinks, or never.
        (None, true) if format.thinking().is_some() => as_it_is,
        (None, false) if format.thinking().is_none() => as_it_is,
        (None, _) => unsupported("the chat template has no variable that switches thinking"),
    }
}
