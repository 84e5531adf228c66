//! How the calls of a form are written, for grammars.
//!
//! In a mark `~` is an optional line break, `␣` white space of up to eight characters, and `№` a number of up to four digits.
#![forbid(unsafe_code)]

/// How the calls of a form are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Between marks.
    Calls(Form),
    /// In messages with headers (gpt-oss).
    Channels,
    /// In messages that begin with `>>>` and the name of a tool, or with `>>>all`.
    Recipients,
}

/// Calls between marks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Before and after a call, or a section of calls.
    pub open: &'static str,
    pub close: &'static str,
    /// Between two calls of a section; `None`: each call is a section.
    pub between: Option<&'static str>,
    /// The ways to write a call.
    pub ways: &'static [&'static [Piece]],
}

/// A piece of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    /// A text.
    Mark(&'static str),
    /// The tool's name.
    Name,
    /// The name as a JSON string.
    QuotedName,
    /// An id of up to 40 letters and digits.
    Id,
    /// The arguments as JSON.
    Arguments,
    /// The arguments one by one.
    Each(Each),
}

/// How arguments that are written one by one look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Each {
    /// Before a key, between key and value, after a value.
    pub key: &'static str,
    pub value: &'static str,
    pub end: &'static str,
    /// Between two arguments.
    pub comma: &'static str,
    pub values: Values,
}

/// How a value is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    /// As JSON.
    Json,
    /// A string as it is, up to the mark after the value where one of these follows; other values as JSON. The second is an
    /// expression that such a string has to match.
    Raw(&'static [&'static str], Option<&'static str>),
    /// The same, with a mark of the type between key and value: `None` for types that no other mark names.
    Typed(&'static [&'static str], &'static [(Option<&'static str>, &'static str)]),
    /// Gemma's form: with this mark for quotes of strings and none for keys, which are sorted.
    Braces(&'static str),
    /// MiniMax M3's form: in tags, with this mark before each; also after the value, whose `end` is the tag of its key.
    Nested(&'static str),
}

/// `{"name": …, "arguments": {…}}`.
pub(super) const OBJECT: &[&[Piece]] = &[&[
    Piece::Mark("{\"name\":␣"),
    Piece::QuotedName,
    Piece::Mark(",␣\"arguments\":␣"),
    Piece::Arguments,
    Piece::Mark("}"),
]];
/// `{"name": …, "parameters": {…}}`.
pub(super) const PARAMETERS: &[&[Piece]] = &[&[
    Piece::Mark("{\"name\":␣"),
    Piece::QuotedName,
    Piece::Mark(",␣\"parameters\":␣"),
    Piece::Arguments,
    Piece::Mark("}"),
]];
