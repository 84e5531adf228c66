//! Values as text: as Python's `str` and `repr` write them, and as JSON the way Python's `json.dumps` does.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt::Write as _;

use super::fault::{Budget, Res, fail};
use super::value::{Shape, Value, View};

/// The text that a template prints for `value`.
pub(crate) fn str(value: &Value, budget: &mut Budget) -> Res<String> {
    let mut out = String::new();
    push_str(&mut out, value, budget)?;
    Ok(out)
}

/// Appends the text that a template prints for `value`.
pub(crate) fn push_str(out: &mut String, value: &Value, budget: &mut Budget) -> Res<()> {
    match value {
        Value::Undefined(_) => Ok(()),
        Value::Str(text) => budget.push(out, text),
        _ => push_repr(out, value, budget),
    }
}

/// `value` as Python's `repr`: strings in quotes.
pub(super) fn repr(value: &Value, budget: &mut Budget) -> Res<String> {
    let mut out = String::new();
    push_repr(&mut out, value, budget)?;
    Ok(out)
}

fn push_repr(out: &mut String, value: &Value, budget: &mut Budget) -> Res<()> {
    budget.steps(1)?;
    match value {
        Value::Undefined(_) => budget.push(out, "Undefined"),
        Value::None => budget.push(out, "None"),
        Value::Bool(b) => budget.push(out, if *b { "True" } else { "False" }),
        Value::Int(n) => budget.push(out, &n.to_string()),
        Value::Float(x) => budget.push(out, &float(*x)),
        Value::Str(text) => push_quoted(out, text, budget),
        Value::List(list) if matches!(list.shape, Shape::Range(_)) => budget.push(out, &range(&list.shape)),
        Value::List(list) | Value::Tuple(list) => {
            let is_list = matches!(value, Value::List(_));
            let view = match list.shape {
                Shape::View(View::Keys) => "dict_keys",
                Shape::View(View::Values) => "dict_values",
                Shape::View(View::Items) => "dict_items",
                _ => "",
            };
            budget.push(out, view)?;
            budget.push(out, if view.is_empty() { "" } else { "(" })?;
            budget.push(out, if is_list { "[" } else { "(" })?;
            for (i, item) in list.items.iter().enumerate() {
                budget.push(out, if i > 0 { ", " } else { "" })?;
                push_repr(out, item, budget)?;
            }
            let end = if !view.is_empty() {
                "])"
            } else if is_list {
                "]"
            } else if list.items.len() == 1 {
                ",)"
            } else {
                ")"
            };
            budget.push(out, end)
        }
        Value::Dict(dict) => {
            budget.push(out, "{")?;
            for (i, (key, value)) in dict.entries().iter().enumerate() {
                budget.push(out, if i > 0 { ", " } else { "" })?;
                push_repr(out, key, budget)?;
                budget.push(out, ": ")?;
                push_repr(out, value, budget)?;
            }
            budget.push(out, "}")
        }
        other => fail(format!("{} cannot be printed", other.type_name())),
    }
}

/// A range as in Python's `repr`.
#[inline(never)]
fn range(shape: &Shape) -> String {
    match shape {
        Shape::Range(bounds) => match &**bounds {
            [start, stop, 1] => format!("range({start}, {stop})"),
            [start, stop, step] => format!("range({start}, {stop}, {step})"),
        },
        _ => String::new(),
    }
}

/// `value` as in [`repr`], with characters beyond ASCII as codes.
pub(super) fn ascii(value: &Value, budget: &mut Budget) -> Res<String> {
    let shown = repr(value, budget)?;
    budget.bytes(shown.len().saturating_mul(5))?;
    let mut out = String::with_capacity(shown.len());
    for c in shown.chars() {
        if c.is_ascii() { out.push(c) } else { push_code(&mut out, c) }
    }
    Ok(out)
}

/// A character by its code, as Python writes it in a string.
fn push_code(out: &mut String, c: char) {
    // Writing to a string cannot fail.
    let _ = match c as u32 {
        code @ ..=0xff => write!(out, "\\x{code:02x}"),
        code @ ..=0xffff => write!(out, "\\u{code:04x}"),
        code => write!(out, "\\U{code:08x}"),
    };
}

/// A string in quotes, as Python writes it.
fn push_quoted(out: &mut String, text: &str, budget: &mut Budget) -> Res<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    budget.bytes(text.len().saturating_mul(4) + 2)?;
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => push_code(out, c),
        }
    }
    out.push(quote);
    Ok(())
}

/// Whether Python prints a character as it is: no control characters, no spaces except the usual one, no formatting or private
/// characters.
pub(super) fn is_printable(c: char) -> bool {
    let unseen = matches!(c as u32, 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xe0000..);
    !(c.is_control() || (c.is_whitespace() && c != ' ') || unseen)
}

