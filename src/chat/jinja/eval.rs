//! Running a template: expressions and calls.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ast::{Args, Binary, Expr, ExprKind, For, Macro};
use super::fault::{Budget, Fault, Res, fail};
use super::value::{Dict, List, Value};
use super::{filters, functions, methods, ops, predicates};
use crate::chat::clock::Clock;

/// How deep statements, expressions and calls may lie in each other while a template runs.
const MOST_DEPTH: u32 = 400;

/// Names and what they stand for; later ones hide earlier ones.
pub(super) type Frame<'t> = Vec<(&'t str, Value)>;

/// A macro and where it was defined.
#[derive(Clone, Copy)]
pub(super) struct MacroValue<'t> {
    pub(super) definition: &'t Macro,
    /// How many frames it sees.
    pub(super) frames: usize,
}

/// A loop that runs.
pub(super) struct LoopState<'t> {
    pub(super) definition: &'t For,
    pub(super) items: Arc<Vec<Value>>,
    pub(super) index: usize,
    pub(super) depth: usize,
    /// What `loop.changed` was given last.
    pub(super) last: Option<Vec<Value>>,
    /// How many frames were there when it began.
    pub(super) frames: usize,
}

/// A rendering.
pub(super) struct Machine<'t> {
    pub(super) frames: Vec<Frame<'t>>,
    pub(super) namespaces: Vec<Vec<(String, Value)>>,
    pub(super) macros: Vec<MacroValue<'t>>,
    pub(super) loops: Vec<LoopState<'t>>,
    /// The text so far, and above it the text of blocks whose text is a value.
    pub(super) outputs: Vec<String>,
    pub(super) budget: Budget,
    pub(super) clock: &'t Clock,
    pub(super) depth: u32,
}

/// The arguments of a call.
#[derive(Default)]
pub(super) struct CallArgs {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(String, Value)>,
}

impl CallArgs {
    /// The arguments by parameter; `what` is called.
    pub(super) fn bind<const N: usize>(self, what: &str, names: [&str; N]) -> Res<[Option<Value>; N]> {
        let mut out = [const { None }; N];
        if self.positional.len() > N {
            return fail(format!("{what} takes at most {N} arguments, not {}", self.positional.len()));
        }
        for (slot, value) in out.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|n| *n == name) {
                Some(i) if out[i].is_none() => out[i] = Some(value),
                Some(_) => return fail(format!("{what} is given \"{name}\" twice")),
                None => return fail(format!("{what} has no parameter \"{name}\"")),
            }
        }
        Ok(out)
    }
}

impl<'t> Machine<'t> {
    /// One level further in.
    pub(super) fn enter(&mut self) -> Res<()> {
        self.depth += 1;
        match self.depth > MOST_DEPTH {
            true => Err(Fault::limit(format!("it calls itself more than {MOST_DEPTH} levels deep"))),
            false => self.budget.steps(1),
        }
    }

    /// The value of an expression.
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Res<Value> {
        self.enter()?;
        let value = match &expr.kind {
            ExprKind::Const(value) => value.clone(),
            ExprKind::Name(name) => self.look_up(name),
            ExprKind::List(items) => {
                let items = self.eval_all(items)?;
                Value::List(List::new(items, &mut self.budget)?)
            }
            ExprKind::Tuple(items) => {
                let items = self.eval_all(items)?;
                Value::Tuple(List::new(items, &mut self.budget)?)
            }
            ExprKind::Dict(pairs) => self.dict(pairs)?,
            ExprKind::Field(object, name) => {
                let object = self.eval(object)?;
                self.field(&object, name)?
            }
            ExprKind::Item(object, key) => {
                let object = self.eval(object)?;
                let key = self.eval(key)?;
                self.item(&object, &key)?
            }
            ExprKind::Slice(object, parts) => {
                let object = self.eval(object)?;
                let mut bounds = [const { None }; 3];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    *bound = part.as_ref().map(|part| self.eval(part)).transpose()?;
                }
                ops::slice(&object, bounds, &mut self.budget)?
            }
            ExprKind::Call(callee, args) => self.call_expr(callee, args)?,
            ExprKind::Filter { value, name, args } => {
                let value = self.eval(value)?;
                let args = self.args(args)?;
                filters::apply(self, name, value, args)?
            }
            ExprKind::Test { value, name, args, negated } => {
                let value = self.eval(value)?;
                let args = self.args(args)?;
                Value::Bool(predicates::check(self, name, &value, args)? != *negated)
            }
            ExprKind::Not(value) => Value::Bool(!self.eval(value)?.is_true()),
            ExprKind::Negate(value) => {
                let value = self.eval(value)?;
                ops::binary(Binary::Sub, &Value::Int(0), &number(value)?, &mut self.budget)?
            }
            ExprKind::Plus(value) => {
                let value = self.eval(value)?;
                number(value)?
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right)?,
            ExprKind::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                let mut holds = true;
                for (op, right) in rest {
                    let right = self.eval(right)?;
                    holds = ops::compare(*op, &left, &right, &mut self.budget)?;
                    if !holds {
                        break;
                    }
                    left = right;
                }
                Value::Bool(holds)
            }
            ExprKind::If { test, then, otherwise } => {
                if self.eval(test)?.is_true() {
                    self.eval(then)?
                } else if let Some(otherwise) = otherwise {
                    self.eval(otherwise)?
                } else {
                    Value::Undefined("the value of an \"if\" without \"else\"".into())
                }
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn eval_all(&mut self, exprs: &'t [Expr]) -> Res<Vec<Value>> {
        exprs.iter().map(|e| self.eval(e)).collect()
    }

    fn dict(&mut self, pairs: &'t [(Expr, Expr)]) -> Res<Value> {
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            entries.push((self.eval(key)?, self.eval(value)?));
        }
        Ok(Value::Dict(Dict::new(entries, &mut self.budget)?))
    }

