//! Rules of a grammar in llguidance's dialect of Lark.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::ops::Range;

use serde_json::Value;

use super::walk::quoted;
use crate::error::{Error, Result};

/// A control token in a text, which no other tokens can spell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Its place in the text.
    pub at: Range<usize>,
    /// Its id.
    pub id: u32,
    /// Whether it ends a reply, so that nothing follows it.
    pub is_end: bool,
}

/// The inputs of a grammar: a vocabulary, and the checks of JSON schemas.
#[derive(Clone, Copy)]
pub struct GrammarParts<'p> {
    /// The control tokens in a text.
    pub controls: &'p dyn Fn(&str) -> Vec<Control>,
    /// A JSON schema, in the form that `%json` takes.
    pub schema: &'p dyn Fn(&str) -> Result<Value>,
    /// The expression of the texts of a format of JSON Schema.
    pub expression: &'p dyn Fn(&str) -> Option<String>,
}

/// Any text.
pub(super) const ANY: &str = "(?s:.)*";

/// The rules so far.
pub(super) struct Lark<'p> {
    pub parts: &'p GrammarParts<'p>,
    rules: String,
    n: usize,
}

impl<'p> Lark<'p> {
    pub(super) fn new(parts: &'p GrammarParts<'p>) -> Lark<'p> {
        Lark { parts, rules: String::new(), n: 0 }
    }

    /// The whole grammar; `start` is the rule of a text.
    pub(super) fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.rules)
    }

    /// A number that no other rule has.
    pub(super) fn number(&mut self) -> usize {
        self.n += 1;
        self.n - 1
    }

    /// Adds a rule and gives its name.
    pub(super) fn rule(&mut self, name: impl Into<String>, body: &str) -> String {
        let name = name.into();
        let _ = writeln!(self.rules, "{name}: {}", if body.is_empty() { "\"\"" } else { body });
        name
    }

    /// A text of the form: control tokens by their ids, the rest as strings. A token that ends a reply is left out.
    pub(super) fn mark(&self, text: &str) -> String {
        let mut out = Vec::new();
        let mut from = 0;
        let symbols = text.char_indices().filter(|(_, c)| matches!(c, '~' | '␣' | '№'));
        for (at, c) in symbols.chain([(text.len(), '\0')]) {
            self.plain(&text[from..at], &mut out);
            from = (at + c.len_utf8()).min(text.len());
            match c {
                '~' => out.push("/\\n?/".to_owned()),
                '␣' => out.push("/[ \\n]{0,8}/".to_owned()),
                '№' => out.push("/[0-9]{1,4}/".to_owned()),
                _ => {}
            }
        }
        out.retain(|part| !part.is_empty());
        out.join(" ")
    }

    fn plain(&self, text: &str, out: &mut Vec<String>) {
        let mut from = 0;
        for control in (self.parts.controls)(text) {
            out.push(literal(&text[from..control.at.start]));
            from = control.at.end;
            if !control.is_end {
                out.push(format!("<[{}]>", control.id));
            }
        }
        out.push(literal(&text[from..]));
    }

    /// Whether a text has control tokens.
    pub(super) fn has_controls(&self, text: &str) -> bool {
        !(self.parts.controls)(text).is_empty()
    }

    /// A rule for JSON of a schema that is ready for it.
    pub(super) fn json(&mut self, name: String, schema: &Value) -> String {
        self.rule(name, &format!("%json {schema}"))
    }

    /// A text that matches all of `atoms`, up to `end` where one of `follows` stands after it; and `end`.
    pub(super) fn text(&mut self, atoms: &[String], end: &str, follows: &[&str]) -> String {
        let mark = end.trim_matches(['~', '\n', ' ']);
        let mut beyond = escaped(mark);
        if !follows.is_empty() {
            let follows: Vec<String> = follows.iter().map(|text| escaped(text)).collect();
            let _ = write!(beyond, "\\s*({})", follows.join("|"));
        }
        let n = self.number();
        // The exclusions in `atoms` do not ensure that a text is UTF-8.
        let mut all = vec![regex(ANY)];
        all.extend_from_slice(atoms);
        all.push(format!("~{}", regex(&format!("{ANY}{beyond}{ANY}"))));
        let token = self.rule(format!("TEXT_{n}"), &all.join(" & "));
        if let [control, ..] = &(self.parts.controls)(end)[..] {
            // A control token ends any text, together with the text before the token.
            let (before, rest) = end.split_at(control.at.start);
            let whole = match before.is_empty() {
                true => token,
                false => self.rule(format!("WHOLE_{n}"), &row([token, literal(before)])),
            };
            return row([whole, self.mark(rest)]);
        }
        let fixed = end.trim_end_matches('~');
        let name = format!("text_{n}");
        let _ = writeln!(self.rules, "{name}[suffix={}]: {token}", quoted(fixed));
        row([name, self.mark(&end[fixed.len()..])])
    }

    /// A list with `comma` between its items: the required ones, and any of the others, in this order.
    pub(super) fn list(&mut self, names: &[(String, bool)], comma: &str) -> String {
        let maybe = |name: &str, required: bool| if required { name.to_owned() } else { format!("{name}?") };
        if comma.is_empty() {
            return names.iter().map(|(name, required)| maybe(name, *required)).collect::<Vec<_>>().join(" ");
        }
        // Each may be the first, up to a required one.
        let n = self.number();
        let mut firsts = Vec::new();
        // What may follow one of them: a rule for each, so that the grammar grows linearly.
        let mut more = String::new();
        for (i, (name, required)) in names.iter().enumerate().rev() {
            firsts.push(row([name.clone(), more.clone()]));
            let here = maybe(&format!("({comma} {name})"), *required);
            more = self.rule(format!("more_{n}_{i}"), &row([here, more]));
        }
        firsts.reverse();
        let n_firsts = names.iter().position(|(_, required)| *required).map_or(names.len(), |i| i + 1);
        let has_required = names.iter().any(|(_, required)| *required);
        firsts.truncate(n_firsts);
        if firsts.is_empty() {
            return String::new();
        }
        let list = self.rule(format!("list_{n}"), &firsts.join(" | "));
        if has_required { list } else { format!("{list}?") }
    }
}

/// A text as a string of Lark.
pub(super) fn literal(text: &str) -> String {
    if text.is_empty() { String::new() } else { quoted(text) }
}

/// Parts one after another.
pub(super) fn row<const N: usize>(parts: [String; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// An expression between slashes.
pub(super) fn regex(expression: &str) -> String {
    let mut out = String::from("/");
    let mut is_escaped = false;
    for c in expression.chars() {
        match c {
            '/' if !is_escaped => out.push_str("\\/"),
            '\n' if is_escaped => out.push('n'),
            '\n' => out.push_str("\\n"),
            '\r' if is_escaped => out.push('r'),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    out.push('/');
    out
}

/// A text as an expression that matches it alone.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            c if c.is_ascii_punctuation() && c != '<' && c != '>' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// `Unsupported`, for the keyword of a schema.
pub(super) fn unsupported(what: &str, keyword: &str) -> Error {
    Error::Unsupported(format!(
        "{what} has \"{keyword}\", which calls of this chat template's form cannot be held to"
    ))
}