/// A float as Python writes it: the shortest digits that give it back, with an exponent when it is below 10⁻⁴ or has more than 16
/// digits before the point.
pub(crate) fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(e) if x != 0.0 && !(-4..16).contains(&e) => {
            format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
        }
        _ => format!("{x:?}"),
    }
}

/// The layout of JSON.
pub(crate) struct JsonStyle {
    /// Write characters beyond ASCII as `\u` and four digits.
    pub(crate) ensure_ascii: bool,
    /// The indentation of a level of nesting; `None`: all in one line.
    pub(crate) indent: Option<String>,
    pub(crate) item_separator: String,
    pub(crate) key_separator: String,
    pub(crate) sort_keys: bool,
}

/// `value` as JSON.
pub(crate) fn json(value: &Value, style: &JsonStyle, budget: &mut Budget) -> Res<String> {
    let mut writer = Json { out: String::new(), style, level: 0 };
    writer.value(value, budget)?;
    Ok(writer.out)
}

struct Json<'a> {
    out: String,
    style: &'a JsonStyle,
    level: usize,
}

impl Json<'_> {
    fn value(&mut self, value: &Value, budget: &mut Budget) -> Res<()> {
        budget.steps(1)?;
        match value {
            Value::None => budget.push(&mut self.out, "null"),
            Value::Bool(b) => budget.push(&mut self.out, if *b { "true" } else { "false" }),
            Value::Int(n) => budget.push(&mut self.out, &n.to_string()),
            Value::Float(x) => budget.push(&mut self.out, &json_float(*x)),
            Value::Str(text) => self.string(text, budget),
            Value::List(list) | Value::Tuple(list) if value.is_plain() => {
                self.open("[", budget)?;
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(i, budget)?;
                    self.value(item, budget)?;
                }
                self.close(list.items.is_empty(), "]", budget)
            }
            Value::Dict(dict) => {
                budget.bytes(
                    dict.entries().len().saturating_mul(std::mem::size_of::<(Cow<'_, str>, &Value)>()),
                )?;
                let mut entries: Vec<(Cow<'_, str>, &Value)> = Vec::with_capacity(dict.entries().len());
                for (key, value) in dict.entries() {
                    budget.steps(1)?;
                    entries.push((key_text(key)?, value));
                }
                if self.style.sort_keys {
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.open("{", budget)?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    self.separate(i, budget)?;
                    self.string(key, budget)?;
                    budget.push(&mut self.out, &self.style.key_separator)?;
                    self.value(value, budget)?;
                }
                self.close(entries.is_empty(), "}", budget)
            }
            Value::Undefined(_) => Err(value.undefined_error()),
            other => fail(format!("{} cannot be written as JSON", other.type_name())),
        }
    }

    fn open(&mut self, bracket: &str, budget: &mut Budget) -> Res<()> {
        self.level += 1;
        budget.push(&mut self.out, bracket)
    }

    fn separate(&mut self, index: usize, budget: &mut Budget) -> Res<()> {
        if index > 0 {
            budget.push(&mut self.out, &self.style.item_separator)?;
        }
        self.new_line(budget)
    }

    fn close(&mut self, is_empty: bool, bracket: &str, budget: &mut Budget) -> Res<()> {
        self.level -= 1;
        if !is_empty {
            self.new_line(budget)?;
        }
        budget.push(&mut self.out, bracket)
    }

    fn new_line(&mut self, budget: &mut Budget) -> Res<()> {
        if let Some(indent) = &self.style.indent {
            budget.push(&mut self.out, "\n")?;
            for _ in 0..self.level {
                budget.push(&mut self.out, indent)?;
            }
        }
        Ok(())
    }

    fn string(&mut self, text: &str, budget: &mut Budget) -> Res<()> {
        budget.bytes(text.len() + 2)?;
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.style.ensure_ascii && !c.is_ascii()) => {
                    budget.bytes(12)?;
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => {
                    self.out.push(c);
                    continue;
                }
            }
            budget.bytes(1)?;
        }
        self.out.push('"');
        Ok(())
    }
}

fn json_float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    float(x)
}

/// A key, which JSON needs as a string.
fn key_text(key: &Value) -> Res<Cow<'_, str>> {
    Ok(match key {
        Value::Str(text) => Cow::Borrowed(&**text),
        Value::None => "null".into(),
        Value::Bool(b) => if *b { "true" } else { "false" }.into(),
        Value::Int(n) => n.to_string().into(),
        Value::Float(x) => json_float(*x).into(),
        other => return fail(format!("{} cannot be a key in JSON", other.type_name())),
    })
}
