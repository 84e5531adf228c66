//! The template language: the part of Jinja2 that chat templates are written in, over values as Python has them.
//!
//! It is our own because templates are part of a model file, which may be hostile. An engine for pages trusts those who write
//! them: in those we tried, forty assignments of `s ~ s` fill the memory, comparing lists that hold each other twice takes
//! for ever, and a namespace that holds itself overflows the stack. Here every step and every byte is paid for from a
//! [`Budget`], trees and values have a bounded depth, and no value can hold itself.
//!
//! The deepest templates and values take at most 100 KB of the stack in a release build and 150 KB with little optimization.
//! That is why functions which recurse have their less common parts in others, which are not inlined.
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
mod lexer;
mod methods;
mod ops;
mod parser;
mod predicates;
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
}

impl Template {
    /// Compiles a template's text.
    pub(super) fn compile(source: &str) -> Res<Template> {
        if source.len() > MOST_BYTES {
            return Err(Fault::limit(format!("it is longer than {MOST_BYTES} bytes")));
        }
        Ok(Template { block: parser::parse(&lexer::tokens(source)?)? })
    }

    /// The text that it writes, given the variables.
    pub(super) fn render(&self, variables: &[(String, Value)], clock: &Clock, budget: Budget) -> Res<String> {
        let globals = variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let mut machine = Machine {
            frames: vec![globals, Vec::new()],
            namespaces: Vec::new(),
            macros: Vec::new(),
            loops: Vec::new(),
            outputs: Vec::new(),
            budget,
            clock,
            depth: 0,
        };
        machine.captured(&self.block)
    }
}
