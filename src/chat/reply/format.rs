//! The format of the replies to a template's prompts.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::super::ChatTemplate;
use super::event::{End, Event};
use super::families::{ALL, Calls};
use super::parser::{ReplyOptions, ReplyParser};
use super::probe::{ARGUMENTS, NAME, Probe, common, split};
use super::thinking::{ThinkingMarks, ThinkingSwitch, marks};
use super::tools::Tools;
use crate::error::Result;

/// How a model writes its replies: the marks of its thoughts and the form of its calls. It is immutable and cheap to clone.
#[derive(Debug, Clone)]
pub struct ReplyFormat(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    calls: Option<&'static Calls>,
    thinking: Option<ThinkingMarks>,
    switch: Option<ThinkingSwitch>,
    /// What begins every reply in a prompt, and what usually follows it: an open thought, or an empty one.
    header: String,
    opened: String,
}

impl ReplyFormat {
    /// The format of a template: from its output for conversations with a call, and from the marks in its text. The name of a
    /// model does not matter.
    ///
    /// # Errors
    /// `Format` when the text is no template.
    pub fn of_template(source: &str) -> Result<ReplyFormat> {
        let template = ChatTemplate::parse(source)?;
        Ok(ReplyFormat::of_parsed(&template, source))
    }

    /// As [`ReplyFormat::of_template`], for a template that was compiled from `source`.
    pub fn of_parsed(template: &ChatTemplate, source: &str) -> ReplyFormat {
        let probe = Probe::new(template);
        let beginning = probe.beginning("").unwrap_or_default();
        let written: Vec<String> = probe.calls().collect();
        let format = |calls: Option<&'static Calls>| {
            let thinking = marks(source, calls.is_some_and(|calls| calls.has_channels));
            let (header, opened) = split(&beginning, thinking.as_ref());
            let (header, opened) = (header.to_owned(), opened.to_owned());
            ReplyFormat(Arc::new(Facts { calls, thinking, switch: probe.switch(source), header, opened }))
        };
        // Ember parses what the template writes for a call, so it chooses a format that can.
        let reads = |calls: &&'static Calls| {
            let signs = written.iter().filter(|text| (calls.signs)(text));
            let format = format(Some(*calls));
            signs.into_iter().any(|text| format.reads_back(text))
        };
        let calls = ALL.iter().copied().find(reads);
        // Templates that write no calls may still tell the model how to.
        let calls = calls.or_else(|| match written.is_empty() || !has_calls(&written) {
            true => ALL.iter().copied().find(|calls| (calls.signs)(source)),
            false => None,
        });
        format(calls)
    }

    /// A format without marks: replies are text.
    pub fn plain() -> ReplyFormat {
        let (header, opened) = (String::new(), String::new());
        ReplyFormat(Arc::new(Facts { calls: None, thinking: None, switch: None, header, opened }))
    }

    /// Whether parsing a text that the template wrote for the probe's call gives that call.
    fn reads_back(&self, text: &str) -> bool {
        let header = self.0.header.as_str();
        let n = match text.starts_with(header) {
            true => header.len(),
            false => text.find(header.trim()).map_or(common(text, header), |at| at + header.trim().len()),
        };
        // The prompt of this reply was written as a whole, with its thoughts.
        let prompt = Some(String::new());
        let mut parser =
            ReplyParser::new(self, ReplyOptions { parallel: true, prompt, ..ReplyOptions::default() });
        let mut events = parser.push(&text[n..]);
        events.extend(parser.finish(End::Stop));
        let is_same =
            |a: &str| a.split_whitespace().eq(ARGUMENTS.split_whitespace()) || a == "{\"city\":\"Paris\"}";
        events.iter().any(|event| match event {
            Event::CallDone { name, arguments, .. } => name == NAME && is_same(arguments),
            _ => false,
        })
    }

    pub(super) fn calls(&self) -> Option<&'static Calls> {
        self.0.calls
    }

    pub(super) fn has_channels(&self) -> bool {
        self.0.calls.is_some_and(|calls| calls.has_channels)
    }

    /// The name of the form of its calls: "hermes", "llama3" and so on. `None`: the form is unknown, and all is text.
    pub fn name(&self) -> Option<&'static str> {
        self.0.calls.map(|calls| calls.name)
    }

    /// The marks around thoughts.
    pub fn thinking(&self) -> Option<&ThinkingMarks> {
        self.0.thinking.as_ref()
    }

    /// The text that closes a thought which has become too long. `before_call`: a call follows.
    pub fn thought_end(&self, before_call: bool) -> Option<String> {
        let marks = self.thinking()?;
        Some(match marks.close.starts_with('<') {
            // The header of a call names its channel itself.
            true if self.has_channels() && before_call => "\n<|end|><|start|>assistant".to_owned(),
            true => format!("\n{}\n\n", marks.close),
            false => marks.close.clone(),
        })
    }

    /// The template's variable that switches thinking on and off.
    pub fn thinking_switch(&self) -> Option<&ThinkingSwitch> {
        self.0.switch.as_ref()
    }

    /// What a prompt already has of the reply: the mark of an open thought, or an empty thought. `None`: a prompt as the template
    /// writes it without variables.
    pub(super) fn opened<'p>(&'p self, prompt: Option<&'p str>) -> &'p str {
        let facts = &*self.0;
        let Some(prompt) = prompt else { return &facts.opened };
        let header = facts.header.trim_end();
        let tail = match header.is_empty() {
            true => None,
            false => prompt.rfind(header).map(|at| &prompt[at + header.len()..]),
        };
        if self.has_channels() {
            let is_open = |tail: &&str| tail.starts_with("<|channel|>") && !tail.contains("<|end|>");
            return tail.filter(is_open).unwrap_or_default();
        }
        let Some(marks) = &facts.thinking else { return "" };
        if let Some(tail) = tail {
            let begun = tail.trim_start();
            let inside = begun.strip_prefix(&*marks.open);
            let rest = inside.unwrap_or(begun).trim();
            let is_thought = inside.is_some() && !rest.contains(&*marks.close);
            let is_closed = rest.strip_prefix(&*marks.close).is_some_and(|rest| rest.trim().is_empty());
            if is_thought || is_closed {
                return begun;
            }
        }
        // Whatever comes before: a prompt that ends with the mark ends inside a thought.
        let end = prompt.trim_end();
        match end.ends_with(&*marks.open) {
            true => &prompt[end.len() - marks.open.len()..],
            false => "",
        }
    }

    /// Whether a prompt ends inside a thought.
    pub fn is_thinking_after(&self, prompt: &str) -> bool {
        let options = ReplyOptions {
            prompt: Some(prompt.to_owned()),
            tools: Tools::default(),
            ..ReplyOptions::default()
        };
        ReplyParser::new(self, options).is_thinking()
    }
}

/// Whether texts have a call of the probe's, and not only the description of the tool.
fn has_calls(written: &[String]) -> bool {
    written.iter().any(|text| text.contains("Paris"))
}
