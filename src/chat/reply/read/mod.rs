//! Readers of calls: each parses one kind of text, with the marks of the format's file in `families`.
#![forbid(unsafe_code)]

pub(super) mod braces;
pub(super) mod harmony;
pub(super) mod literal;
pub(super) mod named;
pub(super) mod nested;
pub(super) mod objects;
pub(super) mod python;
pub(super) mod tagged;

use std::collections::HashSet;

use super::input::Input;
use super::sink::{MOST_NAME, Sink};
use super::walk::quoted;

/// The progress of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It needs more text.
    More,
    /// The calls are over; the text after them is the answer's.
    Done,
    /// It is not a call, for this reason. The name, if it is known and the call has not begun.
    Broken(Option<String>, String),
}

/// Reads calls after the mark that opens them.
pub(super) trait Reader: std::fmt::Debug + Send {
    /// Reads on. When the input is the last one, missing text will not come.
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step;
}

/// The reason when the text ends inside a call.
pub(super) const CUT: &str = "the reply ended inside the call";

/// Takes more of a name, up to the first of `ends`, which is returned. `Err`: it is not a name; the character that shows it
/// stays.
pub(super) fn take_name(
    input: &mut Input<'_>,
    name: &mut String,
    ends: &[&str],
    what: &str,
) -> Result<Option<usize>, String> {
    let is_odd = |c: char| c.is_control() || "<>{}[]()\"'`,;=|".contains(c);
    let mut ahead = input.clone();
    let (text, hit) = ahead.until(ends);
    for (i, c) in text.char_indices() {
        let is_second = !c.is_whitespace() && name.ends_with(char::is_whitespace) && !name.trim().is_empty();
        if is_odd(c) && !c.is_whitespace() || is_second {
            input.take(i);
            return Err(format!("the {what} {:?} goes on with {c:?}", name.trim()));
        }
        if name.len() >= MOST_NAME {
            input.take(i);
            return Err(format!("the {what} is longer than {MOST_NAME} bytes"));
        }
        name.push(c);
    }
    *input = ahead;
    Ok(hit)
}

/// As [`take_name`], for a name of any characters.
pub(super) fn take_key(input: &mut Input<'_>, key: &mut String, end: &str) -> Result<bool, String> {
    let mut ahead = input.clone();
    let (text, hit) = ahead.until(&[end]);
    for (i, c) in text.char_indices() {
        if key.len() >= MOST_NAME {
            input.take(i);
            return Err(format!("the name of an argument is longer than {MOST_NAME} bytes"));
        }
        key.push(c);
    }
    *input = ahead;
    Ok(hit.is_some())
}

/// Arguments that come one by one and become a JSON object.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    seen: HashSet<String>,
}

impl Arguments {
    /// The next argument's key, and the text before its value.
    ///
    /// # Errors
    /// When there is already an argument of this name.
    pub(super) fn key(&mut self, key: &str, sink: &mut Sink) -> Result<(), String> {
        if key.is_empty() {
            return Err("an argument has no name".into());
        }
        sink.arguments(if self.seen.is_empty() { "{" } else { ", " });
        sink.arguments(&quoted(key));
        sink.arguments(": ");
        match self.seen.insert(key.to_owned()) {
            true => Ok(()),
            false => Err(format!("the argument {key:?} comes twice")),
        }
    }

    /// The end of the object.
    pub(super) fn close(&mut self, sink: &mut Sink) {
        sink.arguments(if self.seen.is_empty() { "{}" } else { "}" });
        self.seen.clear();
    }
}
