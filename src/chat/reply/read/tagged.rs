//! Calls whose arguments stand between tags, each by itself: `<function=name><parameter=key>value</parameter></function>`.
//!
//! The text of a value does not show whether it is a string: the tool's schema decides, or else the text's form.
#![forbid(unsafe_code)]

use super::super::input::Input;
use super::super::sink::{MOST_NAME, Sink};
use super::super::tools::Kinds;
use super::super::walk::{escape, quoted, whole_value};
use super::literal::python;
use super::{Arguments, CUT, Reader, Step, take_name};

/// What a reader needs to know of the format. White space between the marks is ignored.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Tagged {
    /// Before a call's name. Where the parser already looks for this mark, `in_call` says so.
    pub call: &'static str,
    /// What ends the name.
    pub name_end: &'static [&'static str],
    /// What ends further text after the name; empty where there is none.
    pub name_rest: &'static str,
    /// Before an argument's name.
    pub key: &'static str,
    /// What ends it; any of these.
    pub key_end: &'static [&'static str],
    /// Between name and value, if something is.
    pub value: &'static str,
    /// After a value.
    pub value_end: &'static str,
    /// After the call; empty where the end of the section ends it.
    pub call_end: &'static str,
    /// After all calls.
    pub close: &'static str,
    /// Whether a line break before and after a value belongs to the template.
    pub is_padded: bool,
    /// Whether the entry of `key_end` says that the value is a string (the first) or not (the others).
    pub is_typed: bool,
    /// Whether a string may be wrapped as in XML.
    pub has_cdata: bool,
}

const CDATA: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a call, or the end of all.
    Call,
    Name,
    NameRest,
    /// In a call, before an argument or the end.
    FirstKey,
    Key,
    BeforeValue,
    ValueStart,
    Value,
    /// Inside `<![CDATA[`, and after its end.
    Wrapped,
    WrappedEnd,
    /// After a possible end mark of the value.
    ValueEnd,
}

/// Reads calls between tags.
#[derive(Debug)]
pub(in super::super) struct TaggedReader {
    spec: Tagged,
    at: At,
    name: String,
    key: String,
    kinds: Kinds,
    /// The value so far where its type is not known.
    value: String,
    /// A line break that belongs to the value if more of it follows.
    newline: bool,
    /// The mark that may end the value, and the white space after it.
    held: String,
    arguments: Arguments,
    n_done: usize,
    /// The length of the text after the name.
    n_rest: usize,
}

impl TaggedReader {
    /// `in_call`: after the mark before a name.
    pub(in super::super) fn new(spec: Tagged, in_call: bool) -> TaggedReader {
        TaggedReader {
            spec,
            at: if in_call { At::Name } else { At::Call },
            name: String::new(),
            key: String::new(),
            kinds: Kinds::ANY,
            value: String::new(),
            newline: false,
            held: String::new(),
            arguments: Arguments::default(),
            n_done: 0,
            n_rest: 0,
        }
    }

    /// More of a value.
    fn grow(&mut self, text: &str, sink: &mut Sink) {
        if text.is_empty() {
            return;
        }
        let mut text = text;
        if std::mem::take(&mut self.newline) {
            self.put("\n", sink);
        }
        if self.spec.is_padded
            && let Some(before) = text.strip_suffix('\n')
        {
            (text, self.newline) = (before, true);
        }
        self.put(text, sink);
    }

    fn put(&mut self, text: &str, sink: &mut Sink) {
        if self.kinds.other {
            self.value.push_str(text);
        } else {
            let mut out = String::new();
            escape(text, &mut out);
            sink.arguments(&out);
        }
    }

    /// The value is complete.
    fn end_value(&mut self, sink: &mut Sink) -> Result<(), String> {
        self.newline = false;
        if !self.kinds.other {
            sink.arguments("\"");
            return Ok(());
        }
        let text = std::mem::take(&mut self.value);
        let json = whole_value(&text).map_err(str::to_owned).or_else(|_| python(text.trim()));
        let json = match (json, self.kinds.string) {
            (Ok(json), true) if json.starts_with('"') => quoted(&text),
            (Ok(json), _) => json,
            (Err(_), true) => quoted(&text),
            (Err(reason), false) => {
                return Err(format!(
                    "the argument {:?} has to be a value of JSON: {reason}",
                    self.key.trim()
                ));
            }
        };
        sink.arguments(&json);
        Ok(())
    }

