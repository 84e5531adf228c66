//! Parses a reply as it streams: thoughts, the answer, calls.
#![forbid(unsafe_code)]

use super::event::{End, Event};
use super::format::ReplyFormat;
use super::input::{Input, Next};
use super::read::harmony::{CUT_HEADER, Harmony};
use super::read::{CUT, Reader, Step};
use super::sink::Sink;
use super::tools::{ToolChoice, Tools};

/// What is known about a reply before it comes.
#[derive(Debug, Clone, Default)]
pub struct ReplyOptions {
    /// The offered tools. Without tools, names and types of arguments are what the model writes.
    pub tools: Tools,
    /// Whether the model calls tools.
    pub tool_choice: ToolChoice,
    /// Whether there may be more than one call; otherwise later ones are broken.
    pub parallel: bool,
    /// The prompt of the reply, as the template wrote it: it may end inside a thought. `None`: the template's default.
    pub prompt: Option<String>,
}

/// Parses one reply.
#[derive(Debug)]
pub struct ReplyParser {
    format: ReplyFormat,
    sink: Sink,
    spot: Spot,
    has_tools: bool,
    /// Text that waits for more.
    waiting: String,
    /// White space that belongs to the text if more of it comes, and to a mark if a mark comes.
    space: String,
    /// Whether white space that comes now belongs to a mark.
    is_fresh: bool,
    /// Whether the answer has begun, so that no thought can begin.
    began: bool,
    is_over: bool,
}

#[derive(Debug)]
enum Spot {
    Thought,
    Answer,
    /// In calls; `true`: without marks, so that they may be an answer.
    Calls(Box<dyn Reader>, bool),
    Channels(Harmony),
}

impl ReplyParser {
    /// Before a reply in this format.
    pub fn new(format: &ReplyFormat, options: ReplyOptions) -> ReplyParser {
        let has_tools = format.calls().is_some() && options.tool_choice != ToolChoice::None;
        let prompt = options.prompt.as_deref();
        let tail = format.opened(prompt).to_owned();
        let sink =
            Sink::new(options.tools, options.tool_choice, options.parallel, prompt.unwrap_or_default());
        let mut parser = ReplyParser {
            spot: match format.has_channels() {
                true => Spot::Channels(Harmony::new(has_tools)),
                false => Spot::Answer,
            },
            format: format.clone(),
            sink,
            has_tools,
            waiting: String::new(),
            space: String::new(),
            is_fresh: false,
            began: false,
            is_over: false,
        };
        // The prompt's part of the reply is parsed, and gives no events.
        parser.push(&tail);
        parser.sink.forget();
        parser.space.clear();
        parser.is_fresh |= parser.waiting.is_empty() && !tail.is_empty();
        parser
    }

    /// Whether the reply is inside a thought now: a constraint on the answer begins after its mark.
    pub fn is_thinking(&self) -> bool {
        match &self.spot {
            Spot::Thought => true,
            Spot::Channels(channels) => channels.is_thinking(),
            Spot::Answer | Spot::Calls(..) => false,
        }
    }

    /// More of the reply.
    pub fn push(&mut self, text: &str) -> Vec<Event> {
        if !self.is_over {
            self.waiting.push_str(text);
            self.run(false);
        }
        self.sink.take()
    }

    /// The reply is over. An incomplete call is broken then.
    pub fn finish(&mut self, end: End) -> Vec<Event> {
        if !std::mem::replace(&mut self.is_over, true) {
            self.run(true);
            let is_text = matches!(self.spot, Spot::Answer) && !self.is_fresh;
            if is_text {
                let space = std::mem::take(&mut self.space);
                self.sink.text(&space);
            }
        }
        let mut events = self.sink.take();
        let is_header = |e: &Event| matches!(e, Event::CallBroken { reason, .. } if reason == CUT_HEADER);
        // A header that was cut off, and is valid so far, gives no event.
        if end == End::Cut && events.last().is_some_and(is_header) {
            events.pop();
        }
        if end == End::Cut
            && let Some(Event::CallBroken { reason, .. }) =
                events.iter_mut().rfind(|e| matches!(e, Event::CallBroken { reason, .. } if reason == CUT))
        {
            "the reply was cut off inside the call".clone_into(reason);
        }
        events
    }

    fn run(&mut self, last: bool) {
        let text = std::mem::take(&mut self.waiting);
        let mut input = Input::new(&text, last);
        self.sink.rewind();
        loop {
            let (before, spot) = (input.at(), std::mem::discriminant(&self.spot));
            let goes_on = match &self.spot {
                Spot::Thought => self.thought(&mut input),
                Spot::Answer => self.answer(&mut input),
                Spot::Calls(..) => self.calls(&mut input),
                Spot::Channels(_) => self.channels(&mut input),
            };
            let moved = input.at() > before || std::mem::discriminant(&self.spot) != spot;
            if !goes_on || !moved {
                break;
            }
        }
        input.rest().clone_into(&mut self.waiting);
    }

