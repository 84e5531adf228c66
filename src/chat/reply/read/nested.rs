//! Calls in MiniMax M3's form: every value between tags of its own, lists and objects too, and a mark before each tag.
//!
//! The text of a value does not show its type: the tool's schema decides, or else the text's form.
#![forbid(unsafe_code)]

use serde_json::Value;

use super::super::input::{Input, Next};
use super::super::schema::Root;
use super::super::sink::{MOST_NAME, Sink};
use super::super::walk::{MOST_NESTED, quoted, whole_value};
use super::literal::python;
use super::{Arguments, CUT, Reader, Step, take_name};

/// What a reader needs to know of the format.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Nested {
    /// Before every tag.
    pub mark: &'static str,
    /// The tag before a call's name, what ends the name, and the tag after the call; after the marks.
    pub call: &'static str,
    pub name_end: &'static str,
    pub call_end: &'static str,
    /// The tag after all calls.
    pub close: &'static str,
}

/// A value that is read.
#[derive(Debug, Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the mark of a call, or of the end of all.
    Call,
    /// After it.
    CallTag,
    Name,
    /// Before the mark of an argument, or of the call's end.
    Key,
    KeyTag,
    /// In a value, before the next mark.
    Text,
    /// After it, in a tag that closes or opens.
    Tag,
    Closing,
    Opening,
}

/// Reads nested tags.
#[derive(Debug)]
pub(in super::super) struct NestedReader {
    spec: Nested,
    at: At,
    name: String,
    tag: String,
    /// The open values, from the argument inwards.
    open: Vec<Node>,
    /// The schema of the call's arguments.
    schema: Option<Value>,
    arguments: Arguments,
    n_done: usize,
}

impl NestedReader {
    pub(in super::super) fn new(spec: Nested) -> NestedReader {
        NestedReader {
            spec,
            at: At::Call,
            name: String::new(),
            tag: String::new(),
            open: Vec::new(),
            schema: None,
            arguments: Arguments::default(),
            n_done: 0,
        }
    }

    /// Ends the innermost open value.
    fn close(&mut self, sink: &mut Sink) -> Result<(), String> {
        let Some(node) = self.open.pop() else { return Err("a tag closes that none opens".into()) };
        if node.name != self.tag {
            return Err(format!("the tag {:?} is closed by {:?}", node.name, self.tag));
        }
        self.at = At::Text;
        if let Some(parent) = self.open.last_mut() {
            parent.children.push(node);
            return Ok(());
        }
        self.at = At::Key;
        self.arguments.key(&node.name, sink)?;
        let root = self.schema.as_ref().map(|schema| Root { schema, what: "the tool" });
        let schema = self.schema.as_ref().and_then(|schema| member(schema, &node.name));
        let mut out = String::new();
        write(&node, root.as_ref(), schema, &mut out)
            .map_err(|e| format!("the argument {:?}: {e}", node.name))?;
        sink.arguments(&out);
        Ok(())
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        loop {
            if matches!(self.at, At::Call | At::Key) {
                input.skip_space();
            }
            if input.rest().is_empty() {
                return match input.is_last() {
                    true if self.at == At::Call && self.n_done > 0 => Ok(Step::Done),
                    true => Err(CUT.into()),
                    false => Ok(Step::More),
                };
            }
            match self.at {
                At::Call | At::Key => match input.accept(self.spec.mark) {
                    Next::More => return Ok(Step::More),
                    Next::Yes if self.at == At::Call => self.at = At::CallTag,
                    Next::Yes => self.at = At::KeyTag,
                    Next::No if self.at == At::Call && self.n_done > 0 => return Ok(Step::Done),
                    Next::No => return Err(format!("{:?} is missing", self.spec.mark)),
                },
                At::CallTag => match input.accept_any(&[self.spec.call, self.spec.close]) {
                    Err(()) => return Ok(Step::More),
                    Ok(Some(0)) => {
                        self.name.clear();
                        self.at = At::Name;
                    }
                    Ok(Some(_)) => {
                        sink.end(input);
                        return Ok(Step::Done);
                    }
                    Ok(None) => return Err(format!("{:?} is missing", self.spec.call)),
                },
                At::Name => {
                    if take_name(input, &mut self.name, &[self.spec.name_end], "name")?.is_none() {
                        return if input.rest().is_empty() { Ok(Step::More) } else { self.wait(input) };
                    }
                    sink.begin(self.name.trim(), None)?;
                    let tool = sink.tool(self.name.trim());
                    self.schema = tool.and_then(|tool| serde_json::from_str(&tool.schema).ok());
                    self.at = At::Key;
                }
                At::KeyTag
                    if !input.is_last()
                        && self.spec.call_end.starts_with(input.rest())
                        && input.rest() != self.spec.call_end =>
                {
                    return Ok(Step::More);
                }
                At::KeyTag => match input.accept_any(&[self.spec.call_end, "<"]) {
                    Err(()) => return Ok(Step::More),
                    Ok(Some(0)) => {
                        self.arguments.close(sink);
                        sink.end(input);
                        self.n_done += 1;
                        self.at = At::Call;
                    }
                    Ok(Some(_)) => {
                        self.tag.clear();
                        self.at = At::Opening;
                    }
                    Ok(None) => return Err(format!("{:?} or a tag is missing", self.spec.call_end)),
                },
                At::Text => {
                    let (text, hit) = input.until(&[self.spec.mark]);
                    if let Some(node) = self.open.last_mut() {
                        node.text.push_str(text);
                    }
                    match hit {
                        Some(_) => self.at = At::Tag,
                        None => return self.wait(input),
                    }
                }
                // An opening tag begins like a closing one.
                At::Tag if input.rest() == "<" && !input.is_last() => return Ok(Step::More),
                At::Tag => match input.accept_any(&["</", "<"]) {
                    Err(()) => return Ok(Step::More),
                    Ok(Some(which)) => {
                        self.tag.clear();
                        self.at = if which == 0 { At::Closing } else { At::Opening };
                    }
                    Ok(None) => return Err("no tag follows the mark of one".into()),
                },
                At::Closing | At::Opening => {
                    if take_name(input, &mut self.tag, &[">"], "name of a tag")?.is_none() {
                        return self.wait(input);
                    }
                    if self.at == At::Closing {
                        self.close(sink)?;
                        continue;
                    }
                    if self.open.len() > MOST_NESTED {
                        return Err("values are nested too deeply".into());
                    }
                    if self.tag.is_empty() || self.tag.len() > MOST_NAME {
                        return Err("an argument has no name".into());
                    }
                    self.open.push(Node { name: self.tag.clone(), ..Node::default() });
                    self.at = At::Text;
                }
            }
        }
    }

