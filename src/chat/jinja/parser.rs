//! From tokens to statements.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::ast::{Args, Block, Expr, ExprKind, For, Macro, NamedBlock, Stmt, StmtKind, Target, Uses};
use super::fault::{Fault, Res};
use super::filters;
use super::lexer::{Tok, Token};

/// The deepest nesting of blocks.
const MOST_BLOCKS: u32 = 32;

/// Reads the tokens of a whole template.
pub(super) fn parse(tokens: &[Token]) -> Res<(Block, Vec<NamedBlock>)> {
    let mut parser = Parser {
        tokens,
        at: 0,
        blocks: 0,
        loops: 0,
        nesting: 0,
        uses: Uses::default(),
        named: Vec::new(),
        names: HashSet::new(),
    };
    let (block, _) = parser.block(&[])?;
    Ok((block, parser.named))
}

#[cold]
#[inline(never)]
fn unclosed<T>(line: u32, ends: &[&str]) -> Res<T> {
    Err(Fault::syntax(line, format!("there is no \"{}\"", ends.join("\" or \""))))
}

/// The tokens and the position among them.
pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    blocks: u32,
    /// Loops around the statement, within its macro.
    loops: u32,
    /// Expressions around the expression.
    pub(super) nesting: u32,
    /// The names that the macro around the statement uses so far.
    pub(super) uses: Uses,
    /// The named blocks so far, and the names of these and of those around the statement.
    named: Vec<NamedBlock>,
    names: HashSet<&'a str>,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> &'a Tok {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &'a Tok {
        self.tokens.get(self.at + ahead).map_or(&Tok::End, |t| &t.kind)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    pub(super) fn next(&mut self) -> &'a Tok {
        let token = self.peek();
        self.at += 1;
        token
    }

    #[cold]
    #[inline(never)]
    pub(super) fn error<T>(&self, message: impl std::fmt::Display) -> Res<T> {
        Err(Fault::syntax(self.line(), message))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unexpected<T>(&self, wanted: &str) -> Res<T> {
        let what = match self.peek() {
            Tok::Name(name) => format!("\"{name}\""),
            Tok::Op(op) => format!("\"{op}\""),
            Tok::Str(_) => "a string".into(),
            Tok::Int(_) | Tok::Float(_) => "a number".into(),
            Tok::BlockEnd | Tok::PrintEnd => "the end of the tag".into(),
            Tok::Data(_) | Tok::BlockBegin | Tok::PrintBegin | Tok::End => "the end of the template".into(),
        };
        self.error(format!("expected {wanted}, found {what}"))
    }

    pub(super) fn take_op(&mut self, op: &str) -> bool {
        let found = matches!(self.peek(), Tok::Op(o) if *o == op);
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Tok::Name(n) if n == name);
        self.at += usize::from(found);
        found
    }

    pub(super) fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Tok::Op(o) if *o == op)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Tok::Name(n) if n == name)
    }

    pub(super) fn need_op(&mut self, op: &str) -> Res<()> {
        if self.take_op(op) { Ok(()) } else { self.unexpected(&format!("\"{op}\"")) }
    }

    pub(super) fn need_name(&mut self) -> Res<String> {
        match self.peek() {
            Tok::Name(name) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => self.unexpected("a name"),
        }
    }

    fn need_block_end(&mut self) -> Res<()> {
        match self.peek() {
            Tok::BlockEnd => {
                self.at += 1;
                Ok(())
            }
            _ => self.unexpected("the end of the tag"),
        }
    }

    /// Statements up to a tag that begins with one of `ends`, which is skipped and returned; without `ends`, to the end of the
    /// template.
    fn block(&mut self, ends: &[&'static str]) -> Res<(Block, &'static str)> {
        self.blocks += 1;
        if self.blocks > MOST_BLOCKS {
            return self.error(format!("blocks lie more than {MOST_BLOCKS} deep in each other"));
        }
        let opened = self.line();
        let mut block = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                Tok::Data(text) => StmtKind::Data(text.clone()),
                Tok::PrintBegin => self.print_statement()?,
                Tok::BlockBegin => {
                    if let Some(end) = ends.iter().find(|end| self.is_name(end)) {
                        self.at += 1;
                        self.blocks -= 1;
                        return Ok((block, end));
                    }
                    self.statement()?
                }
                _ if ends.is_empty() => {
                    self.blocks -= 1;
                    return Ok((block, ""));
                }
                _ => return unclosed(opened, ends),
            };
            block.push(Stmt { line, kind });
        }
    }

    #[inline(never)]
    fn print_statement(&mut self) -> Res<StmtKind> {
        let value = self.tuple()?;
        match self.next() {
            Tok::PrintEnd => Ok(StmtKind::Print(value)),
            _ => {
                self.at -= 1;
                self.unexpected("\"}}\"")
            }
        }
    }

    /// The body of a block up to `end`, after the end of the tag that opens it.
    #[inline(never)]
    fn body(&mut self, end: &'static str) -> Res<Block> {
        self.need_block_end()?;
        let (block, _) = self.block(&[end])?;
        self.need_block_end()?;
        Ok(block)
    }

    #[inline(never)]
    fn statement(&mut self) -> Res<StmtKind> {
        let name = self.need_name()?;
        match name.as_str() {
            "if" => self.if_statement(),
            "for" => self.for_statement(),
            "set" => self.set_statement(),
            "macro" => self.macro_statement(),
            "call" => self.call_statement(),
            "with" => self.with_statement(),
            "filter" => self.filter_statement(),
            "block" => self.named_block(),
            "autoescape" => self.autoescape(),
            "extends" | "include" | "import" | "from" => {
                self.error(format!("the tag \"{name}\" needs another template, and there is none"))
            }
            // It marks the assistant's text, which is the same without it. It is a scope of its own.
            "generation" => Ok(StmtKind::With { names: Vec::new(), body: self.body("endgeneration")? }),
            "break" | "continue" if self.loops > 0 => {
                self.need_block_end()?;
                Ok(if name == "break" { StmtKind::Break } else { StmtKind::Continue })
            }
            "break" | "continue" => self.error(format!("\"{name}\" stands outside of a loop")),
            _ => self.error(format!("unknown tag \"{name}\"")),
        }
    }

    #[inline(never)]
    fn if_statement(&mut self) -> Res<StmtKind> {
        let mut arms = Vec::new();
        loop {
            let test = self.tuple_without_if()?;
            self.need_block_end()?;
            let (body, end) = self.block(&["elif", "else", "endif"])?;
            arms.push((test, body));
            if end == "elif" {
                continue;
            }
            let mut otherwise = Vec::new();
            if end == "else" {
                self.need_block_end()?;
                (otherwise, _) = self.block(&["endif"])?;
            }
            self.need_block_end()?;
            return Ok(StmtKind::If { arms, otherwise });
        }
    }

    #[inline(never)]
    fn for_statement(&mut self) -> Res<StmtKind> {
        let mut definition = self.for_header()?;
        self.loops += 1;
        let (body, end) = self.block(&["endfor", "else"])?;
        self.loops -= 1;
        definition.body = body;
        if end == "else" {
            self.need_block_end()?;
            (definition.otherwise, _) = self.block(&["endfor"])?;
        }
        self.need_block_end()?;
        Ok(StmtKind::For(definition))
    }

    /// A loop without its blocks.
    #[inline(never)]
    fn for_header(&mut self) -> Res<Box<For>> {
        let target = self.targets(false)?;
        if !self.take_name("in") {
            return self.unexpected("\"in\"");
        }
        let items = self.tuple_without_if()?;
        let filter = if self.take_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.take_name("recursive");
        self.need_block_end()?;
        Ok(Box::new(For { target, items, filter, recursive, body: Vec::new(), otherwise: Vec::new() }))
    }

    /// Names, with commas or in parentheses.
    #[inline(never)]
    fn targets(&mut self, with_fields: bool) -> Res<Target> {
        let first = self.target(with_fields)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take_op(",") {
            if !matches!(self.peek(), Tok::Name(name) if name != "in") && !self.is_op("(") {
                break;
            }
            all.push(self.target(with_fields)?);
        }
        Ok(Target::Tuple(all))
    }

    fn target(&mut self, with_fields: bool) -> Res<Target> {
        if self.take_op("(") {
            self.nesting += 1;
            if self.nesting > 32 {
                return self.error("names are nested too deeply");
            }
            let inner = self.targets(with_fields)?;
            self.nesting -= 1;
            self.need_op(")")?;
            return Ok(inner);
        }
        let name = self.need_name()?;
        if with_fields && self.take_op(".") {
            return Ok(Target::Field(name, self.need_name()?));
        }
        match name.as_str() {
            "true" | "false" | "none" | "True" | "False" | "None" => {
                self.error(format!("\"{name}\" cannot be assigned to"))
            }
            _ => Ok(Target::Name(name)),
        }
    }

    #[inline(never)]
    fn set_statement(&mut self) -> Res<StmtKind> {
        let target = self.targets(true)?;
        if self.take_op("=") {
            let value = self.tuple()?;
            self.need_block_end()?;
            return Ok(StmtKind::Set { target, value });
        }
        self.set_block(target)
    }

    #[inline(never)]
    fn set_block(&mut self, target: Target) -> Res<StmtKind> {
        let mut filters = Vec::new();
        while self.take_op("|") {
            filters.push(self.filter_name_and_args()?);
        }
        Ok(StmtKind::SetBlock { target, filters, body: self.body("endset")? })
    }

    #[inline(never)]
    fn with_statement(&mut self) -> Res<StmtKind> {
        let mut names = Vec::new();
        while !matches!(self.peek(), Tok::BlockEnd) {
            if !names.is_empty() {
                self.need_op(",")?;
            }
            let target = self.target(false)?;
            self.need_op("=")?;
            names.push((target, self.expression()?));
        }
        Ok(StmtKind::With { names, body: self.body("endwith")? })
    }

    #[inline(never)]
    fn call_statement(&mut self) -> Res<StmtKind> {
        let params = if self.is_op("(") { self.params()? } else { Vec::new() };
        let call = self.expression()?;
        if !matches!(call.kind, ExprKind::Call(..)) {
            return self.error("\"call\" needs a call");
        }
        let (body, uses) = self.macro_body("endcall")?;
        Ok(StmtKind::Call { call, body: Box::new(Macro { name: "caller".into(), params, body, uses }) })
    }

    #[inline(never)]
    fn macro_statement(&mut self) -> Res<StmtKind> {
        let name = self.need_name()?;
        let params = self.params()?;
        let (body, uses) = self.macro_body("endmacro")?;
        Ok(StmtKind::Macro(Box::new(Macro { name, params, body, uses })))
    }

    #[inline(never)]
    fn filter_statement(&mut self) -> Res<StmtKind> {
        let mut filters = vec![self.filter_name_and_args()?];
        while self.take_op("|") {
            filters.push(self.filter_name_and_args()?);
        }
        Ok(StmtKind::FilterBlock { filters, body: self.body("endfilter")? })
    }

    /// The body of a macro, and which of every macro's names it uses; those count for a macro around it too.
    fn macro_body(&mut self, end: &'static str) -> Res<(Block, Uses)> {
        let loops = std::mem::take(&mut self.loops);
        let around = std::mem::take(&mut self.uses);
        let body = self.body(end)?;
        let uses = self.uses;
        self.loops = loops;
        self.uses = Uses {
            caller: uses.caller || around.caller,
            varargs: uses.varargs || around.varargs,
            kwargs: uses.kwargs || around.kwargs,
        };
        Ok((body, uses))
    }

    #[inline(never)]
    fn named_block(&mut self) -> Res<StmtKind> {
        let name = match self.next() {
            Tok::Name(name) => name,
            _ => {
                self.at -= 1;
                return self.unexpected("the name of a block");
            }
        };
        if !self.names.insert(name) {
            return self.error(format!("the block \"{name}\" is there twice"));
        }
        let scoped = self.take_name("scoped");
        let required = self.take_name("required");
        let (loops, uses) = (std::mem::take(&mut self.loops), self.uses);
        self.need_block_end()?;
        let (body, _) = self.block(&["endblock"])?;
        (self.loops, self.uses) = (loops, uses);
        self.take_name(name);
        self.need_block_end()?;
        let is_space = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Data(text) if text.trim().is_empty());
        if required && !body.iter().all(is_space) {
            return self.error(format!("the block \"{name}\" is required, so it has no text of its own"));
        }
        self.named.push(NamedBlock { name: name.clone(), scoped, required, body });
        Ok(StmtKind::Block(self.named.len() - 1))
    }

    /// Text is never escaped here, so the tag that switches escaping off is only a scope.
    #[inline(never)]
    fn autoescape(&mut self) -> Res<StmtKind> {
        if !self.take_name("false") && !self.take_name("False") {
            return self.error("the tag \"autoescape\" is supported with \"false\" only");
        }
        Ok(StmtKind::With { names: Vec::new(), body: self.body("endautoescape")? })
    }

    #[inline(never)]
    fn params(&mut self) -> Res<Vec<(String, Option<Expr>)>> {
        let mut params: Vec<(String, Option<Expr>)> = Vec::new();
        let mut names = HashSet::new();
        self.need_op("(")?;
        while !self.take_op(")") {
            if !params.is_empty() {
                self.need_op(",")?;
            }
            let name = self.need_name()?;
            if !names.insert(name.clone()) {
                return self.error(format!("the parameter \"{name}\" is there twice"));
            }
            let default = if self.take_op("=") { Some(self.expression()?) } else { None };
            if default.is_none() && params.last().is_some_and(|(_, default)| default.is_some()) {
                return self.error(format!("the parameter \"{name}\" without a default follows one with"));
            }
            params.push((name, default));
        }
        Ok(params)
    }

    /// A filter after its `|`: a name and perhaps arguments.
    #[inline(never)]
    pub(super) fn filter_name_and_args(&mut self) -> Res<(String, Args)> {
        let mut name = self.need_name()?;
        while self.take_op(".") {
            name.push('.');
            name.push_str(&self.need_name()?);
        }
        if filters::is_refused(&name) {
            return self.error(format!("the filter \"{name}\" is not supported"));
        }
        let args = if self.is_op("(") { self.args()? } else { Args::default() };
        Ok((name, args))
    }
}
