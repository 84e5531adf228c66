//! From the template's text to tokens. White space is removed as with `trim_blocks` and `lstrip_blocks` of the Jinja2 package:
//! one newline after a block or comment, and spaces before one that begins its line.
//! (<https://jinja.palletsprojects.com/en/stable/templates/#whitespace-control>)
#![forbid(unsafe_code)]

use super::fault::{Fault, Res};

/// A token and the line that it begins on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Tok,
    pub(super) line: u32,
}

/// The kinds of token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tok {
    /// Text outside of tags.
    Data(String),
    /// `{{` and `}}`.
    PrintBegin,
    PrintEnd,
    /// `{%` and `%}`.
    BlockBegin,
    BlockEnd,
    Name(String),
    Str(String),
    Int(i128),
    Float(f64),
    /// An operator or a bracket.
    Op(&'static str),
    End,
}

/// Longer operators before their prefixes.
const OPERATORS: [&str; 26] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";",
];

/// Cuts `source` into tokens; the last is [`Tok::End`].
pub(super) fn tokens(source: &str) -> Res<Vec<Token>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { rest: &source, line: 1, line_start: true, out: Vec::new() };
    lexer.run()?;
    Ok(lexer.out)
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    /// Whether the last character was a newline, or nothing was read yet.
    line_start: bool,
    out: Vec<Token>,
}