    fn binary(&mut self, op: Binary, left: &'t Expr, right: &'t Expr) -> Res<Value> {
        let left = self.eval(left)?;
        match (op, left.is_true()) {
            (Binary::And, false) | (Binary::Or, true) => return Ok(left),
            (Binary::And, true) | (Binary::Or, false) => return self.eval(right),
            _ => {}
        }
        let right = self.eval(right)?;
        ops::binary(op, &left, &right, &mut self.budget)
    }

    fn look_up(&self, name: &str) -> Value {
        let found = self.frames.iter().rev().find_map(|frame| frame.iter().rev().find(|(n, _)| *n == name));
        match (found, functions::find(name)) {
            (Some((_, value)), _) => value.clone(),
            (None, Some(function)) => Value::Function(function),
            (None, None) => Value::Undefined(format!("\"{name}\"").into()),
        }
    }

    /// `object.name`.
    pub(super) fn field(&mut self, object: &Value, name: &str) -> Res<Value> {
        let missing = || Ok(Value::Undefined(format!("\"{name}\" of {}", object.type_name()).into()));
        match object {
            Value::Undefined(_) => Err(object.undefined_error()),
            Value::Namespace(id) => {
                let fields = self.namespaces.get(*id);
                match fields.and_then(|fields| fields.iter().find(|(n, _)| n == name)) {
                    Some((_, value)) => Ok(value.clone()),
                    None => missing(),
                }
            }
            Value::Loop(id) => match functions::loop_field(self, *id, name)? {
                Some(value) => Ok(value),
                None => missing(),
            },
            _ if methods::has(object, name) => Ok(Value::Method(Arc::new((object.clone(), name.to_owned())))),
            Value::Dict(dict) => match dict.get_str(name) {
                Some(value) => Ok(value.clone()),
                None => missing(),
            },
            _ => missing(),
        }
    }

    /// `object[key]`.
    pub(super) fn item(&mut self, object: &Value, key: &Value) -> Res<Value> {
        let at = |len: usize| {
            let index = key.integer()?;
            let index = if index < 0 { index.checked_add(len as i128)? } else { index };
            usize::try_from(index).ok().filter(|&i| i < len)
        };
        let found = match object {
            Value::Undefined(_) => return Err(object.undefined_error()),
            Value::Dict(dict) => dict.get(key, &mut self.budget)?.cloned(),
            Value::List(list) | Value::Tuple(list) => at(list.items.len()).map(|i| list.items[i].clone()),
            Value::Str(text) => {
                self.budget.steps(text.len() / 16)?;
                let c = at(text.chars().count()).and_then(|i| text.chars().nth(i));
                c.map(|c| Value::from(c.encode_utf8(&mut [0; 4]) as &str))
            }
            _ => None,
        };
        match (found, key) {
            (Some(value), _) => Ok(value),
            (None, Value::Str(name)) if !matches!(object, Value::Dict(_)) => self.field(object, name),
            (None, Value::Str(name)) => match methods::has(object, name) {
                true => self.field(object, name),
                false => Ok(Value::Undefined(format!("\"{name}\" of {}", object.type_name()).into())),
            },
            (None, _) => Ok(Value::Undefined(format!("an element of {}", object.type_name()).into())),
        }
    }

