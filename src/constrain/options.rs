//! The options of a constraint.
#![forbid(unsafe_code)]

/// What the text must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar<'a> {
    /// JSON that matches a JSON Schema, which is itself JSON.
    JsonSchema(&'a str),
    /// Any JSON object.
    JsonObject,
    /// A text that a regular expression matches as a whole, in the syntax of the crate `regex`, without look-around.
    Regex(&'a str),
    /// A text that a context-free grammar derives, in `llguidance`'s variant of Lark's syntax.
    Lark(&'a str),
    /// One of these texts.
    Choices(&'a [&'a str]),
}

/// What begins a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// A token.
    Token(u32),
    /// A text, however it is cut into tokens; the text of control tokens counts. The rest of its last token is the beginning of
    /// the constrained text.
    Text(String),
}

/// Bounds on the work and the memory of a constraint. A call that reaches one ends with an error that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of the schema, the expression, the grammar, or all choices together.
    pub source: usize,
    /// Most symbols of the compiled grammar.
    pub grammar: usize,
    /// Most steps of building the expressions of the grammar, about 50,000 in a millisecond.
    pub compile: u64,
    /// Most steps of the expressions for the mask of one token, about 14,000 in a millisecond.
    pub mask: u64,
    /// Most items of the parser for the mask of one token, about 20,000 in a millisecond.
    pub items: usize,
    /// Most states of the expressions in one text, each of 1 to 2 KB.
    pub states: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            source: 1 << 20,
            grammar: 200_000,
            compile: 1_000_000,
            mask: 200_000,
            items: 50_000,
            states: 50_000,
        }
    }
}

/// Most bytes of a trigger's text.
pub(super) const MAX_TRIGGER: usize = 256;
/// Most triggers.
pub(super) const MAX_TRIGGERS: usize = 16;
/// Most characters of white space between two parts of JSON.
pub(super) const MAX_WHITESPACE: usize = 256;

/// The options of a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstraintOptions {
    /// It begins after the first of these that is generated, and text is free until then; empty: with the first token.
    pub triggers: Vec<Trigger>,
    /// After the end of the grammar text is free until the next trigger, and under the constraint again after it; otherwise the
    /// text ends.
    pub repeat: bool,
    /// How many times it may begin, where it repeats: after that no token may complete a trigger. 0: no limit.
    pub most_parts: usize,
    /// Texts that are not generated while it waits, however they are cut into tokens.
    pub never: Vec<String>,
    /// Whether a text may not end before the constraint begins.
    pub must_begin: bool,
    /// Most characters of white space between two parts of JSON, at most 256; 0: none.
    pub whitespace: usize,
    /// Bounds.
    pub limits: Limits,
}

impl Default for ConstraintOptions {
    fn default() -> Self {
        ConstraintOptions {
            triggers: Vec::new(),
            repeat: false,
            most_parts: 0,
            never: Vec::new(),
            must_begin: false,
            whitespace: 32,
            limits: Limits::default(),
        }
    }
}