    fn begin_value(&mut self, which: usize, sink: &mut Sink) -> Result<(), String> {
        let key = self.key.trim().to_owned();
        self.arguments.key(&key, sink)?;
        self.kinds = match (self.spec.is_typed, which) {
            (true, 0) => Kinds { string: true, other: false },
            (true, _) => Kinds { string: false, other: true },
            (false, _) => sink.tool(self.name.trim()).map_or(Kinds::ANY, |tool| tool.kinds(&key)),
        };
        if !self.kinds.other {
            sink.arguments("\"");
        }
        Ok(())
    }

    fn end_call(&mut self, input: &Input<'_>, sink: &mut Sink) {
        self.arguments.close(sink);
        sink.end(input);
        self.n_done += 1;
        self.at = At::Call;
        self.name.clear();
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        let mut before = None;
        loop {
            // The rest may begin a mark, and waits for more.
            if before == Some((input.at(), self.at)) {
                return Ok(Step::More);
            }
            before = Some((input.at(), self.at));
            let is_between = matches!(self.at, At::Call | At::FirstKey | At::BeforeValue | At::ValueEnd);
            if is_between {
                let before = input.at();
                input.skip_space();
                if self.at == At::ValueEnd {
                    self.held.push_str(input.taken(before));
                }
            }
            if input.rest().is_empty() && self.at != At::ValueStart {
                return match input.is_last() {
                    true if self.at == At::Call && self.n_done > 0 => Ok(Step::Done),
                    true => Err(CUT.into()),
                    false => Ok(Step::More),
                };
            }
            match self.at {
                At::Call => {
                    let marks = [self.spec.call, self.spec.close];
                    match input.accept_any(if self.spec.call.is_empty() { &marks[1..] } else { &marks }) {
                        Err(()) => return Ok(Step::More),
                        Ok(Some(0)) if !self.spec.call.is_empty() => self.at = At::Name,
                        Ok(Some(_)) => {
                            sink.end(input);
                            return Ok(Step::Done);
                        }
                        Ok(None) if self.n_done > 0 => return Ok(Step::Done),
                        Ok(None) if self.spec.call.is_empty() => self.at = At::Name,
                        Ok(None) => return Err(format!("{:?} is missing", self.spec.call)),
                    }
                }
                At::Name => {
                    if let Some(which) = take_name(input, &mut self.name, self.spec.name_end, "name")? {
                        if self.name.trim().is_empty() && self.spec.name_end[which].trim().is_empty() {
                            continue;
                        }
                        sink.begin(self.name.trim(), None)?;
                        self.at = At::FirstKey;
                        if !self.spec.name_rest.is_empty() {
                            (self.at, self.n_rest) = (At::NameRest, 0);
                            continue;
                        }
                        // The end of the name may also begin the first argument, or end the call.
                        let mark = self.spec.name_end[which];
                        if mark == self.spec.key {
                            self.key.clear();
                            self.at = At::Key;
                        } else if mark == self.spec.close {
                            self.end_call(input, sink);
                            return Ok(Step::Done);
                        }
                    }
                }
                At::NameRest => {
                    let (text, hit) = input.until(&[self.spec.name_rest]);
                    self.n_rest += text.len();
                    if self.n_rest > MOST_NAME {
                        return Err(format!("{:?} is missing after the name", self.spec.name_rest));
                    }
                    if hit.is_some() {
                        self.at = At::FirstKey;
                    }
                }
                At::FirstKey => {
                    let end =
                        if self.spec.call_end.is_empty() { self.spec.close } else { self.spec.call_end };
                    match input.accept_any(&[self.spec.key, end]) {
                        Err(()) => return Ok(Step::More),
                        Ok(Some(0)) => {
                            self.key.clear();
                            self.at = At::Key;
                        }
                        Ok(Some(_)) => {
                            self.end_call(input, sink);
                            if self.spec.call_end.is_empty() || self.spec.close.is_empty() {
                                return Ok(Step::Done);
                            }
                        }
                        Ok(None) => return Err(format!("{:?} or {end:?} is missing", self.spec.key)),
                    }
                }
                At::Key => {
                    if let Some(which) =
                        take_name(input, &mut self.key, self.spec.key_end, "name of an argument")?
                    {
                        self.begin_value(which, sink)?;
                        self.at = if self.spec.value.is_empty() { At::ValueStart } else { At::BeforeValue };
                    }
                }
                At::BeforeValue => match input.accept_any(&[self.spec.value]) {
                    Err(()) => return Ok(Step::More),
                    Ok(Some(_)) => self.at = At::ValueStart,
                    Ok(None) => return Err(format!("{:?} is missing", self.spec.value)),
                },
                At::ValueStart => {
                    if self.spec.is_padded {
                        match input.accept_any(&["\r\n", "\n"]) {
                            Err(()) => return Ok(Step::More),
                            Ok(_) => self.at = At::Value,
                        }
                    } else if self.spec.has_cdata {
                        match input.accept_any(&[CDATA]) {
                            Err(()) => return Ok(Step::More),
                            Ok(Some(_)) => self.at = At::Wrapped,
                            Ok(None) => self.at = At::Value,
                        }
                    } else {
                        self.at = At::Value;
                    }
                }
                At::Value => {
                    let (text, hit) = input.until(&[self.spec.value_end]);
                    self.grow(text, sink);
                    if hit.is_some() {
                        self.spec.value_end.clone_into(&mut self.held);
                        self.at = At::ValueEnd;
                    }
                }
                At::Wrapped => {
                    let (text, hit) = input.until(&[CDATA_END]);
                    self.put(text, sink);
                    self.at = if hit.is_some() { At::WrappedEnd } else { At::Wrapped };
                }
                At::WrappedEnd => match input.accept_any(&[self.spec.value_end]) {
                    Err(()) => return Ok(Step::More),
                    Ok(None) => {
                        self.put(CDATA_END, sink);
                        self.at = At::Wrapped;
                    }
                    Ok(Some(_)) => {
                        // A wrapped value is a string, if it may be one, whatever its form.
                        if self.kinds == Kinds::ANY {
                            sink.arguments(&quoted(&std::mem::take(&mut self.value)));
                        } else {
                            self.end_value(sink)?;
                        }
                        self.at = At::FirstKey;
                    }
                },
                At::ValueEnd => {
                    // The mark ends the value only where the call can continue: values may contain the mark itself.
                    let spec = self.spec;
                    let ends = [spec.key, spec.call_end, spec.close];
                    let ahead = input.rest();
                    let is_end = ends.iter().any(|e| !e.is_empty() && ahead.starts_with(e));
                    let may_be = !input.is_last() && ends.iter().any(|e| e.starts_with(ahead));
                    if is_end {
                        self.held.clear();
                        self.end_value(sink)?;
                        self.at = At::FirstKey;
                        // A call's own end may be omitted before that of all calls.
                        let is_mine = |end: &str| !end.is_empty() && ahead.starts_with(end);
                        if !spec.call_end.is_empty() && !is_mine(spec.call_end) && is_mine(spec.close) {
                            input.take(spec.close.len());
                            self.end_call(input, sink);
                            return Ok(Step::Done);
                        }
                    } else if may_be {
                        return Ok(Step::More);
                    } else {
                        let held = std::mem::take(&mut self.held);
                        self.grow(&held, sink);
                        self.at = At::Value;
                    }
                }
            }
        }
    }
}

impl Reader for TaggedReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            Err(reason) => Step::Broken(Some(self.name.trim().to_owned()).filter(|n| !n.is_empty()), reason),
        }
    }
}
