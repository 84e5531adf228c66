//! The channels of gpt-oss: messages with a header each. Some are thoughts, some calls, and some the answer.
#![forbid(unsafe_code)]

use super::super::input::Input;
use super::super::sink::Sink;
use super::super::walk::{Walk, Walked};
use super::{CUT, Step};

const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
const CONSTRAIN: &str = "<|constrain|>";
const RECIPIENT: &str = "to=";
/// The marks that end a message.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", START, CHANNEL];
/// The marks that end a header: its message, or a mark that a header cannot contain.
const STOPS: [&str; 5] = [MESSAGE, START, "<|end|>", "<|call|>", "<|return|>"];
/// The possible beginnings of a header.
const HEADS: [&str; 6] = [CHANNEL, START, MESSAGE, RECIPIENT, " to=", CONSTRAIN];
const MOST_HEADER: usize = 1024;
/// The reason when the text ends inside a header without a call.
pub(in super::super) const CUT_HEADER: &str = "the reply ended inside the header of a message";

#[derive(Debug)]
enum At {
    /// Before a header, or an answer without one.
    Start,
    Header,
    Text,
    Thinking,
    Call {
        name: String,
        walk: Option<Walk>,
    },
    /// After a call's arguments.
    CallEnd,
}

/// Reads a whole reply.
#[derive(Debug)]
pub(in super::super) struct Harmony {
    at: At,
    header: String,
    has_tools: bool,
}

/// The content of a header.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head<'h> {
    recipient: Option<&'h str>,
    channel: Option<&'h str>,
}

impl Head<'_> {
    /// Reads a header without the mark of its message.
    ///
    /// # Errors
    /// Why it is none.
    fn read(header: &str) -> Result<Head<'_>, String> {
        let (mut head, mut rest, mut kind) = (Head::default(), header, None);
        if let Some(after) = header.strip_prefix(START) {
            let role;
            (role, rest) = word(after);
            if !matches!(role, "" | "assistant") {
                return Err(format!("the header of a message names the role {role:.100?}, not the model's"));
            }
        }
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(head);
            } else if let Some(after) = rest.strip_prefix(CHANNEL) {
                let channel;
                (channel, rest) = word(after);
                head.channel = Some(channel);
            } else if let Some(after) = rest.strip_prefix(RECIPIENT) {
                let end = after.find(is_end).unwrap_or(after.len());
                let name = &after[..end];
                rest = &after[end..];
                match head.recipient {
                    _ if name.is_empty() => return Err("the header of a call names no tool".into()),
                    Some(other) if other != name => {
                        return Err(format!(
                            "the header of a call names two tools, {other:.100?} and {name:.100?}"
                        ));
                    }
                    _ => head.recipient = Some(name),
                }
            } else {
                // The type of the message's content: "json", with or without its mark.
                let said;
                (said, rest) = word(rest.strip_prefix(CONSTRAIN).unwrap_or(rest));
                if let Some(kind) = kind.replace(said).filter(|kind: &&str| !kind.is_empty()) {
                    return Err(format!("the header of a message goes on after its type {kind:.100?}"));
                }
            }
        }
    }

    /// The called tool.
    fn tool(&self) -> Option<&str> {
        let name = self.recipient.filter(|name| !matches!(*name, "assistant" | "user" | "all"))?;
        Some(name.strip_prefix("functions.").unwrap_or(name))
    }
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || c == '<'
}

/// The first word, up to white space, a mark or a recipient, and the text after it.
fn word(text: &str) -> (&str, &str) {
    let marks = [CHANNEL, CONSTRAIN, RECIPIENT];
    let ends =
        |at: usize, c: char| c.is_whitespace() || marks.iter().any(|mark| text[at..].starts_with(mark));
    let end = text.char_indices().find(|(at, c)| ends(*at, *c)).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}

impl Harmony {
    /// `has_tools`: whether to look for calls.
    pub(in super::super) fn new(has_tools: bool) -> Harmony {
        Harmony { at: At::Start, header: String::new(), has_tools }
    }

    /// Whether a thought is open.
    pub(in super::super) fn is_thinking(&self) -> bool {
        matches!(self.at, At::Thinking)
    }

    /// Whether the current text may turn out to be a broken call.
    pub(in super::super) fn may_break(&self) -> bool {
        matches!(self.at, At::Header | At::Call { .. })
    }

