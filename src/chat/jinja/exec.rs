//! Running a template: statements.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ast::{Args, Block, For, Macro, Stmt, StmtKind, Target};
use super::eval::{CallArgs, Frame, LoopState, Machine, MacroValue};
use super::fault::{Res, fail};
use super::value::Value;
use super::{filters, text};

/// What happens behind a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Machine<'t> {
    /// Runs statements in the frame that is there.
    pub(super) fn block(&mut self, block: &'t Block) -> Res<Flow> {
        self.enter()?;
        for statement in block {
            self.budget.steps(1)?;
            let flow = self.statement(statement).map_err(|fault| fault.at(statement.line))?;
            if flow != Flow::Next {
                self.depth -= 1;
                return Ok(flow);
            }
        }
        self.depth -= 1;
        Ok(Flow::Next)
    }

    /// Runs statements in a frame of their own.
    fn scoped(&mut self, frame: Frame<'t>, block: &'t Block) -> Res<Flow> {
        self.frames.push(frame);
        let flow = self.block(block)?;
        self.frames.pop();
        Ok(flow)
    }

    /// The text that statements write.
    pub(super) fn captured(&mut self, block: &'t Block) -> Res<String> {
        self.outputs.push(String::new());
        self.block(block)?;
        Ok(self.outputs.pop().unwrap_or_default())
    }

    fn write(&mut self, written: &str) -> Res<()> {
        match self.outputs.last_mut() {
            Some(out) => self.budget.push(out, written),
            None => Ok(()),
        }
    }

    fn statement(&mut self, statement: &'t Stmt) -> Res<Flow> {
        match &statement.kind {
            StmtKind::Data(data) => self.write(data)?,
            StmtKind::Print(value) => {
                let value = self.eval(value)?;
                if let Some(out) = self.outputs.last_mut() {
                    text::push_str(out, &value, &mut self.budget)?;
                }
            }
            StmtKind::If { arms, otherwise } => {
                for (test, body) in arms {
                    if self.eval(test)?.is_true() {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StmtKind::For(definition) => {
                let items = self.eval(&definition.items)?;
                return self.run_loop(definition, items, 1);
            }
            StmtKind::Set { target, value } => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            StmtKind::SetBlock { target, filters, body } => {
                let value = self.filtered(filters, body)?;
                self.assign(target, value)?;
            }
            StmtKind::With { names, body } => {
                let mut values = Vec::new();
                for (_, value) in names {
                    values.push(self.eval(value)?);
                }
                self.frames.push(Vec::new());
                for ((target, _), value) in names.iter().zip(values) {
                    self.assign(target, value)?;
                }
                let flow = self.block(body)?;
                self.frames.pop();
                return Ok(flow);
            }
            StmtKind::FilterBlock { filters, body } => {
                let value = self.filtered(filters, body)?;
                let value = text::str(&value, &mut self.budget)?;
                self.write(&value)?;
            }
            StmtKind::Macro(definition) => {
                let value = self.define(definition)?;
                self.store(&definition.name, value)?;
            }
            StmtKind::Call { call, body } => self.call_with(call, body)?,
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// The text of a block, passed through filters.
    fn filtered(&mut self, filters: &'t [(String, Args)], body: &'t Block) -> Res<Value> {
        self.frames.push(Vec::new());
        let mut value = Value::from(self.captured(body)?);
        self.frames.pop();
        for (name, args) in filters {
            let args = self.args(args)?;
            value = filters::apply(self, name, value, args)?;
        }
        Ok(value)
    }

    fn define(&mut self, definition: &'t Macro) -> Res<Value> {
        self.budget.bytes(std::mem::size_of::<MacroValue<'_>>())?;
        self.macros.push(MacroValue { definition, frames: self.frames.len() });
        Ok(Value::Macro(self.macros.len() - 1))
    }

    fn call_with(&mut self, call: &'t super::ast::Expr, body: &'t Macro) -> Res<()> {
        let super::ast::ExprKind::Call(callee, args) = &call.kind else {
            return fail("\"call\" needs a call");
        };
        let callee = self.eval(callee)?;
        let mut args: CallArgs = self.args(args)?;
        args.named.push(("caller".into(), self.define(body)?));
        let value = self.call(&callee, args)?;
        let value = text::str(&value, &mut self.budget)?;
        self.write(&value)
    }

    fn store(&mut self, name: &'t str, value: Value) -> Res<()> {
        self.budget.steps(1)?;
        if let Some(frame) = self.frames.last_mut() {
            match frame.iter_mut().find(|(n, _)| *n == name) {
                Some(slot) => slot.1 = value,
                None => frame.push((name, value)),
            }
        }
        Ok(())
    }

    /// Assigns `value` to `target`.
    pub(super) fn assign(&mut self, target: &'t Target, value: Value) -> Res<()> {
        match target {
            Target::Name(name) => self.store(name, value),
            Target::Tuple(targets) => {
                let values = value.iterate(&mut self.budget)?;
                if values.len() != targets.len() {
                    return fail(format!(
                        "{} values cannot be taken apart into {}",
                        values.len(),
                        targets.len()
                    ));
                }
                targets.iter().zip(values).try_for_each(|(target, value)| self.assign(target, value))
            }
            Target::Field(name, field) => {
                let found = self.frames.iter().rev().find_map(|frame| frame.iter().find(|(n, _)| n == name));
                let Some((_, Value::Namespace(id))) = found else {
                    return fail(format!("\"{name}\" is no namespace, so its fields cannot be assigned to"));
                };
                if field.starts_with('_') {
                    return fail(format!("the field \"{field}\" of a namespace begins with an underscore"));
                }
                let id = *id;
                self.set_field(id, field, value)
            }
        }
    }

    /// Sets a field of a namespace.
    pub(super) fn set_field(&mut self, id: usize, field: &str, value: Value) -> Res<()> {
        let Some(fields) = self.namespaces.get_mut(id) else { return fail("a namespace is gone") };
        self.budget.steps(fields.len())?;
        match fields.iter_mut().find(|(n, _)| n == field) {
            Some(slot) => slot.1 = value,
            None => {
                self.budget.bytes(field.len() + 64)?;
                fields.push((field.to_owned(), value));
            }
        }
        Ok(())
    }

    /// Runs a loop over `items`; `depth` counts the levels of a recursive one.
    pub(super) fn run_loop(&mut self, definition: &'t For, items: Value, depth: usize) -> Res<Flow> {
        let mut items = items.iterate(&mut self.budget)?;
        if let Some(filter) = &definition.filter {
            let mut kept = Vec::new();
            for item in items {
                self.frames.push(Vec::new());
                self.assign(&definition.target, item.clone())?;
                if self.eval(filter)?.is_true() {
                    kept.push(item);
                }
                self.frames.pop();
            }
            items = kept;
        }
        if items.is_empty() {
            return self.scoped(Vec::new(), &definition.otherwise);
        }
        let items = Arc::new(items);
        let id = self.loops.len();
        let frames = self.frames.len();
        self.loops.push(LoopState {
            definition,
            items: Arc::clone(&items),
            index: 0,
            depth,
            last: None,
            frames,
        });
        for (index, item) in items.iter().enumerate() {
            self.budget.steps(1)?;
            self.loops[id].index = index;
            self.frames.push(vec![("loop", Value::Loop(id))]);
            self.assign(&definition.target, item.clone())?;
            let flow = self.block(&definition.body)?;
            self.frames.pop();
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.truncate(id);
        Ok(Flow::Next)
    }

    /// Runs the recursive loop number `id` again, over `items`; gives its text.
    pub(super) fn recurse(&mut self, id: usize, items: Value) -> Res<Value> {
        self.enter()?;
        let Some(state) = self.loops.get(id) else { return fail("a loop is called that has ended") };
        let (definition, depth, frames) = (state.definition, state.depth, state.frames);
        if !definition.recursive {
            return fail("a loop is called that is not marked as recursive");
        }
        let hidden = self.frames.split_off(frames.min(self.frames.len()));
        self.outputs.push(String::new());
        self.run_loop(definition, items, depth + 1)?;
        let text = self.outputs.pop().unwrap_or_default();
        self.frames.extend(hidden);
        self.depth -= 1;
        Ok(Value::from(text))
    }
}
