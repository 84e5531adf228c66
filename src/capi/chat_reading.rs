//! A reply that is being read, for the functions of `chat_parser`.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::chat_options::ChatOptions;
use crate::chat::reply::{End, Event, ReplyFormat, ReplyOptions, ReplyParser, ToolChoice, Tools};
use crate::chat::{memory_needed, template_memory};
use crate::error::Result;
use crate::memory::expect_memory;
use crate::model::LoadedModel;

/// The object that an `ember_chat_parser` handle points to.
pub struct Reading {
    format: ReplyFormat,
    parser: ReplyParser,
    events: VecDeque<Event>,
    current: Option<Event>,
    n_bytes: usize,
}

/// What an event has, whatever it is; what it has not is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'e> {
    pub kind: i32,
    pub index: usize,
    pub text: &'e str,
    pub name: &'e str,
    pub id: &'e str,
    pub reason: &'e str,
}

/// What is known of a format; what is not there is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'f> {
    pub name: &'f str,
    pub thinking_open: &'f str,
    pub thinking_close: &'f str,
    pub thinking_variable: &'f str,
    pub thinking_on: &'f str,
    pub thinking_off: &'f str,
}

impl Reading {
    /// Before a reply to `prompt`.
    pub fn new(model: &LoadedModel, options: ChatOptions, prompt: &str) -> Result<Reading> {
        let of_model = || model.chat_template(options.template_name.as_deref(), options.tools.is_some());
        let source = options.template.as_deref().map_or_else(of_model, Ok)?;
        expect_memory(template_memory(source), "a chat template of this length")?;
        let json = options.tools.as_deref().unwrap_or("[]");
        expect_memory(memory_needed(json).saturating_add(prompt.len()), "the tools of a conversation")?;
        let format = ReplyFormat::of_template(source)?;
        let tools = Tools::parse(json)?;
        let tool_choice = ToolChoice::parse(options.tool_choice.as_deref().unwrap_or_default())?;
        tool_choice.check_name(&tools)?;
        let reply = ReplyOptions {
            tools,
            tool_choice,
            parallel: options.parallel_calls,
            prompt: (!prompt.is_empty()).then(|| prompt.to_owned()),
        };
        let parser = ReplyParser::new(&format, reply);
        Ok(Reading { format, parser, events: VecDeque::new(), current: None, n_bytes: 0 })
    }

    /// More of the reply.
    pub fn push(&mut self, text: &str) -> Result<()> {
        self.n_bytes = self.n_bytes.saturating_add(text.len());
        // The text may be held, be a part of a call and stand in the events, and each of them may grow to twice its size.
        expect_memory(self.n_bytes.saturating_mul(12), "a reply of this length")?;
        self.events.extend(self.parser.push(text));
        Ok(())
    }

    /// The reply is over.
    pub fn finish(&mut self, is_whole: bool) {
        self.events.extend(self.parser.finish(if is_whole { End::Stop } else { End::Cut }));
    }

    /// Whether the reply is inside a thought.
    pub fn is_thinking(&self) -> bool {
        self.parser.is_thinking()
    }

    /// The next event, which stays until the next call.
    pub fn next(&mut self) -> Parts<'_> {
        self.current = self.events.pop_front();
        self.current.as_ref().map_or(Parts::default(), parts_of)
    }

    /// What the template's replies are like.
    pub fn known(&self) -> Known<'_> {
        let marks = self.format.thinking();
        let switch = self.format.thinking_switch();
        Known {
            name: self.format.name().unwrap_or_default(),
            thinking_open: marks.map_or("", |marks| &marks.open),
            thinking_close: marks.map_or("", |marks| &marks.close),
            thinking_variable: switch.map_or("", |switch| &switch.variable),
            thinking_on: switch.map_or("", |switch| &switch.on),
            thinking_off: switch.and_then(|switch| switch.off.as_deref()).unwrap_or_default(),
        }
    }
}

/// What an event has.
pub fn parts_of(event: &Event) -> Parts<'_> {
    let parts = |kind, index: &usize| Parts { kind, index: *index, ..Parts::default() };
    match event {
        Event::Text(text) => Parts { text, ..parts(1, &0) },
        Event::Thinking(text) => Parts { text, ..parts(2, &0) },
        Event::CallBegin { index, id, name } => Parts { id, name, ..parts(3, index) },
        Event::CallArguments { index, delta } => Parts { text: delta, ..parts(4, index) },
        Event::CallDone { index, id, name, arguments } => {
            Parts { id, name, text: arguments, ..parts(5, index) }
        }
        Event::CallBroken { index, name, text, reason } => {
            Parts { name: name.as_deref().unwrap_or_default(), text, reason, ..parts(6, index) }
        }
    }
}