    /// Reads on.
    pub(in super::super) fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(()) => Step::More,
            Err(reason) => {
                // After a header without a message comes another one.
                let next = if matches!(self.at, At::Start) { At::Start } else { At::Text };
                let name = match std::mem::replace(&mut self.at, next) {
                    At::Call { name, .. } => Some(name),
                    _ => None,
                };
                Step::Broken(name, reason)
            }
        }
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<(), String> {
        loop {
            match &mut self.at {
                At::Start => {
                    let rest = input.rest();
                    if rest.is_empty() {
                        return Ok(());
                    }
                    if HEADS.iter().any(|head| rest.starts_with(head)) {
                        self.header.clear();
                        self.at = At::Header;
                        sink.open("", input);
                        if rest.starts_with(START) {
                            self.header.push_str(input.take(START.len()));
                        }
                    } else if !input.is_last() && HEADS.iter().any(|head| head.starts_with(rest)) {
                        return Ok(());
                    } else {
                        self.at = At::Text;
                    }
                }
                At::Header => {
                    if !self.header(input, sink)? {
                        return Ok(());
                    }
                }
                At::Text | At::Thinking => {
                    let is_text = matches!(self.at, At::Text);
                    let from = input.at();
                    let (text, hit) = input.until(&ENDS);
                    match is_text {
                        true => sink.text(text),
                        false => sink.thinking(text),
                    }
                    match hit {
                        None => return Ok(()),
                        Some(0..=2) => self.at = At::Start,
                        // A header without an end of the message before it.
                        Some(_) => {
                            self.header = input.taken(from + text.len()).to_owned();
                            sink.open(&self.header, input);
                            self.at = At::Header;
                        }
                    }
                }
                At::Call { name, walk } => {
                    let walk = match walk {
                        Some(walk) => walk,
                        None => {
                            input.skip_space();
                            match input.peek() {
                                None if !input.is_last() => return Ok(()),
                                None => return Err(CUT.into()),
                                Some('{') => {
                                    sink.begin(name, None)?;
                                    walk.insert(Walk::new())
                                }
                                Some(_) => return Err("the arguments are not a JSON object".into()),
                            }
                        }
                    };
                    let (mut n, mut out, mut ended, mut failed) = (0, Vec::new(), false, None);
                    for &byte in input.rest().as_bytes() {
                        match walk.step(byte, &mut out) {
                            Ok(walked) => (n, ended) = (n + 1, walked == Walked::End),
                            Err(reason) => failed = Some(reason),
                        }
                        if ended || failed.is_some() {
                            break;
                        }
                    }
                    input.take(n);
                    sink.arguments(&String::from_utf8_lossy(&out));
                    if let Some(reason) = failed {
                        return Err(format!("the arguments cannot be read as JSON: {reason}"));
                    }
                    if !ended {
                        return if input.is_last() { Err(CUT.into()) } else { Ok(()) };
                    }
                    sink.end(input);
                    self.at = At::CallEnd;
                }
                At::CallEnd => {
                    input.skip_space();
                    match input.accept_any(&ENDS[..3]) {
                        Err(()) => return Ok(()),
                        Ok(Some(_)) => self.at = At::Start,
                        Ok(None) if input.rest().is_empty() => return Ok(()),
                        Ok(None) => self.at = At::Start,
                    }
                }
            }
        }
    }

    /// Reads more of a header. Returns whether it is over.
    ///
    /// # Errors
    /// Why it is not a header. The text that was taken is not a message's.
    fn header(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<bool, String> {
        let mut ahead = input.clone();
        let (text, hit) = ahead.until(&STOPS);
        let left = MOST_HEADER - self.header.len();
        if text.len() > left {
            input.take(text.floor_char_boundary(left));
            return Err(format!("the header of a message has more than {MOST_HEADER} bytes"));
        }
        self.header.push_str(text);
        match hit.map(|stop| STOPS[stop]) {
            Some(MESSAGE) => {
                *input = ahead;
                let head = Head::read(&self.header)?;
                self.at = match (head.tool(), head.channel) {
                    (Some(name), _) if self.has_tools => At::Call { name: name.to_owned(), walk: None },
                    // Text that looks like a call is text.
                    (Some(_), _) => {
                        sink.as_text(input);
                        At::Text
                    }
                    (None, Some("analysis")) => At::Thinking,
                    (None, _) => At::Text,
                };
                Ok(true)
            }
            Some(stop) => {
                match stop {
                    START => _ = input.take(text.len()),
                    _ => *input = ahead,
                }
                self.at = At::Start;
                Err("the header of a message has no message after it".into())
            }
            None => {
                *input = ahead;
                match input.is_last() {
                    false => Ok(false),
                    true if self.header.contains(RECIPIENT) => Err(CUT.into()),
                    true => match Head::read(&self.header) {
                        Ok(_) => Err(CUT_HEADER.into()),
                        Err(reason) => Err(reason),
                    },
                }
            }
        }
    }
}
