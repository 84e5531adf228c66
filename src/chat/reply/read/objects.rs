//! Calls as JSON objects: `{"name": …, "arguments": {…}}`, one or many, between marks or bare.
#![forbid(unsafe_code)]

use super::super::input::{Input, Next};
use super::super::sink::{MOST_NAME, Sink};
use super::super::walk::{Walk, Walked, whole_value};
use super::{CUT, Reader, Step};

/// The marks around the objects.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Objects {
    /// The mark after the calls; empty where there is none.
    pub close: &'static str,
    /// Whether the calls are elements of an array.
    pub list: List,
    /// Whether the calls have no marks, so that other JSON is an answer.
    pub is_bare: bool,
    /// Whether an object's only key is the name, and its value the arguments.
    pub is_keyed: bool,
}

/// Whether the calls are elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum List {
    Never,
    Always,
    Either,
}

const NAMES: [&str; 2] = ["name", "tool_name"];
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];
const IDS: [&str; 3] = ["id", "tool_call_id", "call_id"];
const ARGUMENTS_WRONG: &str = "the arguments are not a JSON object";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a list or an object.
    Begin,
    /// Before an element of the list, or its end.
    FirstItem,
    Item,
    /// Before a key, or the end of the object.
    FirstKey,
    NextKey,
    Key,
    Colon,
    /// Before the value of the key.
    Value,
    /// Inside a value that is kept as a whole: a name, an id, arguments that are a string.
    Kept,
    /// Inside a value that is not used.
    Skipped,
    /// Inside the arguments.
    Arguments,
    AfterValue,
    AfterObject,
    Close,
}

/// Reads calls that are JSON objects.
#[derive(Debug)]
pub(in super::super) struct ObjectReader {
    spec: Objects,
    at: At,
    in_list: bool,
    /// How many objects are open: a call may be the member `function` of another.
    depth: usize,
    key: String,
    /// The kept value, or the arguments before the name is known.
    kept: Vec<u8>,
    walk: Walk,
    name: Option<String>,
    id: Option<String>,
    early: Option<String>,
    has_arguments: bool,
    n_done: usize,
}

impl ObjectReader {
    pub(in super::super) fn new(spec: Objects) -> ObjectReader {
        ObjectReader {
            spec,
            at: At::Begin,
            in_list: false,
            depth: 0,
            key: String::new(),
            kept: Vec::new(),
            walk: Walk::new(),
            name: None,
            id: None,
            early: None,
            has_arguments: false,
            n_done: 0,
        }
    }

    /// In a list, before its first object.
    pub(in super::super) fn in_list(spec: Objects) -> ObjectReader {
        ObjectReader { in_list: true, at: At::FirstItem, ..ObjectReader::new(spec) }
    }

    fn start_object(&mut self) {
        (self.name, self.id, self.early, self.has_arguments) = (None, None, None, false);
        (self.depth, self.at) = (1, At::FirstKey);
    }

    fn keep(&mut self, at: At) {
        self.kept.clear();
        (self.walk, self.at) = (Walk::new(), at);
    }

    fn is(&self, keys: &[&str]) -> bool {
        keys.contains(&self.key.as_str())
    }

    /// The value of a key begins with `c`, which is not taken.
    fn value(&mut self, c: char, sink: &mut Sink) -> Result<(), String> {
        if self.is(&ARGUMENTS) {
            if self.has_arguments {
                return Err("the call has arguments twice".into());
            }
            self.has_arguments = true;
            return match c {
                '{' => {
                    self.keep(At::Arguments);
                    self.begin(sink)
                }
                '"' | 'n' => {
                    self.keep(At::Kept);
                    Ok(())
                }
                _ => Err(ARGUMENTS_WRONG.into()),
            };
        }
        let is_kept = self.is(&NAMES) || self.is(&IDS);
        match c {
            '{' if self.key == "function" && self.depth == 1 => (self.depth, self.at) = (2, At::FirstKey),
            // Some models write the name under "function".
            '"' if self.key == "function" => {
                "name".clone_into(&mut self.key);
                self.keep(At::Kept);
            }
            _ => self.keep(if is_kept { At::Kept } else { At::Skipped }),
        }
        Ok(())
    }

    /// The call begins, if its name is known.
    fn begin(&mut self, sink: &mut Sink) -> Result<(), String> {
        match &self.name {
            Some(name) => sink.begin(name, self.id.as_deref()),
            None => Ok(()),
        }
    }

