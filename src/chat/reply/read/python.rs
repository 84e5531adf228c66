//! Calls in Python's form: `[name(key=value, …), …]`.
#![forbid(unsafe_code)]

use super::super::input::{Input, Next};
use super::super::sink::Sink;
use super::super::walk::MOST_NESTED;
use super::literal::{follows_string, python};
use super::objects::{List, ObjectReader, Objects};
use super::{Arguments, CUT, Reader, Step, take_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    /// In the list, before a call or its end.
    FirstCall,
    Call,
    Name,
    /// In the parentheses, before an argument or the end.
    FirstKey,
    Key,
    Value,
    AfterCall,
    Close,
}

/// The place in the text of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Plain,
    String(char),
    Escape(char),
    /// After a quotation mark, which ends the string if the next character allows it.
    After(char),
}

/// Reads calls of Python.
#[derive(Debug)]
pub(in super::super) struct PythonReader {
    close: &'static str,
    at: At,
    within: Within,
    depth: usize,
    name: String,
    key: String,
    value: String,
    arguments: Arguments,
    /// The list is one of JSON objects.
    objects: Option<ObjectReader>,
}

impl PythonReader {
    pub(in super::super) fn new(close: &'static str) -> PythonReader {
        PythonReader {
            close,
            at: At::Begin,
            within: Within::Plain,
            depth: 0,
            name: String::new(),
            key: String::new(),
            value: String::new(),
            arguments: Arguments::default(),
            objects: None,
        }
    }

    fn argument(&mut self, sink: &mut Sink) -> Result<(), String> {
        let key = std::mem::take(&mut self.key);
        self.arguments.key(key.trim(), sink)?;
        let json = python(&self.value).map_err(|e| format!("the argument {:?}: {e}", key.trim()))?;
        sink.arguments(&json);
        self.value.clear();
        Ok(())
    }

    /// Reads the text of a value up to the comma or the parenthesis after it, which is returned and stays.
    fn value_end(&mut self, input: &mut Input<'_>) -> Result<Option<char>, String> {
        let rest = input.rest();
        let (mut n, mut end) = (rest.len(), None);
        for (i, c) in rest.char_indices() {
            if let Within::After(quote) = self.within
                && !c.is_whitespace()
            {
                self.within = if follows_string(c) { Within::Plain } else { Within::String(quote) };
            }
            match (self.within, c) {
                (Within::Plain, '"' | '\'') => self.within = Within::String(c),
                (Within::Plain, ',' | ')') if self.depth == 0 => {
                    (n, end) = (i, Some(c));
                    break;
                }
                (Within::Plain, '[' | '{' | '(') => self.depth += 1,
                (Within::Plain, ']' | '}' | ')') if self.depth == 0 => {
                    input.take(i);
                    return Err("a bracket closes that none opens".into());
                }
                (Within::Plain, ']' | '}' | ')') => self.depth -= 1,
                (Within::String(quote), '\\') => self.within = Within::Escape(quote),
                (Within::String(quote), c) if c == quote => self.within = Within::After(quote),
                (Within::Escape(quote), _) => self.within = Within::String(quote),
                _ => {}
            }
            if self.depth > MOST_NESTED {
                input.take(i);
                return Err("values are nested too deeply".into());
            }
        }
        self.value.push_str(input.take(n));
        Ok(end)
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        loop {
            if let Some(objects) = &mut self.objects {
                return Ok(objects.read(input, sink));
            }
            if !matches!(self.at, At::Name | At::Key | At::Value) {
                input.skip_space();
            }
            if input.rest().is_empty() {
                return match input.is_last() {
                    // Text between two calls is no call by itself.
                    true if matches!(self.at, At::Call | At::AfterCall | At::Close) => {
                        sink.end(input);
                        Ok(Step::Done)
                    }
                    true => Err(CUT.into()),
                    false => Ok(Step::More),
                };
            }
            match (self.at, input.peek().unwrap_or(' ')) {
                (At::Begin, '[') => {
                    input.take(1);
                    self.at = At::FirstCall;
                }
                (At::Begin, _) => return Err("no list of calls follows the mark".into()),
                (At::FirstCall, '{') => {
                    let spec =
                        Objects { close: self.close, list: List::Always, is_bare: false, is_keyed: false };
                    self.objects = Some(ObjectReader::in_list(spec));
                }
                (At::FirstCall, ']') => {
                    input.take(1);
                    sink.end(input);
                    self.at = At::Close;
                }
                (At::FirstCall | At::Call, _) => {
                    self.name.clear();
                    self.at = At::Name;
                }
                (At::Name, _) => {
                    if take_name(input, &mut self.name, &["("], "name")?.is_some() {
                        sink.begin(self.name.trim(), None)?;
                        self.at = At::FirstKey;
                    }
                }
                (At::FirstKey, ')') => {
                    input.take(1);
                    self.arguments.close(sink);
                    sink.end(input);
                    self.at = At::AfterCall;
                }
                (At::FirstKey, _) => self.at = At::Key,
                (At::Key, _) => {
                    if take_name(input, &mut self.key, &["="], "name of an argument")?.is_some() {
                        (self.at, self.within, self.depth) = (At::Value, Within::Plain, 0);
                    }
                }
                (At::Value, _) => {
                    if let Some(end) = self.value_end(input)? {
                        self.argument(sink)?;
                        input.take(1);
                        self.at = if end == ',' { At::FirstKey } else { At::AfterCall };
                        if end == ')' {
                            self.arguments.close(sink);
                            sink.end(input);
                        }
                    }
                }
                (At::AfterCall, ',') => {
                    input.take(1);
                    self.at = At::Call;
                }
                (At::AfterCall, ']') => {
                    input.take(1);
                    sink.end(input);
                    self.at = At::Close;
                }
                (At::AfterCall, _) => return Err("the list of calls has no end".into()),
                (At::Close, _) => {
                    match input.accept(self.close) {
                        Next::More => return Ok(Step::More),
                        Next::Yes => sink.end(input),
                        Next::No => {}
                    }
                    return Ok(Step::Done);
                }
            }
        }
    }
}

impl Reader for PythonReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            Err(reason) => Step::Broken(Some(self.name.trim().to_owned()).filter(|n| !n.is_empty()), reason),
        }
    }
}
