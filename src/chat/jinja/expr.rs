//! From tokens to expressions, with the precedences of the Jinja2 package.
#![forbid(unsafe_code)]

use super::ast::{Args, Binary, Compare, Expr, ExprKind};
use super::fault::Res;
use super::lexer::Tok;
use super::parser::Parser;
use super::value::Value;

/// How deep the tree of an expression may be: the length of a chain of operators, say.
const MOST_DEPTH: u32 = 160;
/// How deep parentheses and the like may lie in each other.
const MOST_NESTING: u32 = 40;

/// The deepest of some expressions.
fn deepest<'e>(parts: impl IntoIterator<Item = &'e Expr>) -> u32 {
    parts.into_iter().map(|e| e.depth).max().unwrap_or(0)
}

fn of_args(args: &Args) -> u32 {
    let spread = args.spread.iter().chain(&args.spread_named).map(|e| &**e);
    deepest(args.positional.iter().chain(args.named.iter().map(|(_, e)| e)).chain(spread))
}

fn children(kind: &ExprKind) -> u32 {
    use ExprKind::*;
    match kind {
        Const(_) | Name(_) => 0,
        List(items) | Tuple(items) => deepest(items),
        Dict(pairs) => deepest(pairs.iter().flat_map(|(k, v)| [k, v])),
        Field(e, _) | Not(e) | Negate(e) | Plus(e) => e.depth,
        Item(a, b) | Binary(_, a, b) => a.depth.max(b.depth),
        Slice(e, parts) => e.depth.max(deepest(parts.iter().flatten().map(|e| &**e))),
        Call(e, args) => e.depth.max(of_args(args)),
        Filter { value, args, .. } | Test { value, args, .. } => of_args(args).max(value.depth),
        Compare(e, rest) => e.depth.max(deepest(rest.iter().map(|(_, e)| e))),
        If { test, then, otherwise } => {
            test.depth.max(then.depth).max(otherwise.as_ref().map_or(0, |e| e.depth))
        }
    }
}

