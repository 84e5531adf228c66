//! The template language: the part of Jinja2 that chat templates are written in, over values as Python has them.
//!
//! It is our own because templates are part of a model file, which may be hostile. An engine for web pages trusts the authors of
//! templates. In those we tried, forty assignments of `s ~ s` fill the memory, comparing lists that contain each other twice
//! takes for ever, and a namespace that contains itself overflows the stack. Here every step and every byte is charged to a
//! [`Budget`], trees and values have a bounded depth, and no value can contain itself.
//!
//! It has all statements, filters, tests and functions that `transformers` allows in chat templates, except these:
//!
//! - the filters `pprint`, `random`, `striptags`, `urlize`, `wordwrap` and `xmlattr`, which are for web pages and for people: a
//!   template that names one is not compiled;
//! - the function `lipsum`, which fails by its name;
//! - text that is safe as HTML and text that is not: `safe` changes nothing, `e` escapes escaped text again, no text is
//!   `escaped`, and `{% autoescape %}` exists with `false` only;
//! - `{% extends %}`, `{% include %}` and `{% import %}`: there is no other template, nor is there in `transformers`;
//! - the flag `#` for floats in formats, and groups of digits after zeros;
//! - methods that no template has needed yet (`encode`, `translate`, `format_map`, those of integers), tuples as keys of objects,
//!   and Python's text for a namespace or a loop: using one is an error, never another value.
//!
//! The deepest templates and values take at most 100 KB of the stack in a release build and 150 KB with little optimization. So
//! recursive functions have their less common parts in other functions, which are not inlined.
#![forbid(unsafe_code)]

mod ast;
mod elements;
mod eval;
mod exec;
mod expr;
pub(super) mod fault;
mod filters;
mod format;
mod functions;
mod helpers;
mod lexer;
mod methods;
mod numbers;
mod ops;
mod parser;
mod predicates;
mod spec;
mod strings;
pub(super) mod text;
pub(super) mod value;

#[cfg(test)]
mod tests;

use super::clock::Clock;
use eval::Machine;
use fault::{Budget, Fault, Res};
use value::Value;

/// The longest template, in bytes.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// A template, compiled.
#[derive(Debug)]
pub(super) struct Template {
    block: ast::Block,
    named: Vec<ast::NamedBlock>,
}

impl Template {
    /// Compiles a template's text.
    pub(super) fn compile(source: &str) -> Res<Template> {
        if source.len() > MOST_BYTES {
            return Err(Fault::limit(format!("it is longer than {MOST_BYTES} bytes")));
        }
        let (block, named) = parser::parse(&lexer::tokens(source)?)?;
        Ok(Template { block, named })
    }

    /// The text of the template for these variables.
    pub(super) fn render(&self, variables: &[(String, Value)], clock: &Clock, budget: Budget) -> Res<String> {
        let globals = variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let mut machine = Machine {
            frames: vec![globals, Vec::new()],
            namespaces: Vec::new(),
            macros: Vec::new(),
            loops: Vec::new(),
            helpers: Vec::new(),
            blocks: &self.named,
            outputs: Vec::new(),
            budget,
            clock,
            depth: 0,
        };
        machine.captured(&self.block)
    }
}
