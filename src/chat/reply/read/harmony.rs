//! The channels of gpt-oss: messages with a header each, of which some are thoughts, some calls, and some the answer.
#![forbid(unsafe_code)]

use super::super::input::Input;
use super::super::sink::Sink;
use super::super::walk::{Walk, Walked};
use super::{CUT, Step};

const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
/// What ends a message.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", START, CHANNEL];
/// What a header may begin with.
const HEADS: [&str; 6] = [CHANNEL, START, MESSAGE, "to=", " to=", "<|constrain|>"];
const MOST_HEADER: usize = 1024;

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
    /// Behind a call's arguments.
    CallEnd,
}

/// Reads a whole reply.
#[derive(Debug)]
pub(in super::super) struct Harmony {
    at: At,
    header: String,
    has_tools: bool,
}

impl Harmony {
    /// `has_tools`: whether calls are looked for.
    pub(in super::super) fn new(has_tools: bool) -> Harmony {
        Harmony { at: At::Start, header: String::new(), has_tools }
    }

    /// Whether a thought is open.
    pub(in super::super) fn is_thinking(&self) -> bool {
        matches!(self.at, At::Thinking)
    }

    /// Whether what is read now may turn out to be a broken call.
    pub(in super::super) fn may_break(&self) -> bool {
        matches!(self.at, At::Header | At::Call { .. })
    }

    /// What the header says of the message behind it.
    fn message(&self) -> At {
        let word = |mark: &str| {
            let behind = self.header.split_once(mark)?.1;
            let end = behind.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(behind.len());
            Some(&behind[..end])
        };
        match (word("to="), word(CHANNEL)) {
            (Some(name), _) if self.has_tools && !matches!(name, "" | "assistant" | "user" | "all") => {
                let name = name.strip_prefix("functions.").unwrap_or(name).to_owned();
                At::Call { name, walk: None }
            }
            (_, Some("analysis")) => At::Thinking,
            _ => At::Text,
        }
    }

    /// Reads on.
    pub(in super::super) fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(()) => Step::More,
            Err(reason) => {
                let name = match std::mem::replace(&mut self.at, At::Text) {
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
                    } else if !input.is_last() && HEADS.iter().any(|head| head.starts_with(rest)) {
                        return Ok(());
                    } else {
                        self.at = At::Text;
                    }
                }
                At::Header => {
                    let (text, hit) = input.until(&[MESSAGE]);
                    self.header.push_str(text);
                    if hit.is_some() {
                        self.at = self.message();
                    } else if self.header.len() > MOST_HEADER {
                        // A header is never so long: it is text.
                        sink.as_text(input);
                        self.at = At::Text;
                    } else {
                        return match input.is_last() && self.message_is_call() {
                            true => Err(CUT.into()),
                            false => Ok(()),
                        };
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

    fn message_is_call(&self) -> bool {
        matches!(self.message(), At::Call { .. })
    }
}