/// What a tag's beginning does to the text before it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Strip,
    StripLine,
    Keep,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) -> Res<()> {
        while let Some(at) = find_tag(self.rest) {
            let (data, tag) = self.rest.split_at(at);
            let kind = tag.as_bytes()[1];
            let before = match (tag.as_bytes().get(2), kind) {
                (Some(b'-'), _) => Before::Strip,
                (Some(b'+'), _) | (_, b'{') => Before::Keep,
                _ => Before::StripLine,
            };
            let signed = matches!(tag.as_bytes().get(2), Some(b'-' | b'+'));
            self.data(data, before);
            let opened = self.line;
            self.advance(at + 2 + usize::from(signed));
            match kind {
                b'#' => self.comment(opened)?,
                b'%' if self.raw_begins() => self.raw(opened)?,
                b'%' => {
                    self.token(Tok::BlockBegin);
                    self.code(opened, "%}")?;
                }
                _ => {
                    self.token(Tok::PrintBegin);
                    self.code(opened, "}}")?;
                }
            }
        }
        let rest = self.rest;
        self.data(rest, Before::Keep);
        self.advance(rest.len());
        self.token(Tok::End);
        Ok(())
    }

    fn token(&mut self, kind: Tok) {
        self.out.push(Token { kind, line: self.line });
    }

    /// Skips `n` bytes.
    fn advance(&mut self, n: usize) {
        let (passed, rest) = self.rest.split_at(n);
        self.line += passed.bytes().filter(|&b| b == b'\n').count() as u32;
        if n > 0 {
            self.line_start = passed.ends_with('\n');
        }
        self.rest = rest;
    }

    fn data(&mut self, text: &str, before: Before) {
        let text = match before {
            Before::Strip => text.trim_end_matches(is_space),
            Before::Keep => text,
            Before::StripLine => {
                let start = text.rfind('\n').map_or(0, |i| i + 1);
                let blank = text[start..].chars().all(is_space);
                if blank && (start > 0 || self.line_start) { &text[..start] } else { text }
            }
        };
        if !text.is_empty() {
            self.token(Tok::Data(text.to_owned()));
        }
    }

    /// Skips the end of a tag, whose two characters `sign` are at the front, and the white space that it removes.
    fn end_tag(&mut self, trims: bool) {
        let sign = self.rest.as_bytes().first().copied();
        self.advance(if matches!(sign, Some(b'-' | b'+')) { 3 } else { 2 });
        match sign {
            Some(b'-') => {
                let n = self.rest.len() - self.rest.trim_start_matches(is_space).len();
                self.advance(n);
            }
            Some(b'+') => {}
            _ if trims && self.rest.starts_with('\n') => self.advance(1),
            _ => {}
        }
    }

    fn comment(&mut self, opened: u32) -> Res<()> {
        let Some(end) = self.rest.find("#}") else {
            return Err(Fault::syntax(opened, "a comment does not end"));
        };
        let signed = end > 0 && matches!(self.rest.as_bytes()[end - 1], b'-' | b'+');
        self.advance(end - usize::from(signed));
        self.end_tag(true);
        Ok(())
    }

    /// Whether the opened tag is `raw`; if so, skips it.
    fn raw_begins(&mut self) -> bool {
        let inner = self.rest.trim_start_matches(is_space);
        let Some(inner) = inner.strip_prefix("raw") else { return false };
        let end = inner.trim_start_matches(is_space);
        let taken = self.rest.len() - end.len();
        if end.starts_with("%}") || end.starts_with("-%}") {
            self.advance(taken);
            self.end_tag(false);
            return true;
        }
        false
    }

    fn raw(&mut self, opened: u32) -> Res<()> {
        let mut from = 0;
        while let Some(at) = self.rest[from..].find("{%") {
            let at = from + at;
            let tag = &self.rest[at + 2..];
            let (before, tag) = match tag.as_bytes().first() {
                Some(b'-') => (Before::Strip, &tag[1..]),
                Some(b'+') => (Before::Keep, &tag[1..]),
                _ => (Before::StripLine, tag),
            };
            let inner = tag.trim_start_matches(is_space);
            let end = inner.strip_prefix("endraw").map(|end| end.trim_start_matches(is_space));
            if let Some(end) = end.filter(|end| ["%}", "-%}", "+%}"].iter().any(|e| end.starts_with(e))) {
                let n = self.rest.len() - end.len();
                let data = &self.rest[..at];
                self.data(data, before);
                self.advance(n);
                self.end_tag(true);
                return Ok(());
            }
            from = at + 2;
        }
        Err(Fault::syntax(opened, "a raw block does not end"))
    }

    /// The inside of a tag, up to and including its end.
    fn code(&mut self, opened: u32, end: &'static str) -> Res<()> {
        let mut open: Vec<&'static str> = Vec::new();
        loop {
            let n = self.rest.len() - self.rest.trim_start_matches(is_space).len();
            self.advance(n);
            let Some(first) = self.rest.chars().next() else {
                return Err(Fault::syntax(opened, format!("a tag does not end with \"{end}\"")));
            };
            let unsigned =
                self.rest.strip_prefix('-').or_else(|| self.rest.strip_prefix('+').filter(|_| end == "%}"));
            if open.is_empty() && (self.rest.starts_with(end) || unsigned.is_some_and(|r| r.starts_with(end)))
            {
                self.token(if end == "%}" { Tok::BlockEnd } else { Tok::PrintEnd });
                self.end_tag(end == "%}");
                return Ok(());
            }
            if first == '"' || first == '\'' {
                self.string(first)?;
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphabetic() {
                let n = self.rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(self.rest.len());
                let name = self.rest[..n].to_owned();
                self.token(Tok::Name(name));
                self.advance(n);
            } else {
                self.operator(&mut open)?;
            }
        }
    }

    fn operator(&mut self, open: &mut Vec<&'static str>) -> Res<()> {
        let Some(op) = OPERATORS.into_iter().find(|op| self.rest.starts_with(op)) else {
            let what = self.rest.chars().next().unwrap_or_default();
            return Err(Fault::syntax(self.line, format!("unexpected character {what:?}")));
        };
        match op {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(op) => {
                return Err(Fault::syntax(self.line, format!("unexpected \"{op}\"")));
            }
            _ => {}
        }
        self.token(Tok::Op(op));
        self.advance(op.len());
        Ok(())
    }

    /// An integer (`1_000`, `0x1f`, `0b1`, `0o7`) or a float (`1.5`, `1e3`).
    fn number(&mut self) -> Res<()> {
        let line = self.line;
        let text = self.rest;
        let bad = || Fault::syntax(line, "a number is too large");
        for (prefix, radix) in [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2), ("0o", 8), ("0O", 8)] {
            if let Some(digits) = text.strip_prefix(prefix) {
                let n = digits.find(|c: char| c != '_' && !c.is_digit(radix)).unwrap_or(digits.len());
                let value = i128::from_str_radix(&digits[..n].replace('_', ""), radix).map_err(|_| bad())?;
                self.token(Tok::Int(value));
                self.advance(2 + n);
                return Ok(());
            }
        }
        let digits = |from: usize| {
            let tail = &text[from..];
            from + tail.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(tail.len())
        };
        let is_digit = |i: usize| text.as_bytes().get(i).is_some_and(u8::is_ascii_digit);
        let whole = digits(0);
        let mut n = whole;
        if text.as_bytes().get(n) == Some(&b'.') && is_digit(n + 1) {
            n = digits(n + 1);
        }
        if matches!(text.as_bytes().get(n), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(text.as_bytes().get(n + 1), Some(b'+' | b'-')));
            if is_digit(n + 1 + sign) {
                n = digits(n + 1 + sign);
            }
        }
        let plain = text[..n].replace('_', "");
        let token = match n == whole {
            true => Tok::Int(plain.parse().map_err(|_| bad())?),
            false => Tok::Float(plain.parse().map_err(|_| bad())?),
        };
        self.token(token);
        self.advance(n);
        Ok(())
    }

    /// A string literal, with the escapes of Python; unknown ones stay as they are.
    fn string(&mut self, quote: char) -> Res<()> {
        let bad = |line| Fault::syntax(line, "a string has a broken escape sequence");
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.token(Tok::Str(out));
                self.advance(at + 1);
                return Ok(());
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let Some((at, escaped)) = chars.next() else { break };
            let plain = match escaped {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'v' => '\u{b}',
                '\\' | '\'' | '"' => escaped,
                '\n' => continue,
                'x' | 'u' | 'U' => {
                    let n = if escaped == 'x' {
                        2
                    } else if escaped == 'u' {
                        4
                    } else {
                        8
                    };
                    let digits = self.rest.get(at + 1..at + 1 + n).ok_or_else(|| bad(self.line))?;
                    let code = u32::from_str_radix(digits, 16).map_err(|_| bad(self.line))?;
                    chars.nth(n - 1);
                    char::from_u32(code).ok_or_else(|| bad(self.line))?
                }
                '0'..='7' => {
                    let tail = &self.rest[at..];
                    let n = tail.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
                    let code = u32::from_str_radix(&tail[..n], 8).map_err(|_| bad(self.line))?;
                    if n > 1 {
                        chars.nth(n - 2);
                    }
                    char::from_u32(code).ok_or_else(|| bad(self.line))?
                }
                other => {
                    out.push('\\');
                    other
                }
            };
            out.push(plain);
        }
        Err(Fault::syntax(self.line, "a string does not end"))
    }
}

/// White space as Python's `str.isspace` and `\s` have it.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Where the first tag begins.
fn find_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(1))
        .find(|&i| bytes[i] == b'{' && matches!(bytes[i + 1], b'{' | b'%' | b'#'))
}
