//! Expressions of pre-tokenizers and normalizers. A file may have any, and any number: their programs and their work are bounded.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::effort::Effort;
use super::foreign::Backtracking;
use crate::error::Result;

/// Finds the matches of an expression.
#[derive(Clone)]
pub(super) enum Matcher {
    /// One match in linear time.
    Linear(Regex),
    /// For expressions that are not regular.
    Backtracking(Backtracking),
}

impl Matcher {
    /// The next match in `text` from `at` on; assertions see the text before `at`.
    ///
    /// # Errors
    /// `Unsupported` when it takes too long.
    pub(super) fn find(&self, text: &str, at: usize, effort: &mut Effort) -> Result<Option<(usize, usize)>> {
        let regex = match self {
            Matcher::Linear(regex) => {
                effort.check()?;
                return Ok(regex.find_at(text, at).map(|found| (found.start(), found.end())));
            }
            Matcher::Backtracking(regex) => regex,
        };
        // Place by place, with the clock read in between: one search may read the rest of the text at each place.
        let mut from = at;
        loop {
            effort.check_now()?;
            if let Some(found) = regex.match_at(text, from)? {
                return Ok(Some(found));
            }
            if from == text.len() {
                return Ok(None);
            }
            from = text.ceil_char_boundary(from + 1);
        }
    }

    /// `text` with `to` in place of each match, as long as the result has at most `most` bytes; a longer one may be cut short.
    ///
    /// # Errors
    /// As [`Matcher::find`].
    pub(super) fn replace_all(
        &self,
        text: &str,
        to: &str,
        most: usize,
        effort: &mut Effort,
    ) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        let (mut done, mut from, mut is_first) = (0, 0, true);
        while let Some((start, end)) = self.find(text, from, effort)? {
            // An empty match right after a match does not count.
            if start == end && end == done && !is_first {
                if end == text.len() {
                    break;
                }
                from = text.ceil_char_boundary(end + 1);
                continue;
            }
            out.push_str(&text[done..start]);
            out.push_str(to);
            (done, from, is_first) = (end, end, false);
            if out.len() > most {
                return Ok(out);
            }
        }
        out.push_str(&text[done..]);
        Ok(out)
    }
}

/// The sizes that are tried, one after the other, for an expression's program.
const PROGRAM_BYTES: [usize; 4] = [1 << 18, 1 << 20, 1 << 22, 10 << 20];
/// The most bytes of all programs of a tokenizer: some tens of times those of published ones.
const MOST_PROGRAM_BYTES: usize = 32 << 20;
/// The most memory, in bytes, for the states of an expression. With less than a few MB, the states of the larger expressions are
/// dropped and rebuilt again and again on text of many scripts.
const STATE_BYTES: usize = 32 << 20;
/// The most memory for the states of a tokenizer's expressions together; those beyond it have 1 MB each.
const MOST_STATE_BYTES: usize = 128 << 20;
const LEAST_STATE_BYTES: usize = 1 << 20;
/// The deepest nesting of groups, a few times deeper than in published expressions. Compiling recurses, with up to 2.2 KB of the
/// stack for a group.
const MOST_NESTED: usize = 16;
const MOST_LEVELS: u32 = 64;
/// The most bytes of an expression that is not regular, and the most bytes of program for each of them. (Its parts are programs
/// of their own.)
const MOST_BACKTRACKING: usize = 4096;
const BYTES_PER_BYTE: usize = 4096;

/// The expressions of one tokenizer, compiled.
pub(super) struct Expressions {
    compiled: HashMap<String, Matcher>,
    program_bytes: usize,
    state_bytes: usize,
}

impl Expressions {
    pub(super) fn new() -> Expressions {
        Expressions {
            compiled: HashMap::new(),
            program_bytes: MOST_PROGRAM_BYTES,
            state_bytes: MOST_STATE_BYTES,
        }
    }

    /// Compiles an expression, or returns what is wrong with it. Equal ones are compiled one time.
    pub(super) fn compile(&mut self, expression: &str) -> std::result::Result<Matcher, String> {
        if let Some(matcher) = self.compiled.get(expression) {
            return Ok(matcher.clone());
        }
        let matcher = self.compile_new(expression)?;
        self.compiled.insert(expression.to_owned(), matcher.clone());
        Ok(matcher)
    }