    /// More text is needed; the rest may begin a mark.
    fn wait(&self, input: &Input<'_>) -> Result<Step, String> {
        if input.is_last() { Err(CUT.into()) } else { Ok(Step::More) }
    }
}

impl Reader for NestedReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            Err(reason) => Step::Broken(Some(self.name.trim().to_owned()).filter(|n| !n.is_empty()), reason),
        }
    }
}

/// The type of a JSON text.
fn type_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'[') => "array",
        Some(b'{') => "object",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

fn member<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

/// Writes a value as JSON. Without a schema its form decides.
fn write(
    node: &Node,
    root: Option<&Root<'_>>,
    schema: Option<&Value>,
    out: &mut String,
) -> Result<(), String> {
    let schema = root.zip(schema).map(|(root, schema)| root.resolve(schema).unwrap_or(schema));
    let types = root.zip(schema).and_then(|(root, schema)| root.types(schema).ok());
    let may = |name: &str| types.is_none_or(|types| types.has(name));
    if node.children.is_empty() {
        let text = node.text.as_str();
        let is_empty = text.trim().is_empty();
        let json = match () {
            () if is_empty && !may("string") && may("array") => Ok("[]".to_owned()),
            () if is_empty && !may("string") && may("object") => Ok("{}".to_owned()),
            () => whole_value(text).map_err(str::to_owned).or_else(|_| python(text.trim())),
        };
        match json {
            Ok(json) if may(type_of(&json)) && !json.starts_with('"') => out.push_str(&json),
            _ if may("string") => out.push_str(&quoted(text)),
            Ok(json) => out.push_str(&json),
            Err(reason) => return Err(format!("{text:.40?} has to be a value of JSON: {reason}")),
        }
        return Ok(());
    }
    if !node.text.trim().is_empty() {
        return Err("text stands beside tags".into());
    }
    let is_list = may("array") && node.children.iter().all(|child| child.name == "item");
    out.push(if is_list { '[' } else { '{' });
    let mut seen = std::collections::HashSet::new();
    for (i, child) in node.children.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        let schema = match is_list {
            true => schema.and_then(|schema| schema.get("items")),
            false => schema.and_then(|schema| member(schema, &child.name)),
        };
        if !is_list {
            if !seen.insert(&child.name) {
                return Err(format!("{:?} comes twice", child.name));
            }
            out.push_str(&quoted(&child.name));
            out.push_str(": ");
        }
        write(child, root, schema, out)?;
    }
    out.push(if is_list { ']' } else { '}' });
    Ok(())
}