    /// Text of the answer or of a thought, without the white space at its end, which waits.
    fn say(&mut self, text: &str, is_thought: bool) {
        let text = if self.is_fresh { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        self.is_fresh = false;
        let end = text.trim_end().len();
        if end > 0 {
            let space = std::mem::take(&mut self.space);
            for piece in [space.as_str(), &text[..end]] {
                match is_thought {
                    true => self.sink.thinking(piece),
                    false => self.sink.text(piece),
                }
            }
        }
        self.space.push_str(&text[end..]);
    }

    fn thought(&mut self, input: &mut Input<'_>) -> bool {
        let Some(marks) = self.format.thinking() else {
            self.spot = Spot::Answer;
            return true;
        };
        let (text, hit) = input.until(&[marks.close.trim_end()]);
        self.say(text, true);
        if hit.is_some() {
            self.space.clear();
            (self.spot, self.is_fresh) = (Spot::Answer, true);
        }
        hit.is_some()
    }

    fn answer(&mut self, input: &mut Input<'_>) -> bool {
        let format = self.format.clone();
        let marks = format.thinking();
        if !self.began {
            // Before the answer a thought may begin, or have ended: some models leave its beginning to the prompt.
            let before = input.at();
            input.skip_space();
            let space = input.taken(before);
            if !self.is_fresh {
                self.space.push_str(space);
            }
            if input.rest().is_empty() {
                return false;
            }
            if let Some(marks) = marks {
                match input.accept_any(&[&marks.open, &marks.close]) {
                    Err(()) => return false,
                    Ok(None) => {}
                    Ok(Some(which)) => {
                        self.space.clear();
                        self.is_fresh = true;
                        self.spot = if which == 0 { Spot::Thought } else { Spot::Answer };
                        return true;
                    }
                }
            }
            if let Some(calls) = format.calls().filter(|calls| calls.is_begun) {
                match input.accept("all\n") {
                    Next::More => return false,
                    Next::Yes => self.is_fresh = true,
                    Next::No if self.has_tools => {
                        self.began = true;
                        return self.open(input, (calls.reader)(Some(0)), false, "");
                    }
                    Next::No => {}
                }
            }
            let calls = format.calls().filter(|_| self.has_tools);
            if let Some(calls) = calls.filter(|calls| calls.is_bare && input.peek() == Some('{')) {
                self.began = true;
                return self.open(input, (calls.reader)(None), true, "");
            }
            self.began = true;
        }
        let thought = marks.filter(|marks| marks.anywhere).map(|marks| marks.open.as_str());
        let calls = format.calls().filter(|_| self.has_tools);
        let opens = calls.map_or(&[][..], |calls| calls.opens);
        let silent = format.calls().map_or(&[][..], |calls| calls.silent);
        let all: Vec<&str> = opens.iter().copied().chain(silent.iter().copied()).chain(thought).collect();
        let (text, hit) = input.until(&all);
        self.say(text, false);
        let Some(which) = hit else { return false };
        match calls {
            Some(calls) if which < opens.len() => {
                self.open(input, (calls.reader)(Some(which)), false, opens[which])
            }
            _ if which < opens.len() + silent.len() => {
                (self.began, self.is_fresh) = (true, true);
                true
            }
            _ => {
                self.space.clear();
                (self.spot, self.is_fresh) = (Spot::Thought, true);
                true
            }
        }
    }

    fn open(&mut self, input: &Input<'_>, reader: Box<dyn Reader>, is_bare: bool, mark: &str) -> bool {
        let mut before = std::mem::take(&mut self.space);
        before.push_str(mark);
        self.sink.open(&before, input);
        self.spot = Spot::Calls(reader, is_bare);
        true
    }

    fn calls(&mut self, input: &mut Input<'_>) -> bool {
        let Spot::Calls(reader, is_bare) = &mut self.spot else { return false };
        let is_bare = *is_bare;
        match reader.read(input, &mut self.sink) {
            Step::More => {
                self.sink.keep(input);
                return false;
            }
            Step::Done => {
                self.is_fresh = self.sink.drop_space(input);
            }
            Step::Broken(..) if is_bare && !self.sink.has_call() => {
                self.sink.as_text(input);
                self.is_fresh = false;
            }
            Step::Broken(name, reason) => {
                self.sink.broken(input, name, reason);
                self.is_fresh = false;
            }
        }
        self.spot = Spot::Answer;
        true
    }

    fn channels(&mut self, input: &mut Input<'_>) -> bool {
        let Spot::Channels(channels) = &mut self.spot else { return false };
        match channels.read(input, &mut self.sink) {
            Step::Broken(name, reason) => {
                self.sink.broken(input, name, reason);
                true
            }
            _ if channels.may_break() => {
                self.sink.keep(input);
                false
            }
            _ => {
                self.sink.open("", input);
                false
            }
        }
    }
}