    fn compile_new(&mut self, expression: &str) -> std::result::Result<Matcher, String> {
        let too_large = |left: usize| {
            format!(
                "it is too large: {left} of {MOST_PROGRAM_BYTES} bytes are left for a tokenizer's expressions"
            )
        };
        if nesting(expression) > MOST_NESTED {
            return Err(format!("its groups lie more than {MOST_NESTED} deep in each other"));
        }
        let states = if self.state_bytes < STATE_BYTES { LEAST_STATE_BYTES } else { STATE_BYTES };
        for size in PROGRAM_BYTES.into_iter().take_while(|&size| size <= self.program_bytes) {
            let mut builder = RegexBuilder::new(expression);
            match builder.nest_limit(MOST_LEVELS).size_limit(size).dfa_size_limit(states).build() {
                Ok(regex) => {
                    self.program_bytes -= size;
                    self.state_bytes = self.state_bytes.saturating_sub(states);
                    return Ok(Matcher::Linear(regex));
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => {
                    let size = expression.len().saturating_mul(BYTES_PER_BYTE).max(PROGRAM_BYTES[0]);
                    if expression.len() > MOST_BACKTRACKING || size > self.program_bytes {
                        return Err(too_large(self.program_bytes));
                    }
                    let matcher = Backtracking::new(expression, PROGRAM_BYTES[0], LEAST_STATE_BYTES)?;
                    self.program_bytes -= size;
                    return Ok(Matcher::Backtracking(matcher));
                }
            }
        }
        Err(too_large(self.program_bytes))
    }
}

/// The depth of nested groups, or more: where only a parser of the full syntax knows what closes a group, nothing closes it.
fn nesting(expression: &str) -> usize {
    let may_comment = |rest: &str| {
        let flags = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        rest.starts_with('#') || (rest[..flags].contains('x') && expression.contains('#'))
    };
    let comments = expression.split("(?").skip(1).any(may_comment);
    let (mut depth, mut deepest, mut n_classes) = (0usize, 0, 0usize);
    // Within the braces of an escape.
    let mut in_name = false;
    let mut chars = expression.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                in_name |= chars.peek().is_some_and(|c| matches!(c, '{' | '<' | '\''));
            }
            '}' | '>' | '\'' if in_name => in_name = false,
            '[' if !comments && !in_name => {
                n_classes += 1;
                chars.next_if_eq(&'^');
                // A bracket that comes first is a member of the class.
                chars.next_if_eq(&']');
            }
            ']' => n_classes = n_classes.saturating_sub(1),
            '(' if n_classes == 0 => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ')' if n_classes == 0 && !comments && !in_name => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_as_they_lie_in_each_other_or_higher() {
        let cases = [
            ("", 0),
            ("(?i:'s|'t)|(a)(b)", 1),
            (r"((a)|(?:b(?=c)))\(\(", 3),
            (r"[(((]\[(a)[^](((]", 1),
            (r"[[:alpha:](](a)", 1),
            (r"\p{[}((((a))))", 4),
            (r"\p{[}(a)(b)", 1),
            ("(?x)(a#)\n(b#)\n(c))))", 4),
            ("(?#[)(a)(b)", 3),
        ];
        for (expression, depth) in cases {
            assert_eq!(nesting(expression), depth, "{expression}");
        }
    }

    #[test]
    fn expressions_nest_so_deep_only() {
        let nested = |open: &str, close: &str, n| [&open.repeat(n), "x", &close.repeat(n)].concat();
        for (open, close) in
            [("(", ")"), ("(?:a|", ")*"), ("(?=", ")"), ("(?!(?:a|b(", "))x)?"), ("(?x)(#)\n", ")")]
        {
            let n_open = open.matches('(').count();
            let error = Expressions::new().compile(&nested(open, close, MOST_NESTED / n_open + 1)).err();
            assert!(error.is_some_and(|e| e.contains("more than 16 deep")), "{open}");
        }
        assert!(Expressions::new().compile(&nested("(?:a|", ")*", MOST_NESTED)).is_ok());
        assert!(Expressions::new().compile(&["x", &"*?".repeat(80)].concat()).is_err());
    }
}
