//! A template as a tree.
#![forbid(unsafe_code)]

use super::value::Value;

/// A statement and its line.
#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) line: u32,
    pub(super) kind: StmtKind,
}

pub(super) type Block = Vec<Stmt>;

#[derive(Debug)]
pub(super) enum StmtKind {
    Data(String),
    Print(Expr),
    If {
        arms: Vec<(Expr, Block)>,
        otherwise: Block,
    },
    For(Box<For>),
    Set {
        target: Target,
        value: Expr,
    },
    /// `{% set x %}…{% endset %}`, whose text is passed through filters.
    SetBlock {
        target: Target,
        filters: Vec<(String, Args)>,
        body: Block,
    },
    With {
        names: Vec<(Target, Expr)>,
        body: Block,
    },
    FilterBlock {
        filters: Vec<(String, Args)>,
        body: Block,
    },
    Macro(Box<Macro>),
    /// A named block, by its number: it is written where it stands, and again by `self.name()`.
    Block(usize),
    /// `{% call(a) f(b) %}…{% endcall %}`: `caller` calls the body.
    Call {
        call: Expr,
        body: Box<Macro>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) filter: Option<Expr>,
    pub(super) recursive: bool,
    pub(super) body: Block,
    pub(super) otherwise: Block,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: String,
    pub(super) params: Vec<(String, Option<Expr>)>,
    pub(super) body: Block,
    pub(super) uses: Uses,
}

/// The names besides its parameters that a macro's body uses.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Uses {
    pub(super) caller: bool,
    pub(super) varargs: bool,
    pub(super) kwargs: bool,
}

/// `{% block name %}…{% endblock %}`.
#[derive(Debug)]
pub(super) struct NamedBlock {
    pub(super) name: String,
    /// Whether it sees the names around it, and not only those of the whole template.
    pub(super) scoped: bool,
    /// Whether another template would have to provide its text.
    pub(super) required: bool,
    pub(super) body: Block,
}

/// The target of an assignment.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    Tuple(Vec<Target>),
    /// A field of a namespace.
    Field(String, String),
}

/// An expression and the depth of its tree, which the parser bounds.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) depth: u32,
    pub(super) kind: ExprKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
    Pow,
    Concat,
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
    /// `*list` and `**dict`.
    pub(super) spread: Option<Box<Expr>>,
    pub(super) spread_named: Option<Box<Expr>>,
}

impl Args {
    pub(super) fn is_empty(&self) -> bool {
        let spread = self.spread.is_some() || self.spread_named.is_some();
        self.positional.is_empty() && self.named.is_empty() && !spread
    }
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Const(Value),
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Field(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Box<Args>),
    Filter { value: Box<Expr>, name: String, args: Box<Args> },
    Test { value: Box<Expr>, name: String, args: Box<Args>, negated: bool },
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Plus(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(Compare, Expr)>),
    If { test: Box<Expr>, then: Box<Expr>, otherwise: Option<Box<Expr>> },
}
