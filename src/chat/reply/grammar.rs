//! Grammars for calls, in llguidance's dialect of Lark: what a model may write so that its calls can be read, and their
//! arguments follow the schemas of the tools.
#![forbid(unsafe_code)]

use super::format::ReplyFormat;
use super::tools::{Parameter, Tool, ToolChoice, Tools};
use super::walk::quoted;
use crate::error::{Error, Result};

/// What constrains calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGrammar {
    /// The grammar begins behind the first of these in the answer. None: it begins with the answer, behind a thought.
    pub triggers: Vec<String>,
    /// The grammar, in Lark.
    pub lark: String,
}

/// How much white space there may be between two parts of arguments: what `llguidance` takes from a schema.
const WHITE_SPACE: &str =
    r#""x-guidance": {"whitespace_flexible": true, "whitespace_pattern": "[\\x20\\x0A]{1,8}"}"#;

/// How the calls of a form are written. `~` in a mark is a line break that may be left away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// JSON objects: what is before and behind them, whether they are a list, and the key of the arguments.
    Objects { open: &'static str, close: &'static str, is_list: bool, arguments: &'static str },
    /// A name and JSON: what is before the name, between them, and behind.
    Named { open: &'static str, between: &'static str, close: &'static str },
    /// Arguments one by one.
    Tagged(Tags),
    /// No grammar is known.
    Unknown,
}

/// How arguments that stand one by one are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags {
    /// Before and behind a section of calls.
    pub open: &'static str,
    pub close: &'static str,
    /// Between two calls of a section; `None`: each call is a section.
    pub calls: Option<&'static str>,
    /// Before a call, behind its name, behind the call.
    pub before: &'static str,
    pub named: &'static str,
    pub behind: &'static str,
    /// Before a key, between key and value, behind a value.
    pub key: &'static str,
    pub value: &'static str,
    pub end: &'static str,
    /// Between two arguments.
    pub comma: &'static str,
    pub strings: Strings,
}

/// How a string is written as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// As it is, up to what is behind the value.
    Raw,
    /// As JSON writes it.
    Json,
}

/// The id of the token that a text is, if it is a control token, which no other tokens can spell.
pub type ControlToken<'t> = &'t dyn Fn(&str) -> Option<u32>;

impl ReplyFormat {
    /// The grammar of calls of these tools. `Ok(None)`: nothing is to be constrained, since no call has to be made, and none
    /// can be told from an answer by its beginning.
    ///
    /// # Errors
    /// `InvalidArgument` when a call has to be made and there is no tool, or none of the name; `Unsupported` when no grammar
    /// is known for the template's form of calls.
    pub fn tool_grammar(
        &self,
        tools: &Tools,
        choice: &ToolChoice,
        parallel: bool,
        token: ControlToken<'_>,
    ) -> Result<Option<ToolGrammar>> {
        let is_lazy = *choice == ToolChoice::Auto;
        if *choice == ToolChoice::None || is_lazy && tools.is_empty() {
            return Ok(None);
        }
        let allowed: Vec<&Tool> = match choice {
            ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
            _ => tools.iter().collect(),
        };
        if allowed.is_empty() {
            return Err(Error::InvalidArgument(match choice {
                ToolChoice::Named(name) => format!("tool_choice names {name:?}, which is none of the tools"),
                _ => "tool_choice asks for a call, and there are no tools".into(),
            }));
        }
        let calls = self.calls().filter(|calls| !matches!(calls.shape, Shape::Unknown)).ok_or_else(|| {
            Error::Unsupported(format!(
                "no grammar is known for calls of the form {}",
                self.name().unwrap_or("of this chat template")
            ))
        })?;
        if is_lazy && calls.is_bare {
            return Ok(None);
        }
        let mut lark = Lark { rules: Vec::new(), token };
        let trigger = is_lazy.then(|| calls.trigger());
        let start = lark.calls(&calls.shape, &allowed, parallel, trigger);
        let text = lark
            .rules
            .iter()
            .fold(format!("start: {start}\n"), |text, (name, rule)| format!("{text}{name}: {rule}\n"));
        Ok(Some(ToolGrammar { triggers: trigger.map(str::to_owned).into_iter().collect(), lark: text }))
    }
}

/// A text as a string of Lark.
fn literal(text: &str) -> String {
    if text.is_empty() { String::new() } else { quoted(text) }
}

