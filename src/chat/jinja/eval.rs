//! Running a template: expressions and calls.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ast::{Args, Binary, Compare, Expr, ExprKind, For, Macro, NamedBlock};
use super::fault::{Budget, Fault, Res, fail};
use super::value::{Dict, List, STRING, Shape, Value};
use super::{filters, functions, helpers, methods, ops, predicates};
use crate::chat::clock::Clock;

/// The deepest nesting of statements, expressions and calls while a template runs. One level takes at most about 400 bytes of the
/// stack; larger levels, such as loops and arguments, count twice.
const MOST_DEPTH: u32 = 200;

/// Names and their values; later ones hide earlier ones.
pub(super) type Frame<'t> = Vec<(&'t str, Value)>;

/// A macro and where it was defined.
#[derive(Clone, Copy)]
pub(super) struct MacroValue<'t> {
    pub(super) definition: &'t Macro,
    /// How many frames it sees.
    pub(super) frames: usize,
}

/// A running loop.
pub(super) struct LoopState<'t> {
    pub(super) definition: &'t For,
    pub(super) items: Arc<Vec<Value>>,
    pub(super) index: usize,
    pub(super) depth: usize,
    /// The last arguments of `loop.changed`.
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
    pub(super) helpers: Vec<helpers::Helper>,
    /// The template's named blocks.
    pub(super) blocks: &'t [NamedBlock],
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

    /// The value of an expression. Recursive functions have small frames: each kind of expression that needs more than a few
    /// lines has a function of its own, which is not inlined.
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Res<Value> {
        self.enter()?;
        let value = self.eval_kind(&expr.kind)?;
        self.depth -= 1;
        Ok(value)
    }

    #[inline(always)]
    fn eval_kind(&mut self, kind: &'t ExprKind) -> Res<Value> {
        match kind {
            ExprKind::Const(value) => Ok(value.clone()),
            ExprKind::Name(name) => self.look_up(name),
            ExprKind::List(items) => self.list(items).map(Value::List),
            ExprKind::Tuple(items) => self.list(items).map(Value::Tuple),
            ExprKind::Dict(pairs) => self.dict(pairs),
            ExprKind::Field(object, name) => self.field_expr(object, name),
            ExprKind::Item(object, key) => self.item_expr(object, key),
            ExprKind::Slice(object, parts) => self.slice(object, parts),
            ExprKind::Call(callee, args) => self.call_expr(callee, args),
            ExprKind::Filter { value, name, args } => self.filter(value, name, args),
            ExprKind::Test { value, name, args, negated } => self.test(value, name, args, *negated),
            ExprKind::Not(value) => self.truth(value).map(|is_true| Value::Bool(!is_true)),
            ExprKind::Negate(value) => self.sign(value, true),
            ExprKind::Plus(value) => self.sign(value, false),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Compare(first, rest) => self.compare(first, rest),
            ExprKind::If { test, then, otherwise } => {
                let chosen = if self.truth(test)? { Some(then) } else { otherwise.as_ref() };
                match chosen {
                    Some(chosen) => self.eval(chosen),
                    None => Value::undefined("the value of an \"if\" without \"else\"", &mut self.budget),
                }
            }
        }
    }

    /// Whether an expression counts as true.
    #[inline(never)]
    pub(super) fn truth(&mut self, expr: &'t Expr) -> Res<bool> {
        Ok(self.eval(expr)?.is_true())
    }

    #[inline(never)]
    fn field_expr(&mut self, object: &'t Expr, name: &'t str) -> Res<Value> {
        let object = self.eval(object)?;
        self.field(&object, name)
    }

    #[inline(never)]
    fn item_expr(&mut self, object: &'t Expr, key: &'t Expr) -> Res<Value> {
        let object = self.eval(object)?;
        let key = self.eval(key)?;
        self.item(&object, &key)
    }

    #[inline(never)]
    fn slice(&mut self, object: &'t Expr, parts: &'t [Option<Box<Expr>>; 3]) -> Res<Value> {
        let object = self.eval(object)?;
        let mut bounds = [const { None }; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                *bound = Some(self.eval(part)?);
            }
        }
        ops::slice(&object, bounds, &mut self.budget)
    }

    #[inline(never)]
    fn filter(&mut self, value: &'t Expr, name: &'t str, args: &'t Args) -> Res<Value> {
        let value = self.eval(value)?;
        self.filter_value(value, name, args)
    }

    /// Passes a value through a filter.
    #[inline(never)]
    pub(super) fn filter_value(&mut self, value: Value, name: &'t str, args: &'t Args) -> Res<Value> {
        let args = self.args(args)?;
        filters::apply(self, name, value, args)
    }

    #[inline(never)]
    fn test(&mut self, value: &'t Expr, name: &'t str, args: &'t Args, negated: bool) -> Res<Value> {
        let value = self.eval(value)?;
        let args = self.args(args)?;
        Ok(Value::Bool(predicates::check(self, name, &value, args)? != negated))
    }

    #[inline(never)]
    fn sign(&mut self, value: &'t Expr, negative: bool) -> Res<Value> {
        let value = number(self.eval(value)?)?;
        match negative {
            true => ops::binary(Binary::Sub, &Value::Int(0), &value, &mut self.budget),
            false => Ok(value),
        }
    }

    #[inline(never)]
    fn compare(&mut self, first: &'t Expr, rest: &'t [(Compare, Expr)]) -> Res<Value> {
        let mut left = self.eval(first)?;
        for (op, right) in rest {
            let right = self.eval(right)?;
            if !ops::compare(*op, &left, &right, &mut self.budget)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    #[inline(never)]
    fn list(&mut self, items: &'t [Expr]) -> Res<Arc<List>> {
        let items = self.eval_all(items)?;
        List::new(items, &mut self.budget)
    }

    fn eval_all(&mut self, exprs: &'t [Expr]) -> Res<Vec<Value>> {
        self.budget.bytes(exprs.len() * std::mem::size_of::<Value>())?;
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(self.eval(expr)?);
        }
        Ok(values)
    }

    #[inline(never)]
    fn dict(&mut self, pairs: &'t [(Expr, Expr)]) -> Res<Value> {
        self.budget.bytes(pairs.len() * std::mem::size_of::<(Value, Value)>())?;
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            entries.push((self.eval(key)?, self.eval(value)?));
        }
        Ok(Value::Dict(Dict::new(entries, &mut self.budget)?))
    }

    #[inline(never)]
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

    /// The innermost variable called `name`.
    pub(super) fn variable(&mut self, name: &str) -> Res<Option<&Value>> {
        self.budget.steps(self.frames.len() / 16)?;
        for frame in self.frames.iter().rev() {
            let names = frame.iter().rev().map(|(n, _)| *n);
            if let Some(from_end) = self.budget.position(names, name)? {
                return Ok(frame.iter().nth_back(from_end).map(|(_, value)| value));
            }
        }
        Ok(None)
    }

    #[inline(never)]
    fn look_up(&mut self, name: &str) -> Res<Value> {
        if let Some(value) = self.variable(name)? {
            return Ok(value.clone());
        }
        match functions::find(name)? {
            Some(function) => Ok(Value::Function(function)),
            None if name == "self" => Ok(Value::Blocks),
            None => Value::missing(name, "", &mut self.budget),
        }
    }

    /// `object.name`.
    #[inline(never)]
    pub(super) fn field(&mut self, object: &Value, name: &str) -> Res<Value> {
        let found = match object {
            Value::Undefined(_) => return Err(object.undefined_error()),
            Value::Namespace(id) => {
                let fields = self.namespaces.get(*id).map_or(&[][..], |fields| fields);
                let at = self.budget.position(fields.iter().map(|(n, _)| n.as_str()), name)?;
                at.map(|at| fields[at].1.clone())
            }
            Value::Loop(id) => functions::loop_field(self, *id, name)?,
            Value::Macro(id) => functions::macro_field(self, *id, name)?,
            Value::Helper(id) => helpers::field(self, *id, name)?,
            Value::Blocks => {
                let names = self.blocks.iter().map(|block| block.name.as_str());
                self.budget.position(names, name)?.map(Value::Block)
            }
            Value::Tuple(pair) if pair.shape == Shape::Group && matches!(name, "grouper" | "list") => {
                pair.items.get(usize::from(name == "list")).cloned()
            }
            _ if methods::has(object, name) => {
                self.budget.bytes(std::mem::size_of::<(Value, String)>() + 2 * STRING)?;
                Some(Value::Method(Arc::new((object.clone(), name.to_owned()))))
            }
            Value::Dict(dict) => dict.get_str(name, &mut self.budget)?.cloned(),
            _ => None,
        };
        match found {
            Some(value) => Ok(value),
            None => self.no_field(object, name),
        }
    }

    fn no_field(&mut self, object: &Value, name: &str) -> Res<Value> {
        Value::missing(name, &format!(" of {}", object.type_name()), &mut self.budget)
    }

    /// `object[key]`.
    #[inline(never)]
    pub(super) fn item(&mut self, object: &Value, key: &Value) -> Res<Value> {
        let at = |len: usize| {
            let index = key.integer()?;
            let index = if index < 0 { index.checked_add(len as i128)? } else { index };
            usize::try_from(index).ok().filter(|&i| i < len)
        };
        let found = match object {
            Value::Undefined(_) => return Err(object.undefined_error()),
            Value::Dict(dict) => dict.get(key, &mut self.budget)?.cloned(),
            Value::List(list) | Value::Tuple(list) if !object.is_view() => {
                at(list.items.len()).map(|i| list.items[i].clone())
            }
            Value::Str(text) => {
                self.budget.scan(text)?;
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
                false => self.no_field(object, name),
            },
            (None, _) => Value::undefined(&format!("an element of {}", object.type_name()), &mut self.budget),
        }
    }

    /// Evaluates arguments.
    #[inline(never)]
    pub(super) fn args(&mut self, args: &'t Args) -> Res<CallArgs> {
        if args.is_empty() {
            return Ok(CallArgs::default());
        }
        self.enter()?;
        let mut out = CallArgs { positional: self.eval_all(&args.positional)?, named: Vec::new() };
        for (name, value) in &args.named {
            self.budget.bytes(name.len() + STRING)?;
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
        self.depth -= 1;
        Ok(out)
    }

    #[inline(never)]
    fn call_expr(&mut self, callee: &'t Expr, args: &'t Args) -> Res<Value> {
        if let ExprKind::Field(object, name) = &callee.kind {
            return self.call_field(object, name, args);
        }
        let callee = self.eval(callee)?;
        self.call_value(&callee, args)
    }

    #[inline(never)]
    fn call_field(&mut self, object: &'t Expr, name: &'t str, args: &'t Args) -> Res<Value> {
        let object = self.eval(object)?;
        if methods::has(&object, name) {
            let args = self.args(args)?;
            return methods::call(self, &object, name, args);
        }
        let value = self.field(&object, name)?;
        self.call_value(&value, args)
    }

    fn call_value(&mut self, callee: &Value, args: &'t Args) -> Res<Value> {
        let args = self.args(args)?;
        self.call(callee, args)
    }

    /// Calls a value.
    #[inline(never)]
    pub(super) fn call(&mut self, callee: &Value, args: CallArgs) -> Res<Value> {
        match callee {
            Value::Function(name) => functions::call(self, name, args),
            Value::Macro(id) => match self.macros.get(*id).copied() {
                Some(value) => self.call_macro(value, args),
                None => fail("a macro is called that is not there any more"),
            },
            Value::Method(method) => methods::call(self, &method.0, &method.1, args),
            Value::Loop(id) => self.recurse(*id, args),
            Value::Helper(id) => helpers::call(self, *id, args),
            Value::Block(id) => self.call_block(*id, args),
            Value::Undefined(_) => Err(callee.undefined_error()),
            other => fail(format!("{} cannot be called", other.type_name())),
        }
    }

    #[inline(never)]
    fn call_macro(&mut self, value: MacroValue<'t>, args: CallArgs) -> Res<Value> {
        self.enter()?;
        // The frames that the macro does not see are set aside.
        let hidden = self.frames.split_off(value.frames.min(self.frames.len()));
        self.bind_params(value.definition, args)?;
        let text = self.captured(&value.definition.body)?;
        self.frames.pop();
        self.frames.extend(hidden);
        self.depth -= 1;
        Ok(Value::from(text))
    }

    /// A new frame with the parameters of a macro.
    #[inline(never)]
    fn bind_params(&mut self, definition: &'t Macro, args: CallArgs) -> Res<()> {
        let n = definition.params.len();
        self.budget.bytes(n.saturating_mul(std::mem::size_of::<(&str, Value)>()))?;
        self.budget.steps(n)?;
        let mut frame: Frame<'t> = Vec::with_capacity(n);
        let mut positional = args.positional.into_iter();
        let mut named = args.named;
        for (name, default) in &definition.params {
            let by_name = self.take_named(&mut named, name)?;
            let value = match (positional.next().or(by_name), default) {
                (Some(value), _) => value,
                (None, Some(default)) => {
                    // A default may call the macro again.
                    self.enter()?;
                    self.frames.push(frame);
                    let value = self.eval(default)?;
                    frame = self.frames.pop().unwrap_or_default();
                    self.depth -= 1;
                    value
                }
                (None, None) => Value::undefined(&format!("the parameter \"{name}\""), &mut self.budget)?,
            };
            frame.push((name, value));
        }
        self.bind_others(definition, positional.collect(), named, &mut frame)?;
        self.frames.push(frame);
        Ok(())
    }

    /// The names that a macro has besides its parameters, if it uses them: `caller`, `varargs` and `kwargs`.
    #[inline(never)]
    fn bind_others(
        &mut self,
        definition: &'t Macro,
        positional: Vec<Value>,
        mut named: Vec<(String, Value)>,
        frame: &mut Frame<'t>,
    ) -> Res<()> {
        let is_param = |name: &str| definition.params.iter().any(|(param, _)| param == name);
        self.budget.steps(definition.params.len() / 16)?;
        if definition.uses.caller && !is_param("caller") {
            let caller = match self.take_named(&mut named, "caller")? {
                Some(caller) => caller,
                None => Value::undefined("the caller of a macro", &mut self.budget)?,
            };
            frame.push(("caller", caller));
        }
        if definition.uses.kwargs && !is_param("kwargs") {
            let entries = std::mem::take(&mut named);
            let entries = entries.into_iter().map(|(name, value)| (Value::from(name), value)).collect();
            frame.push(("kwargs", Value::Dict(Dict::new(entries, &mut self.budget)?)));
        }
        if let Some((name, _)) = named.first() {
            return fail(format!("the macro \"{}\" has no parameter \"{name}\"", definition.name));
        }
        let n = definition.params.len();
        if definition.uses.varargs && !is_param("varargs") {
            frame.push(("varargs", Value::Tuple(List::new(positional, &mut self.budget)?)));
        } else if !positional.is_empty() {
            return fail(format!("the macro \"{}\" takes at most {n} arguments", definition.name));
        }
        Ok(())
    }

    fn take_named(&mut self, named: &mut Vec<(String, Value)>, name: &str) -> Res<Option<Value>> {
        let at = self.budget.position(named.iter().map(|(n, _)| n.as_str()), name)?;
        Ok(at.map(|at| named.swap_remove(at).1))
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