    /// Evaluates arguments.
    pub(super) fn args(&mut self, args: &'t Args) -> Res<CallArgs> {
        let mut out = CallArgs { positional: self.eval_all(&args.positional)?, named: Vec::new() };
        for (name, value) in &args.named {
            out.named.push((name.clone(), self.eval(value)?));
        }
        if let Some(list) = &args.spread {
            let list = self.eval(list)?;
            out.positional.extend(list.iterate(&mut self.budget)?);
        }
        if let Some(dict) = &args.spread_named {
            let Value::Dict(dict) = self.eval(dict)? else { return fail("\"**\" needs an object") };
            for (name, value) in dict.entries() {
                let Some(name) = name.str() else { return fail("a parameter's name is a string") };
                self.budget.bytes(name.len() + 48)?;
                out.named.push((name.to_owned(), value.clone()));
            }
        }
        Ok(out)
    }

    fn call_expr(&mut self, callee: &'t Expr, args: &'t Args) -> Res<Value> {
        if let ExprKind::Field(object, name) = &callee.kind {
            let object = self.eval(object)?;
            if methods::has(&object, name) {
                let args = self.args(args)?;
                return methods::call(self, &object, name, args);
            }
            let value = self.field(&object, name)?;
            let args = self.args(args)?;
            return self.call(&value, args);
        }
        let callee = self.eval(callee)?;
        let args = self.args(args)?;
        self.call(&callee, args)
    }

    /// Calls a value.
    pub(super) fn call(&mut self, callee: &Value, args: CallArgs) -> Res<Value> {
        match callee {
            Value::Function(name) => functions::call(self, name, args),
            Value::Macro(id) => match self.macros.get(*id).copied() {
                Some(value) => self.call_macro(value, args),
                None => fail("a macro is called that is not there any more"),
            },
            Value::Method(method) => methods::call(self, &method.0, &method.1, args),
            Value::Loop(id) => {
                let [items] = args.bind("loop", ["items"])?;
                self.recurse(*id, items.unwrap_or(Value::None))
            }
            Value::Undefined(_) => Err(callee.undefined_error()),
            other => fail(format!("{} cannot be called", other.type_name())),
        }
    }

    fn call_macro(&mut self, value: MacroValue<'t>, args: CallArgs) -> Res<Value> {
        self.enter()?;
        let definition = value.definition;
        let mut frame: Frame<'t> = Vec::with_capacity(definition.params.len());
        let mut positional = args.positional.into_iter();
        let mut named = args.named;
        // The frames that the macro does not see are put aside.
        let hidden = self.frames.split_off(value.frames.min(self.frames.len()));
        for (name, default) in &definition.params {
            let by_name = named.iter().position(|(n, _)| n == name).map(|i| named.swap_remove(i).1);
            let value = match (positional.next().or(by_name), default) {
                (Some(value), _) => value,
                (None, Some(default)) => {
                    self.frames.push(frame);
                    let value = self.eval(default)?;
                    frame = self.frames.pop().unwrap_or_default();
                    value
                }
                (None, None) => Value::Undefined(format!("the parameter \"{name}\"").into()),
            };
            frame.push((name, value));
        }
        if let Some(i) = named.iter().position(|(n, _)| n == "caller") {
            frame.push(("caller", named.swap_remove(i).1));
        }
        if let Some((name, _)) = named.first() {
            return fail(format!("the macro \"{}\" has no parameter \"{name}\"", definition.name));
        }
        if positional.next().is_some() {
            let n = definition.params.len();
            return fail(format!("the macro \"{}\" takes at most {n} arguments", definition.name));
        }
        self.frames.push(frame);
        let text = self.captured(&definition.body)?;
        self.frames.pop();
        self.frames.extend(hidden);
        self.depth -= 1;
        Ok(Value::from(text))
    }
}

/// A number as it is.
fn number(value: Value) -> Res<Value> {
    match (&value, value.integer()) {
        (_, Some(n)) => Ok(Value::Int(n)),
        (Value::Float(_), _) => Ok(value),
        (Value::Undefined(_), _) => Err(value.undefined_error()),
        _ => fail(format!("{} has no sign", value.type_name())),
    }
}