/// What stands one behind the other.
fn row<const N: usize>(parts: [String; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

struct Lark<'t> {
    rules: Vec<(String, String)>,
    token: ControlToken<'t>,
}

impl Lark<'_> {
    fn rule(&mut self, name: String, body: String) -> String {
        self.rules.push((name.clone(), body));
        name
    }

    /// A text of the format: control tokens by their ids, the rest as strings.
    fn mark(&self, text: &str) -> String {
        let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let rest = &text[at..];
            let end = match rest.as_bytes()[0] {
                b'<' => rest.find('>'),
                b'[' => rest.find(']'),
                b'~' => Some(0),
                _ => None,
            };
            let found = end.map(|end| &rest[..=end]).and_then(|mark| match mark {
                "~" => Some((1, "/\\n?/".to_owned())),
                mark => (self.token)(mark).map(|id| (mark.len(), format!("<[{id}]>"))),
            });
            match found {
                Some((n, symbol)) => {
                    out.extend([literal(&text[from..at]), symbol]);
                    (at, from) = (at + n, at + n);
                }
                None => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        out.push(literal(&text[from..]));
        out.retain(|part| !part.is_empty());
        out.join(" ")
    }

    /// All calls. `trigger` stands before the grammar, which then begins with what follows it.
    fn calls(&mut self, shape: &Shape, tools: &[&Tool], parallel: bool, trigger: Option<&str>) -> String {
        let names: Vec<String> =
            tools.iter().enumerate().map(|(i, tool)| self.call(shape, tool, i)).collect();
        let call = self.rule("call".into(), names.join(" | "));
        let (open, close, between) = match *shape {
            Shape::Objects { open, close, is_list, .. } => {
                (open, close, is_list.then(|| "\", \"".to_owned()))
            }
            Shape::Named { open, close, .. } => (open, close, None),
            Shape::Tagged(tags) => (tags.open, tags.close, tags.calls.map(|calls| self.mark(calls))),
            Shape::Unknown => ("", "", None),
        };
        let behind_trigger = trigger.map_or(open, |trigger| open.strip_prefix(trigger).unwrap_or(open));
        let (open, close, begin) = (self.mark(open), self.mark(close), self.mark(behind_trigger));
        match between {
            Some(between) if parallel => row([begin, call.clone(), format!("({between} {call})*"), close]),
            Some(_) => row([begin, call, close]),
            None => {
                let rest = self.rule("rest".into(), row([call, close]));
                let more = if parallel { format!("(/\\s{{0,8}}/ {open} {rest})*") } else { String::new() };
                row([begin, rest, more])
            }
        }
    }

    fn call(&mut self, shape: &Shape, tool: &Tool, i: usize) -> String {
        let body = match *shape {
            Shape::Objects { arguments, .. } => {
                let head = format!("{{\"name\": {}, \"{arguments}\": ", quoted(&tool.name));
                row([literal(&head), self.json(format!("arguments_{i}"), &tool.schema), literal("}")])
            }
            Shape::Named { between, .. } => {
                let name = literal(&tool.name);
                row([name, self.mark(between), self.json(format!("arguments_{i}"), &tool.schema)])
            }
            Shape::Tagged(tags) => {
                let arguments = self.arguments(&tags, tool, i);
                row([
                    self.mark(tags.before),
                    literal(&tool.name),
                    self.mark(tags.named),
                    arguments,
                    self.mark(tags.behind),
                ])
            }
            Shape::Unknown => String::new(),
        };
        self.rule(format!("call_{i}"), body)
    }

    fn json(&mut self, name: String, schema: &str) -> String {
        let empty = "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}";
        let schema = if schema.trim() == "{}" { empty } else { schema };
        // Without a bound a model may write white space to the end of its days.
        let Some(inner) = schema.trim().strip_prefix('{') else {
            return self.rule(name, format!("%json {schema}"));
        };
        let comma = if inner.trim_start().starts_with('}') { "" } else { ", " };
        self.rule(name, format!("%json {{{WHITE_SPACE}{comma}{inner}"))
    }

    /// The arguments of a tool in the schema's order: those that it requires, and any of the others.
    fn arguments(&mut self, tags: &Tags, tool: &Tool, i: usize) -> String {
        let all = tool.parameters.iter().enumerate();
        let names: Vec<(String, bool)> =
            all.map(|(j, p)| (self.argument(tags, p, format!("{i}_{j}")), p.required)).collect();
        let maybe = |name: &str, required: bool| if required { name.to_owned() } else { format!("{name}?") };
        if tags.comma.is_empty() {
            return names.iter().map(|(name, required)| maybe(name, *required)).collect::<Vec<_>>().join(" ");
        }
        // With commas between them: each may be the first, up to one that is required.
        let comma = self.mark(tags.comma);
        let mut firsts = Vec::new();
        for (j, (name, required)) in names.iter().enumerate() {
            let more =
                names[j + 1..].iter().map(|(name, required)| maybe(&format!("({comma} {name})"), *required));
            firsts.push([vec![name.clone()], more.collect()].concat().join(" "));
            if *required {
                return self.rule(format!("list_{i}"), firsts.join(" | "));
            }
        }
        if firsts.is_empty() {
            String::new()
        } else {
            format!("{}?", self.rule(format!("list_{i}"), firsts.join(" | ")))
        }
    }

    fn argument(&mut self, tags: &Tags, parameter: &Parameter, at: String) -> String {
        let head = row([self.mark(tags.key), literal(&parameter.name), self.mark(tags.value)]);
        let is_text = tags.strings == Strings::Raw && parameter.kinds.string && !parameter.kinds.other;
        let value = if is_text {
            match parameter.choices() {
                // Of a text that is not JSON the schema is followed in so far as it says which texts there are.
                Some(texts) => {
                    let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                    row([format!("({})", texts.join(" | ")), self.mark(tags.end)])
                }
                None => {
                    let end = tags.end.trim_end_matches('~');
                    let name = format!("text_{at}");
                    self.rules.push((format!("{name}[suffix={}]", quoted(end)), "/(.|\\n)*/".into()));
                    row([name, self.mark(&tags.end[end.len()..])])
                }
            }
        } else {
            row([self.json(format!("value_{at}"), &parameter.schema), self.mark(tags.end)])
        };
        self.rule(format!("argument_{at}"), row([head, value]))
    }
}