    /// The key is the call's name.
    fn name_is_key(&mut self, sink: &Sink) -> Result<(), String> {
        if self.name.is_some() {
            return Err("the call has a name twice".into());
        }
        let name = std::mem::replace(&mut self.key, "arguments".into());
        if name.len() > MOST_NAME {
            return Err(format!("the name is longer than {MOST_NAME} bytes"));
        }
        sink.allow(&name)?;
        self.name = Some(name);
        Ok(())
    }

    /// A value that was kept is complete.
    fn kept_value(&mut self, sink: &mut Sink) -> Result<(), String> {
        let text = String::from_utf8(std::mem::take(&mut self.kept)).map_err(|e| e.to_string())?;
        if self.is(&ARGUMENTS) {
            let inner = match text.as_str() {
                "null" => "{}".to_owned(),
                text => serde_json::from_str::<String>(text).map_err(|e| e.to_string())?,
            };
            let inner = if inner.trim().is_empty() { "{}".to_owned() } else { inner };
            let inner = whole_value(&inner).map_err(|e| format!("{ARGUMENTS_WRONG}: {e}"))?;
            if !inner.starts_with('{') {
                return Err(ARGUMENTS_WRONG.into());
            }
            return self.arguments(inner, sink);
        }
        let is_name = self.is(&NAMES);
        match serde_json::from_str::<String>(&text) {
            Ok(name) if is_name && self.name.is_none() => {
                if name.len() > MOST_NAME {
                    return Err(format!("the name is longer than {MOST_NAME} bytes"));
                }
                sink.allow(&name)?;
                self.name = Some(name);
                if let Some(early) = self.early.take() {
                    self.begin(sink)?;
                    sink.arguments(&early);
                }
                Ok(())
            }
            Err(_) if is_name => Err("the name is not a string".into()),
            Ok(_) if is_name => Err("the call has a name twice".into()),
            Ok(id) => {
                self.id = Some(id);
                Ok(())
            }
            // A number, for example.
            Err(_) => {
                self.id = Some(text).filter(|id| id != "null" && !id.starts_with(['{', '[']));
                Ok(())
            }
        }
    }

    /// All arguments in one object.
    fn arguments(&mut self, all: String, sink: &mut Sink) -> Result<(), String> {
        match self.name {
            Some(_) => {
                self.begin(sink)?;
                sink.arguments(&all);
            }
            None => self.early = Some(all),
        }
        Ok(())
    }

    fn end_object(&mut self, input: &Input<'_>, sink: &mut Sink) -> Result<(), String> {
        self.depth -= 1;
        if self.depth > 0 {
            self.at = At::AfterValue;
            return Ok(());
        }
        if self.name.is_none() {
            return Err("the call has no name".into());
        }
        if !self.has_arguments {
            if self.spec.is_bare {
                return Err("the call has no arguments".into());
            }
            self.begin(sink)?;
            sink.arguments("{}");
        }
        sink.end(input);
        self.n_done += 1;
        self.at = At::AfterObject;
        Ok(())
    }

