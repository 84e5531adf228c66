//! Running a template: statements.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ast::{Args, Block, Expr, ExprKind, For, Macro, Stmt, StmtKind, Target};
use super::eval::{CallArgs, Frame, LoopState, Machine, MacroValue};
use super::fault::{Res, fail};
use super::text;
use super::value::Value;

/// The frames that a whole template sees: its variables, and the names that it sets outside of loops and the like.
const TEMPLATE_FRAMES: usize = 2;

/// What happens after a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// Filters in a row, with their arguments.
type Filters = [(String, Args)];

impl<'t> Machine<'t> {
    /// Runs statements in the current frame.
    #[inline(never)]
    pub(super) fn block(&mut self, block: &'t Block) -> Res<Flow> {
        self.enter()?;
        for statement in block {
            self.budget.steps(1)?;
            let flow = match self.statement(statement) {
                Ok(flow) => flow,
                Err(fault) => return Err(fault.at(statement.line)),
            };
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

    #[inline(never)]
    fn write(&mut self, written: &str) -> Res<()> {
        match self.outputs.last_mut() {
            Some(out) => self.budget.push(out, written),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn statement(&mut self, statement: &'t Stmt) -> Res<Flow> {
        match &statement.kind {
            StmtKind::Data(data) => self.write(data)?,
            StmtKind::Print(value) => self.print(value)?,
            StmtKind::If { arms, otherwise } => {
                for (test, body) in arms {
                    if self.truth(test)? {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StmtKind::For(definition) => return self.for_loop(definition),
            StmtKind::Set { target, value } => self.set(target, value)?,
            StmtKind::SetBlock { target, filters, body } => self.set_block(target, filters, body)?,
            StmtKind::With { names, body } => {
                self.open_with(names)?;
                let flow = self.block(body)?;
                self.frames.pop();
                return Ok(flow);
            }
            StmtKind::FilterBlock { filters, body } => self.filter_block(filters, body)?,
            StmtKind::Macro(definition) => {
                let value = self.define(definition)?;
                self.store(&definition.name, value)?;
            }
            StmtKind::Block(id) => self.named_block(*id)?,
            StmtKind::Call { call, body } => self.call_with(call, body)?,
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn print(&mut self, value: &'t Expr) -> Res<()> {
        let value = self.eval(value)?;
        match self.outputs.last_mut() {
            Some(out) => text::push_str(out, &value, &mut self.budget),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn set(&mut self, target: &'t Target, value: &'t Expr) -> Res<()> {
        let value = self.eval(value)?;
        self.assign(target, value)
    }

    #[inline(never)]
    fn set_block(&mut self, target: &'t Target, filters: &'t Filters, body: &'t Block) -> Res<()> {
        let value = self.filtered(filters, body)?;
        self.assign(target, value)
    }

    #[inline(never)]
    fn filter_block(&mut self, filters: &'t Filters, body: &'t Block) -> Res<()> {
        let value = self.filtered(filters, body)?;
        let value = text::str(&value, &mut self.budget)?;
        self.write(&value)
    }

    /// A new frame with the names of a `with`, whose values do not see each other.
    #[inline(never)]
    fn open_with(&mut self, names: &'t [(Target, Expr)]) -> Res<()> {
        self.budget.bytes(names.len() * std::mem::size_of::<Value>())?;
        let mut values = Vec::with_capacity(names.len());
        for (_, value) in names {
            values.push(self.eval(value)?);
        }
        self.frames.push(Vec::new());
        names.iter().zip(values).try_for_each(|((target, _), value)| self.assign(target, value))
    }

    /// The text of a block, passed through filters.
    #[inline(never)]
    fn filtered(&mut self, filters: &'t Filters, body: &'t Block) -> Res<Value> {
        self.enter()?;
        self.frames.push(Vec::new());
        let mut value = Value::from(self.captured(body)?);
        self.frames.pop();
        for (name, args) in filters {
            value = self.filter_value(value, name, args)?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn define(&mut self, definition: &'t Macro) -> Res<Value> {
        self.budget.bytes(std::mem::size_of::<MacroValue<'_>>())?;
        self.macros.push(MacroValue { definition, frames: self.frames.len() });
        Ok(Value::Macro(self.macros.len() - 1))
    }

    #[inline(never)]
    fn call_with(&mut self, call: &'t Expr, body: &'t Macro) -> Res<()> {
        let ExprKind::Call(callee, args) = &call.kind else {
            return fail("\"call\" needs a call");
        };
        let callee = self.eval(callee)?;
        let mut args: CallArgs = self.args(args)?;
        args.named.push(("caller".into(), self.define(body)?));
        let value = self.call(&callee, args)?;
        let value = text::str(&value, &mut self.budget)?;
        self.write(&value)
    }

    /// Runs a named block where it stands.
    #[inline(never)]
    fn named_block(&mut self, id: usize) -> Res<()> {
        let blocks = self.blocks;
        let Some(block) = blocks.get(id) else { return fail("a block is gone") };
        if block.required {
            return fail(format!("the block \"{}\" is required, and no other template gives it", block.name));
        }
        self.enter()?;
        // The block does not see names of loops and the like, unless it says so; names that it sets are its own.
        let n = if block.scoped { self.frames.len() } else { TEMPLATE_FRAMES.min(self.frames.len()) };
        let hidden = self.frames.split_off(n);
        self.scoped(Vec::new(), &block.body)?;
        self.frames.extend(hidden);
        self.depth -= 1;
        Ok(())
    }

    /// The text of a named block that `self` calls: it sees the names of the template.
    #[inline(never)]
    pub(super) fn call_block(&mut self, id: usize, args: CallArgs) -> Res<Value> {
        let [] = args.bind("a block", [])?;
        let hidden = self.frames.split_off(TEMPLATE_FRAMES.min(self.frames.len()));
        self.outputs.push(String::new());
        self.named_block(id)?;
        let text = self.outputs.pop().unwrap_or_default();
        self.frames.extend(hidden);
        Ok(Value::from(text))
    }

    fn store(&mut self, name: &'t str, value: Value) -> Res<()> {
        self.budget.steps(1)?;
        if let Some(frame) = self.frames.last_mut() {
            match self.budget.position(frame.iter().map(|(n, _)| *n), name)? {
                Some(at) => frame[at].1 = value,
                None => frame.push((name, value)),
            }
        }
        Ok(())
    }

    /// Assigns `value` to `target`.
    #[inline(never)]
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
                let Some(Value::Namespace(id)) = self.variable(name)? else {
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
        match self.budget.position(fields.iter().map(|(n, _)| n.as_str()), field)? {
            Some(at) => fields[at].1 = value,
            None => {
                self.budget.bytes(field.len() + 64)?;
                fields.push((field.to_owned(), value));
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn for_loop(&mut self, definition: &'t For) -> Res<Flow> {
        let items = self.eval(&definition.items)?;
        self.run_loop(definition, items, 1)
    }

    /// The elements for a loop: those of `items` that its condition holds for.
    #[inline(never)]
    fn loop_items(&mut self, definition: &'t For, items: Value) -> Res<Vec<Value>> {
        let mut items = items.iterate(&mut self.budget)?;
        if let Some(filter) = &definition.filter {
            let mut kept = Vec::new();
            for item in items {
                self.frames.push(Vec::new());
                self.assign(&definition.target, item.clone())?;
                if self.truth(filter)? {
                    kept.push(item);
                }
                self.frames.pop();
            }
            items = kept;
        }
        Ok(items)
    }

    /// Runs a loop over `items`; `depth` counts the levels of a recursive one.
    #[inline(never)]
    fn run_loop(&mut self, definition: &'t For, items: Value, depth: usize) -> Res<Flow> {
        self.enter()?;
        let flow = self.rounds(definition, items, depth)?;
        self.depth -= 1;
        Ok(flow)
    }

    fn rounds(&mut self, definition: &'t For, items: Value, depth: usize) -> Res<Flow> {
        let items = self.loop_items(definition, items)?;
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
            self.open_round(id, &definition.target, item)?;
            let flow = self.block(&definition.body)?;
            self.frames.pop();
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.truncate(id);
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn open_round(&mut self, id: usize, target: &'t Target, item: &Value) -> Res<()> {
        self.frames.push(vec![("loop", Value::Loop(id))]);
        self.assign(target, item.clone())
    }

    /// Runs the recursive loop number `id` again, over the elements of the argument; gives its text.
    #[inline(never)]
    pub(super) fn recurse(&mut self, id: usize, args: CallArgs) -> Res<Value> {
        self.enter()?;
        let [items] = args.bind("loop", ["items"])?;
        let items = items.unwrap_or(Value::None);
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
