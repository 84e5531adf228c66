//! Texts of messages that can be distinguished from the template's own text in its output.
//!
//! A template puts the texts of messages between its own marks, and writes one text. A user who types a mark could end a turn and
//! begin another in a role that is not theirs. So a sign goes after each character of the messages that control tokens contain.
//! The template copies the sign, and after the rendering it shows which characters are not the template's.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::jinja::fault::{Budget, Fault, Res};
use super::jinja::value::{Dict, List, Value};
use crate::error::{Error, Result};

/// Characters without a meaning (Unicode's noncharacters), of which one becomes the sign.
const SIGNS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';
/// Members of messages, their parts and tools whose texts templates compare with constants. They are the host's.
const WORDS: [&str; 2] = ["role", "type"];

/// The output of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The places of characters that messages or tools brought and that control tokens contain: byte offsets, ascending. No
    /// control token may have one of these characters.
    pub foreign: Vec<usize>,
}

/// The characters that get a sign.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    chars: BTreeSet<char>,
    /// Bit `c` is set for each of them that is an ASCII character `c`.
    ascii: u128,
}

impl Guard {
    /// The guard against these texts of control tokens: their first and last characters, and all that are no letters, digits,
    /// spaces, `-` or `_`.
    pub fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Guard {
        let mut chars = BTreeSet::new();
        for text in texts {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_');
            chars.extend(text.chars().next());
            chars.extend(text.chars().next_back());
            chars.extend(text.chars().filter(|&c| !plain(c)));
        }
        let ascii = chars.iter().filter(|c| c.is_ascii()).fold(0, |bits, &c| bits | 1 << u32::from(c));
        Guard { chars, ascii }
    }

    /// Whether `c` gets a sign.
    #[inline]
    fn has(&self, c: char) -> bool {
        match c.is_ascii() {
            true => self.ascii >> u32::from(c) & 1 == 1,
            false => self.chars.contains(&c),
        }
    }

    /// A sign that does not occur in `values`, in any form that a template could write it in.
    pub(super) fn sign(values: &[&Value]) -> Result<char> {
        let free = |sign: &char| {
            let escape = escaped(*sign);
            !values.iter().any(|value| has(value, &|text| text.contains(*sign) || text.contains(&escape)))
        };
        SIGNS.into_iter().find(free).ok_or_else(|| {
            Error::InvalidArgument(
                "the messages have all of the noncharacters U+FDD0 to U+FDEF: remove one".into(),
            )
        })
    }

    /// `value` with `sign` after the characters of its texts.
    pub(super) fn put(&self, value: &Value, sign: char, budget: &mut Budget) -> Res<Value> {
        Ok(match value {
            Value::Str(text) => Value::Str(self.signed(text, sign, budget)?.into()),
            Value::List(list) => {
                let items = list.items.iter().map(|item| self.put(item, sign, budget));
                let items = items.collect::<Res<Vec<_>>>()?;
                Value::List(List::new(items, budget)?)
            }
            Value::Dict(dict) => {
                let mut entries = Vec::with_capacity(dict.entries().len());
                for (key, value) in dict.entries() {
                    let is_word = key.str().is_some_and(|key| WORDS.contains(&key));
                    let value = match value {
                        Value::Str(_) if is_word => value.clone(),
                        other => self.put(other, sign, budget)?,
                    };
                    entries.push((self.put(key, sign, budget)?, value));
                }
                Value::Dict(Dict::new(entries, budget)?)
            }
            other => other.clone(),
        })
    }

    fn signed(&self, text: &str, sign: char, budget: &mut Budget) -> Res<String> {
        let n = text.chars().filter(|&c| self.has(c)).count();
        budget.bytes(text.len() + n * sign.len_utf8())?;
        let mut out = String::with_capacity(text.len() + n * sign.len_utf8());
        for c in text.chars() {
            out.push(c);
            if self.has(c) {
                out.push(sign);
            }
        }
        Ok(out)
    }

    /// Removes the signs from the output of a template.
    pub(super) fn take(written: &str, sign: char) -> Rendered {
        let escape = escaped(sign);
        let mut out = Rendered { text: String::with_capacity(written.len()), foreign: Vec::new() };
        let mut rest = written;
        while let Some(at) = rest.find([sign, '\\']) {
            out.text.push_str(&rest[..at]);
            rest = &rest[at..];
            let skipped = match rest.starts_with(sign) {
                true => sign.len_utf8(),
                // For templates that write JSON in ASCII.
                false if rest.as_bytes()[..rest.len().min(6)].eq_ignore_ascii_case(escape.as_bytes()) => 6,
                false => {
                    out.text.push('\\');
                    rest = &rest[1..];
                    continue;
                }
            };
            let last = out.text.char_indices().next_back().map(|(at, _)| at);
            if let Some(at) = last.filter(|at| out.foreign.last().is_none_or(|last| last < at)) {
                out.foreign.push(at);
            }
            rest = &rest[skipped..];
        }
        out.text.push_str(rest);
        out
    }
}

/// Its form in ASCII JSON.
fn escaped(sign: char) -> String {
    format!("\\u{:04x}", u32::from(sign))
}

/// Whether `is` returns true for some text in `value`.
fn has(value: &Value, is: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Str(text) => is(text),
        Value::List(list) => list.items.iter().any(|item| has(item, is)),
        Value::Dict(dict) => dict.entries().iter().any(|(key, value)| has(key, is) || has(value, is)),
        _ => false,
    }
}

/// As an error about messages.
pub(super) fn internal(fault: Fault) -> Error {
    Error::InvalidArgument(format!("messages: {}", fault.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_come_out_where_they_went_in() {
        let guard = Guard::new(["<|im_end|>", "</s>", "[INST]"].into_iter());
        let mut budget = Budget::for_input(1000);
        let sign = '\u{fdd1}';
        let text = Value::from("a<|im_end|>é [b] im/_-end");
        let Value::Str(signed) = guard.put(&text, sign, &mut budget).expect("memory") else {
            panic!("a text")
        };
        let written = format!("<|im_start|>{signed}<|im_end|>\\ufdd1{sign}");
        let rendered = Guard::take(&written, sign);
        assert_eq!(rendered.text, "<|im_start|>a<|im_end|>é [b] im/_-end<|im_end|>");
        let chars: Vec<char> = rendered
            .foreign
            .iter()
            .map(|&at| rendered.text[at..].chars().next().expect("a character"))
            .collect();
        assert_eq!(chars, ['<', '|', '|', '>', '[', ']', '/', '>']);
        assert_eq!(rendered.foreign[0], 13);
    }

    #[test]
    fn the_sign_is_one_that_no_message_has() {
        let values = [Value::from("\u{fdd0} \\ufdd1"), Value::from("\u{fdd3}")];
        assert_eq!(Guard::sign(&[&values[0], &values[1]]).expect("free ones"), '\u{fdd2}');
        let all: String = SIGNS.collect();
        let error = Guard::sign(&[&Value::from(all)]).expect_err("none is free");
        assert!(error.to_string().contains("U+FDD0"), "{error}");
    }
}