    /// Reads bytes of a value. Returns whether it ended.
    fn walk(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<bool, String> {
        let rest = input.rest();
        let (mut n, mut ended) = (0, false);
        let (is_arguments, is_kept) = (self.at == At::Arguments, matches!(self.at, At::Kept | At::Key));
        let limit = if self.at == At::Kept && self.is(&ARGUMENTS) { usize::MAX } else { 6 * MOST_NAME };
        let mut failed = None;
        for &byte in rest.as_bytes() {
            match self.walk.step(byte, &mut self.kept) {
                Ok(Walked::Part) => n += 1,
                Ok(Walked::End) => {
                    (n, ended) = (n + 1, true);
                    break;
                }
                Ok(Walked::After) => {
                    ended = true;
                    break;
                }
                Err(reason) => {
                    failed = Some(reason);
                    break;
                }
            }
            if is_kept && self.kept.len() > limit {
                failed = Some("a name or an id is too long");
                break;
            }
            if !is_kept && !is_arguments {
                self.kept.clear();
            }
        }
        // The byte that fails belongs to the broken text, if its character is whole.
        while !rest.is_char_boundary(n) {
            n -= 1;
        }
        input.take(n);
        if is_arguments && self.name.is_some() {
            sink.arguments(&String::from_utf8_lossy(&self.kept));
            self.kept.clear();
        }
        match failed {
            Some(reason) if is_arguments => Err(format!("the arguments cannot be read as JSON: {reason}")),
            Some(reason) => Err(format!("the call cannot be read as JSON: {reason}")),
            None => Ok(ended),
        }
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        loop {
            if !matches!(self.at, At::Key | At::Kept | At::Skipped | At::Arguments) {
                input.skip_space();
            }
            let Some(c) = input.peek() else {
                let is_enough = self.at == At::Close || self.at == At::AfterObject && !self.in_list;
                return match input.is_last() {
                    true if is_enough || self.at == At::AfterObject && self.n_done > 0 => Ok(Step::Done),
                    true => Err(CUT.into()),
                    false => Ok(Step::More),
                };
            };
            match (self.at, c) {
                (At::Begin, '[') if self.spec.list != List::Never => {
                    input.take(1);
                    (self.in_list, self.at) = (true, At::FirstItem);
                }
                (At::Begin, '{') if self.spec.list != List::Always => {
                    input.take(1);
                    self.start_object();
                }
                (At::FirstItem | At::Item, '{') => {
                    input.take(1);
                    self.start_object();
                }
                (At::FirstItem, ']') => {
                    input.take(1);
                    sink.end(input);
                    self.at = At::Close;
                }
                (At::FirstKey | At::NextKey, '"') => self.keep(At::Key),
                (At::FirstKey, '}') | (At::AfterValue, '}') => {
                    input.take(1);
                    self.end_object(input, sink)?;
                }
                (At::Key, _) => {
                    if self.walk(input, sink)? {
                        let text =
                            String::from_utf8(std::mem::take(&mut self.kept)).map_err(|e| e.to_string())?;
                        self.key = serde_json::from_str(&text).map_err(|e| e.to_string())?;
                        self.at = At::Colon;
                        if self.spec.is_keyed {
                            self.name_is_key(sink)?;
                        }
                        if self.spec.is_bare && self.name.is_none() && !self.is_a_calls_key() {
                            return Err("the object is no call".into());
                        }
                    }
                }
                (At::Colon, ':') => {
                    input.take(1);
                    self.at = At::Value;
                }
                (At::Value, c) => self.value(c, sink)?,
                (At::Kept, _) => {
                    if self.walk(input, sink)? {
                        self.at = At::AfterValue;
                        self.kept_value(sink)?;
                    }
                }
                (At::Skipped, _) => {
                    if self.walk(input, sink)? {
                        self.at = At::AfterValue;
                    }
                }
                (At::Arguments, _) => {
                    if self.walk(input, sink)? {
                        self.at = At::AfterValue;
                        if self.name.is_none() {
                            let all = std::mem::take(&mut self.kept);
                            self.early = Some(String::from_utf8(all).map_err(|e| e.to_string())?);
                        }
                    }
                }
                (At::AfterValue, ',') => {
                    input.take(1);
                    self.at = At::NextKey;
                }
                (At::AfterObject, ',') if self.in_list => {
                    input.take(1);
                    self.at = At::Item;
                }
                (At::AfterObject, ']') if self.in_list => {
                    input.take(1);
                    self.at = At::Close;
                    sink.end(input);
                    if self.spec.close.is_empty() {
                        return Ok(Step::Done);
                    }
                }
                // Several objects without a list: one after the other, or with text between them.
                (At::AfterObject, '{') if !self.in_list => {
                    input.take(1);
                    self.start_object();
                }
                (At::AfterObject, ';' | ',') if !self.in_list => {
                    input.take(1);
                }
                (At::AfterObject, _) if self.in_list => return Err("the list of calls has no end".into()),
                (At::AfterObject | At::Close, _) => {
                    if self.spec.close.is_empty() {
                        return Ok(Step::Done);
                    }
                    match input.accept(self.spec.close) {
                        Next::More => return Ok(Step::More),
                        Next::Yes => sink.end(input),
                        Next::No => {}
                    }
                    return Ok(Step::Done);
                }
                (At::Begin, _) => return Err("no JSON follows the mark of a call".into()),
                _ => return Err(format!("the call cannot be read as JSON: {c:?} is not expected there")),
            }
        }
    }

    fn is_a_calls_key(&self) -> bool {
        self.is(&NAMES) || self.is(&ARGUMENTS) || self.is(&IDS) || self.is(&["type", "function"])
    }
}

impl Reader for ObjectReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            // Text between two calls is no call by itself.
            Err(reason) if self.n_done > 0 && reason == CUT && self.at == At::Item => {
                sink.end(input);
                Step::Done
            }
            Err(reason) => Step::Broken(self.name.clone(), reason),
        }
    }
}
