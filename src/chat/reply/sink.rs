//! The calls that readers find: ids, names, and the text for the case that a call breaks.
#![forbid(unsafe_code)]

use super::event::Event;
use super::input::Input;
use super::tools::{Tool, ToolChoice, Tools};

/// The longest name of a tool or of a parameter, in bytes.
pub(super) const MOST_NAME: usize = 256;

/// A call that has begun.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// Collects the events of a reply.
#[derive(Debug)]
pub(super) struct Sink {
    events: Vec<Event>,
    tools: Tools,
    choice: ToolChoice,
    parallel: bool,
    /// The seed of ids.
    seed: u64,
    n_calls: usize,
    n_done: usize,
    call: Option<Call>,
    /// The text of the call under way before the current input.
    raw: String,
    /// Where in the current input it continues.
    raw_from: usize,
}

impl Sink {
    pub(super) fn new(tools: Tools, choice: ToolChoice, parallel: bool, prompt: &str) -> Sink {
        // FNV-1a: the same prompt gives the same ids, the next turn's prompt others.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let seed = prompt.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        let raw = String::new();
        Sink {
            events: Vec::new(),
            tools,
            choice,
            parallel,
            seed,
            n_calls: 0,
            n_done: 0,
            call: None,
            raw,
            raw_from: 0,
        }
    }

    /// Returns the events so far and removes them.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Forgets the events so far.
    pub(super) fn forget(&mut self) {
        self.events.clear();
    }

    /// More of the answer.
    pub(super) fn text(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(Event::Text(last)) => last.push_str(text),
            _ => self.events.push(Event::Text(text.to_owned())),
        }
    }

    /// More of a thought.
    pub(super) fn thinking(&mut self, text: &str) {
        match self.events.last_mut() {
            _ if text.is_empty() => {}
            Some(Event::Thinking(last)) => last.push_str(text),
            _ => self.events.push(Event::Thinking(text.to_owned())),
        }
    }

    /// The tool of a name, if tools are known.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.find(name)
    }

    /// Whether a call of this name may be made; `Err` says why not.
    pub(super) fn allow(&self, name: &str) -> Result<(), String> {
        if name.is_empty() {
            return Err("the call has no name".into());
        }
        if !self.tools.is_empty() && self.tools.find(name).is_none() {
            return Err(format!("no tool is named {name:?}"));
        }
        if let ToolChoice::Named(only) = &self.choice
            && only != name
        {
            return Err(format!("the call must be one of {only:?}, not of {name:?}"));
        }
        match self.n_done > 0 && !self.parallel {
            true => Err("only one call was allowed".into()),
            false => Ok(()),
        }
    }

    /// A call begins.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn begin(&mut self, name: &str, id: Option<&str>) -> Result<(), String> {
        self.allow(name)?;
        let id = id.filter(|id| !id.is_empty()).map_or_else(|| self.made_id(), str::to_owned);
        self.events.push(Event::CallBegin { index: self.n_calls, id: id.clone(), name: name.to_owned() });
        self.call = Some(Call { id, name: name.to_owned(), arguments: String::new() });
        Ok(())
    }

    /// Nine letters and digits, as in Mistral's models; other models accept any id.
    fn made_id(&self) -> String {
        let mut n = self.seed.wrapping_add(self.n_calls as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        n ^= n >> 29;
        let digit = |i: u32| char::from_digit((n / 36_u64.pow(i) % 36) as u32, 36).unwrap_or('0');
        (0..9).map(digit).collect()
    }

    /// More of the arguments of the call that has begun.
    pub(super) fn arguments(&mut self, delta: &str) {
        let Some(call) = &mut self.call else { return };
        call.arguments.push_str(delta);
        match self.events.last_mut() {
            _ if delta.is_empty() => {}
            Some(Event::CallArguments { delta: last, .. }) => last.push_str(delta),
            _ => self.events.push(Event::CallArguments { index: self.n_calls, delta: delta.to_owned() }),
        }
    }

    /// The call that has begun is complete, at the place of `input`.
    pub(super) fn end(&mut self, input: &Input<'_>) {
        if let Some(Call { id, name, arguments }) = self.call.take() {
            self.events.push(Event::CallDone { index: self.n_calls, id, name, arguments });
            self.n_calls += 1;
            self.n_done += 1;
        }
        self.raw.clear();
        self.raw_from = input.at();
    }

    /// A call's text begins with `before`, which was taken already.
    pub(super) fn open(&mut self, before: &str, input: &Input<'_>) {
        self.raw = before.to_owned();
        self.raw_from = input.at();
    }

    /// Keeps the text that was taken since, before the input is dropped.
    pub(super) fn keep(&mut self, input: &Input<'_>) {
        self.raw.push_str(input.taken(self.raw_from));
        self.raw_from = input.at();
    }

    /// Puts the kept text before a new input.
    pub(super) fn rewind(&mut self) {
        self.raw_from = 0;
    }

    /// The calls are over. The text after the last one is the answer's, unless it is white space. Returns whether it was.
    pub(super) fn drop_space(&mut self, input: &Input<'_>) -> bool {
        self.keep(input);
        let text = std::mem::take(&mut self.raw);
        let is_space = text.trim().is_empty();
        self.text(if is_space { "" } else { &text });
        is_space
    }

    /// The call's text belongs to the answer after all.
    pub(super) fn as_text(&mut self, input: &Input<'_>) {
        self.keep(input);
        let text = std::mem::take(&mut self.raw);
        self.text(&text);
    }

    /// Whether a call has begun and is not complete.
    pub(super) fn has_call(&self) -> bool {
        self.call.is_some()
    }

    /// The call breaks here.
    pub(super) fn broken(&mut self, input: &Input<'_>, name: Option<String>, reason: String) {
        self.keep(input);
        let name = self.call.take().map(|call| call.name).or(name);
        let text = std::mem::take(&mut self.raw);
        self.events.push(Event::CallBroken { index: self.n_calls, name, text, reason });
        self.n_calls += 1;
    }
}