impl Parser<'_> {
    fn node(&self, kind: ExprKind) -> Res<Expr> {
        let depth = children(&kind) + 1;
        if depth > MOST_DEPTH {
            return self.error(format!("an expression is more than {MOST_DEPTH} levels deep"));
        }
        Ok(Expr { depth, kind })
    }

    fn boxed(&self, kind: ExprKind) -> Res<Box<Expr>> {
        self.node(kind).map(Box::new)
    }

    /// One expression, `a if b else c` included.
    pub(super) fn expression(&mut self) -> Res<Expr> {
        self.nesting += 1;
        if self.nesting > MOST_NESTING {
            return self.error(format!("expressions lie more than {MOST_NESTING} deep in each other"));
        }
        let mut value = self.or()?;
        while self.take_name("if") {
            let test = Box::new(self.or()?);
            let otherwise = if self.take_name("else") { Some(Box::new(self.expression()?)) } else { None };
            value = self.node(ExprKind::If { test, then: Box::new(value), otherwise })?;
        }
        self.nesting -= 1;
        Ok(value)
    }

    /// Expressions with commas between them are a tuple, one alone is itself.
    pub(super) fn tuple(&mut self) -> Res<Expr> {
        self.tuple_of(Parser::expression)
    }

    /// As [`Parser::tuple`], where a bare `if` means something else.
    pub(super) fn tuple_without_if(&mut self) -> Res<Expr> {
        self.tuple_of(Parser::or)
    }

    fn tuple_of(&mut self, part: fn(&mut Self) -> Res<Expr>) -> Res<Expr> {
        let first = part(self)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_op(",") {
            let ends = [")", "]", "}", "="].iter().any(|op| self.is_op(op));
            if ends || matches!(self.peek(), Tok::BlockEnd | Tok::PrintEnd) || self.is_name("in") {
                break;
            }
            items.push(part(self)?);
        }
        self.node(ExprKind::Tuple(items))
    }

    fn or(&mut self) -> Res<Expr> {
        let mut left = self.and()?;
        while self.take_name("or") {
            let right = self.and()?;
            left = self.node(ExprKind::Binary(Binary::Or, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Res<Expr> {
        let mut left = self.not()?;
        while self.take_name("and") {
            let right = self.not()?;
            left = self.node(ExprKind::Binary(Binary::And, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Res<Expr> {
        let mut n = 0;
        while self.take_name("not") {
            n += 1;
        }
        let mut value = self.compare()?;
        for _ in 0..n {
            value = self.node(ExprKind::Not(Box::new(value)))?;
        }
        Ok(value)
    }

    fn compare(&mut self) -> Res<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let op = match self.peek() {
                Tok::Op("==") => Compare::Eq,
                Tok::Op("!=") => Compare::Ne,
                Tok::Op("<") => Compare::Lt,
                Tok::Op("<=") => Compare::Le,
                Tok::Op(">") => Compare::Gt,
                Tok::Op(">=") => Compare::Ge,
                Tok::Name(name) if name == "in" => Compare::In,
                Tok::Name(name) if name == "not" && matches!(self.peek_at(1), Tok::Name(n) if n == "in") => {
                    self.next();
                    Compare::NotIn
                }
                _ => break,
            };
            self.next();
            rest.push((op, self.sum()?));
        }
        if rest.is_empty() { Ok(first) } else { self.node(ExprKind::Compare(Box::new(first), rest)) }
    }

    /// A chain of operators of one precedence, whose operands `part` reads.
    fn chain(&mut self, ops: &[(&str, Binary)], part: fn(&mut Self) -> Res<Expr>) -> Res<Expr> {
        let mut left = part(self)?;
        while let Some(&(op, binary)) = ops.iter().find(|(op, _)| self.is_op(op)) {
            self.need_op(op)?;
            let right = part(self)?;
            left = self.node(ExprKind::Binary(binary, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Res<Expr> {
        self.chain(&[("+", Binary::Add), ("-", Binary::Sub)], Parser::concat)
    }

    fn concat(&mut self) -> Res<Expr> {
        self.chain(&[("~", Binary::Concat)], Parser::product)
    }

    fn product(&mut self) -> Res<Expr> {
        let ops = [("*", Binary::Mul), ("/", Binary::Div), ("//", Binary::FloorDiv), ("%", Binary::Rem)];
        self.chain(&ops, Parser::power)
    }

    fn power(&mut self) -> Res<Expr> {
        self.chain(&[("**", Binary::Pow)], Parser::unary_with_filters)
    }

    fn unary_with_filters(&mut self) -> Res<Expr> {
        let value = self.unary()?;
        self.filters(value)
    }

    fn unary(&mut self) -> Res<Expr> {
        let mut signs = Vec::new();
        while self.is_op("-") || self.is_op("+") {
            signs.push(self.take_op("-") || !self.take_op("+"));
        }
        let mut value = self.primary()?;
        value = self.postfix(value)?;
        for negative in signs.into_iter().rev() {
            let inner = Box::new(value);
            value = self.node(if negative { ExprKind::Negate(inner) } else { ExprKind::Plus(inner) })?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Res<Expr> {
        let kind = match self.peek() {
            Tok::Name(name) => match name.as_str() {
                "true" | "True" => ExprKind::Const(Value::Bool(true)),
                "false" | "False" => ExprKind::Const(Value::Bool(false)),
                "none" | "None" => ExprKind::Const(Value::None),
                _ => ExprKind::Name(name.clone()),
            },
            Tok::Str(_) => {
                let mut text = String::new();
                while let Tok::Str(part) = self.peek() {
                    text.push_str(part);
                    self.next();
                }
                return self.node(ExprKind::Const(Value::from(text)));
            }
            Tok::Int(n) => ExprKind::Const(Value::Int(*n)),
            Tok::Float(x) => ExprKind::Const(Value::Float(*x)),
            Tok::Op("(") => {
                self.next();
                if self.take_op(")") {
                    return self.node(ExprKind::Tuple(Vec::new()));
                }
                let inner = self.tuple()?;
                self.need_op(")")?;
                return Ok(inner);
            }
            Tok::Op("[") => {
                self.next();
                let items = self.items("]", Parser::expression)?;
                return self.node(ExprKind::List(items));
            }
            Tok::Op("{") => {
                self.next();
                let pair = |p: &mut Self| {
                    let key = p.expression()?;
                    p.need_op(":")?;
                    Ok((key, p.expression()?))
                };
                let pairs = self.items("}", pair)?;
                return self.node(ExprKind::Dict(pairs));
            }
            _ => return self.unexpected("an expression"),
        };
        self.next();
        self.node(kind)
    }

    /// What stands between brackets, with commas, up to and with `end`.
    fn items<T>(&mut self, end: &str, part: impl Fn(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        let mut items = Vec::new();
        while !self.take_op(end) {
            if !items.is_empty() {
                self.need_op(",")?;
                if self.take_op(end) {
                    break;
                }
            }
            items.push(part(self)?);
        }
        Ok(items)
    }

    fn postfix(&mut self, mut value: Expr) -> Res<Expr> {
        loop {
            let inner = Box::new(value);
            value = if self.take_op(".") {
                match self.next() {
                    Tok::Name(name) => self.node(ExprKind::Field(inner, name.clone()))?,
                    Tok::Int(n) => {
                        let index = self.boxed(ExprKind::Const(Value::Int(*n)))?;
                        self.node(ExprKind::Item(inner, index))?
                    }
                    _ => return self.error("expected a name behind \".\""),
                }
            } else if self.take_op("[") {
                self.subscript(inner)?
            } else if self.is_op("(") {
                let args = Box::new(self.args()?);
                self.node(ExprKind::Call(inner, args))?
            } else {
                return Ok(*inner);
            };
        }
    }

    fn subscript(&mut self, value: Box<Expr>) -> Res<Expr> {
        let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
        let mut n = 0;
        loop {
            if !self.is_op(":") && !self.is_op("]") {
                parts[n] = Some(Box::new(self.tuple()?));
            }
            if n == 2 || !self.take_op(":") {
                break;
            }
            n += 1;
        }
        self.need_op("]")?;
        match (n, parts) {
            (0, [Some(index), None, None]) => self.node(ExprKind::Item(value, index)),
            (0, _) => self.error("expected an index between \"[\" and \"]\""),
            (_, parts) => self.node(ExprKind::Slice(value, parts)),
        }
    }

    /// Arguments in parentheses.
    pub(super) fn args(&mut self) -> Res<Args> {
        let mut args = Args::default();
        let mut first = true;
        self.need_op("(")?;
        while !self.take_op(")") {
            if !first {
                self.need_op(",")?;
                if self.take_op(")") {
                    break;
                }
            }
            first = false;
            if self.take_op("**") {
                args.spread_named = Some(Box::new(self.expression()?));
            } else if self.take_op("*") {
                args.spread = Some(Box::new(self.expression()?));
            } else if let (Tok::Name(name), Tok::Op("=")) = (self.peek(), self.peek_at(1)) {
                self.next();
                self.next();
                args.named.push((name.clone(), self.expression()?));
            } else if args.named.is_empty() {
                args.positional.push(self.expression()?);
            } else {
                return self.error("an argument without a name follows one with");
            }
        }
        Ok(args)
    }

    /// Filters, tests and calls behind a value.
    fn filters(&mut self, mut value: Expr) -> Res<Expr> {
        loop {
            if self.take_op("|") {
                let (name, args) = self.filter_name_and_args()?;
                let kind = ExprKind::Filter { value: Box::new(value), name, args: Box::new(args) };
                value = self.node(kind)?;
            } else if self.take_name("is") {
                value = self.test(value)?;
            } else if self.is_op("(") {
                let args = Box::new(self.args()?);
                value = self.node(ExprKind::Call(Box::new(value), args))?;
            } else {
                return Ok(value);
            }
        }
    }

    fn test(&mut self, value: Expr) -> Res<Expr> {
        let negated = self.take_name("not");
        let name = self.need_name()?;
        let mut args = Args::default();
        if self.is_op("(") {
            args = self.args()?;
        } else {
            let begins = match self.peek() {
                Tok::Name(name) => {
                    !["else", "or", "and", "is", "if", "in", "not", "recursive"].contains(&&**name)
                }
                Tok::Str(_) | Tok::Int(_) | Tok::Float(_) | Tok::Op("[" | "{") => true,
                _ => false,
            };
            if begins {
                let arg = self.primary()?;
                args.positional.push(self.postfix(arg)?);
            }
        }
        self.node(ExprKind::Test { value: Box::new(value), name, args: Box::new(args), negated })
    }
}
