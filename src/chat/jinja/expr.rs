//! From tokens to expressions, with the precedences of the Jinja2 package.
#![forbid(unsafe_code)]

use super::ast::{Args, Binary, Compare, Expr, ExprKind};
use super::fault::Res;
use super::lexer::Tok;
use super::parser::Parser;
use super::value::Value;

/// The deepest tree of an expression: the length of a chain of operators, say.
const MOST_DEPTH: u32 = 160;
/// The deepest nesting of parentheses and brackets.
const MOST_NESTING: u32 = 24;

/// How tightly operators bind, the loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Concat,
    Product,
    Power,
}

/// An operator between operands, or before one.
#[derive(Debug, Clone, Copy)]
enum Op {
    Not,
    Binary(Binary),
    Compare(Compare),
}

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
    #[inline(never)]
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
        let mut value = self.operators()?;
        while self.take_name("if") {
            value = self.condition(Box::new(value))?;
        }
        self.nesting -= 1;
        Ok(value)
    }

    #[inline(never)]
    fn condition(&mut self, then: Box<Expr>) -> Res<Expr> {
        let test = Box::new(self.operators()?);
        let otherwise = if self.take_name("else") { Some(Box::new(self.expression()?)) } else { None };
        self.node(ExprKind::If { test, then, otherwise })
    }

    /// Expressions with commas between them form a tuple; a single one is itself.
    pub(super) fn tuple(&mut self) -> Res<Expr> {
        self.tuple_of(Parser::expression)
    }

    /// As [`Parser::tuple`], where a bare `if` means something else.
    pub(super) fn tuple_without_if(&mut self) -> Res<Expr> {
        self.tuple_of(Parser::operators)
    }

    #[inline(never)]
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

    /// Operands with operators between them, and `not` before them. Operators that wait for their right sides are kept in lists,
    /// so that precedences cost no recursion.
    #[inline(never)]
    fn operators(&mut self) -> Res<Expr> {
        let mut waiting: Vec<(Level, Op)> = Vec::new();
        let mut operands = Vec::new();
        loop {
            while waiting.last().is_none_or(|(level, _)| *level <= Level::Not) && self.take_name("not") {
                waiting.push((Level::Not, Op::Not));
            }
            operands.push(self.operand()?);
            let next = self.operator();
            let level = next.map_or(Level::Or, |(level, _)| level);
            // Consecutive comparisons form one chain.
            while let Some((_, op)) =
                waiting.pop_if(|(before, _)| *before > level || (*before == level && level != Level::Compare))
            {
                self.reduce(op, &mut waiting, &mut operands)?;
            }
            let Some((level, op)) = next else { break };
            waiting.push((level, op));
        }
        operands.pop().map_or_else(|| self.unexpected("an expression"), Ok)
    }
    /// Takes the operator at the front.
    #[inline(never)]
    fn operator(&mut self) -> Option<(Level, Op)> {
        let binary = |level, op| (level, Op::Binary(op));
        let compare = |op| (Level::Compare, Op::Compare(op));
        let found = match self.peek() {
            Tok::Name(name) => match name.as_str() {
                "or" => binary(Level::Or, Binary::Or),
                "and" => binary(Level::And, Binary::And),
                "in" => compare(Compare::In),
                "not" if matches!(self.peek_at(1), Tok::Name(n) if n == "in") => {
                    self.next();
                    compare(Compare::NotIn)
                }
                _ => return None,
            },
            Tok::Op(op) => match *op {
                "==" => compare(Compare::Eq),
                "!=" => compare(Compare::Ne),
                "<" => compare(Compare::Lt),
                "<=" => compare(Compare::Le),
                ">" => compare(Compare::Gt),
                ">=" => compare(Compare::Ge),
                "+" => binary(Level::Sum, Binary::Add),
                "-" => binary(Level::Sum, Binary::Sub),
                "~" => binary(Level::Concat, Binary::Concat),
                "*" => binary(Level::Product, Binary::Mul),
                "/" => binary(Level::Product, Binary::Div),
                "//" => binary(Level::Product, Binary::FloorDiv),
                "%" => binary(Level::Product, Binary::Rem),
                "**" => binary(Level::Power, Binary::Pow),
                _ => return None,
            },
            _ => return None,
        };
        self.next();
        Some(found)
    }

    /// Combines the last operands with an operator that waited for them; comparisons form a chain.
    #[inline(never)]
    fn reduce(&self, op: Op, waiting: &mut Vec<(Level, Op)>, operands: &mut Vec<Expr>) -> Res<()> {
        let Some(right) = operands.pop() else { return self.unexpected("an expression") };
        let kind = match op {
            Op::Not => ExprKind::Not(Box::new(right)),
            Op::Binary(op) => {
                let Some(left) = operands.pop() else { return self.unexpected("an expression") };
                ExprKind::Binary(op, Box::new(left), Box::new(right))
            }
            Op::Compare(op) => {
                let mut rest = vec![(op, right)];
                while let Some(Op::Compare(op)) = waiting.last().map(|(_, op)| *op)
                    && let Some(part) = operands.pop()
                {
                    waiting.pop();
                    rest.push((op, part));
                }
                rest.reverse();
                let Some(first) = operands.pop() else { return self.unexpected("an expression") };
                ExprKind::Compare(Box::new(first), rest)
            }
        };
        operands.push(self.node(kind)?);
        Ok(())
    }

    #[inline(never)]
    fn operand(&mut self) -> Res<Expr> {
        let value = self.unary()?;
        self.filters(value)
    }

    #[inline(never)]
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

    #[inline(never)]
    fn primary(&mut self) -> Res<Expr> {
        let kind = match self.peek() {
            Tok::Name(name) => match name.as_str() {
                "true" | "True" => ExprKind::Const(Value::Bool(true)),
                "false" | "False" => ExprKind::Const(Value::Bool(false)),
                "none" | "None" => ExprKind::Const(Value::None),
                _ => {
                    self.uses.caller |= name == "caller";
                    self.uses.varargs |= name == "varargs";
                    self.uses.kwargs |= name == "kwargs";
                    ExprKind::Name(name.clone())
                }
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
            Tok::Op("(") => return self.parentheses(),
            Tok::Op("[") => {
                self.next();
                let items = self.items("]", Parser::expression)?;
                return self.node(ExprKind::List(items));
            }
            Tok::Op("{") => {
                self.next();
                let pairs = self.items("}", Parser::pair)?;
                return self.node(ExprKind::Dict(pairs));
            }
            _ => return self.unexpected("an expression"),
        };
        self.next();
        self.node(kind)
    }

    #[inline(never)]
    fn parentheses(&mut self) -> Res<Expr> {
        self.next();
        if self.take_op(")") {
            return self.node(ExprKind::Tuple(Vec::new()));
        }
        let inner = self.tuple()?;
        self.need_op(")")?;
        Ok(inner)
    }

    #[inline(never)]
    fn pair(&mut self) -> Res<(Expr, Expr)> {
        let key = self.expression()?;
        self.need_op(":")?;
        Ok((key, self.expression()?))
    }

    /// The items between brackets, separated by commas, up to and including `end`.
    #[inline(never)]
    fn items<T>(&mut self, end: &str, part: fn(&mut Self) -> Res<T>) -> Res<Vec<T>> {
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

    #[inline(never)]
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
                    _ => return self.error("expected a name after \".\""),
                }
            } else if self.take_op("[") {
                self.subscript(inner)?
            } else if self.is_op("(") {
                self.call(inner)?
            } else {
                return Ok(*inner);
            };
        }
    }

    #[inline(never)]
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
    #[inline(never)]
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
            self.argument(&mut args)?;
        }
        Ok(args)
    }

    #[inline(never)]
    fn argument(&mut self, args: &mut Args) -> Res<()> {
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
        Ok(())
    }

    /// Filters, tests and calls after a value.
    #[inline(never)]
    fn filters(&mut self, mut value: Expr) -> Res<Expr> {
        loop {
            let inner = Box::new(value);
            value = if self.take_op("|") {
                self.filter(inner)?
            } else if self.take_name("is") {
                self.test(inner)?
            } else if self.is_op("(") {
                self.call(inner)?
            } else {
                return Ok(*inner);
            };
        }
    }

    #[inline(never)]
    fn filter(&mut self, value: Box<Expr>) -> Res<Expr> {
        let (name, args) = self.filter_name_and_args()?;
        self.node(ExprKind::Filter { value, name, args: Box::new(args) })
    }

    #[inline(never)]
    fn call(&mut self, callee: Box<Expr>) -> Res<Expr> {
        let args = Box::new(self.args()?);
        self.node(ExprKind::Call(callee, args))
    }

    #[inline(never)]
    fn test(&mut self, value: Box<Expr>) -> Res<Expr> {
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
        self.node(ExprKind::Test { value, name, args: Box::new(args), negated })
    }
}
