//! The functions of all templates, and the fields of `loop`.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Fault, Res, fail};
use super::value::{Dict, List, STRING, Shape, Value};
use super::{helpers, text};

const NAMES: [&str; 7] =
    ["range", "dict", "namespace", "joiner", "cycler", "raise_exception", "strftime_now"];
/// A function of the Jinja2 package that Ember does not have: it invents text.
const REFUSED: &str = "lipsum";
/// As in the sandbox of the Jinja2 package.
const MOST_RANGE: i128 = 100_000;

/// The function called `name`.
pub(super) fn find(name: &str) -> Res<Option<&'static str>> {
    if name == REFUSED {
        return fail(format!("the function \"{name}\" is not supported"));
    }
    Ok(NAMES.into_iter().find(|n| *n == name))
}

/// Calls a function.
#[inline(never)]
pub(super) fn call(machine: &mut Machine<'_>, name: &str, args: CallArgs) -> Res<Value> {
    match name {
        "range" => range(machine, args),
        "dict" => {
            let entries = fields(machine, args)?;
            Ok(Value::Dict(Dict::new(entries, &mut machine.budget)?))
        }
        "joiner" | "cycler" => helpers::make(machine, name, args),
        "namespace" => {
            let mut fields = Vec::new();
            for (name, value) in self::fields(machine, args)? {
                match name {
                    Value::Str(name) => fields.push((name, value)),
                    other => return fail(format!("a field's name is a string, not {}", other.type_name())),
                }
            }
            if let Some((name, _)) = fields.iter().find(|(name, _)| name.starts_with('_')) {
                return fail(format!("the field \"{name}\" of a namespace begins with an underscore"));
            }
            machine.budget.bytes(64 + 64 * fields.len())?;
            machine.namespaces.push(Vec::new());
            let id = machine.namespaces.len() - 1;
            for (name, value) in fields {
                machine.set_field(id, &name, value)?;
            }
            Ok(Value::Namespace(id))
        }
        "raise_exception" => {
            let [message] = args.bind(name, ["message"])?;
            let message = message.unwrap_or(Value::None);
            Err(Fault::raised(&text::str(&message, &mut machine.budget)?))
        }
        "strftime_now" => {
            let [format] = args.bind(name, ["format"])?;
            let Some(Value::Str(format)) = format else { return fail("strftime_now needs a format") };
            machine.budget.bytes(format.len().saturating_mul(16))?;
            machine.clock.format(&format).map(Value::from).map_err(Fault::failed)
        }
        _ => fail(format!("there is no function \"{name}\"")),
    }
}

/// The arguments of `dict` and `namespace`: an object or pairs, and names.
fn fields(machine: &mut Machine<'_>, args: CallArgs) -> Res<Vec<(Value, Value)>> {
    let mut out = Vec::new();
    for value in args.positional {
        let mut add = |key: &Value, value: &Value, budget: &mut Budget| {
            budget.bytes(2 * 64)?;
            out.push((key.clone(), value.clone()));
            Ok::<(), Fault>(())
        };
        let budget = &mut machine.budget;
        match &value {
            Value::Dict(dict) => {
                dict.entries().iter().try_for_each(|(key, value)| add(key, value, budget))?;
            }
            other => {
                for pair in other.iterate(budget)? {
                    let [key, value] = &pair.iterate(budget)?[..] else {
                        return fail("an object is made of pairs");
                    };
                    add(key, value, budget)?;
                }
            }
        }
    }
    out.extend(args.named.into_iter().map(|(name, value)| (Value::from(name), value)));
    Ok(out)
}

/// `dict.fromkeys(keys, value)`.
pub(super) fn from_keys(args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [keys, value] = args.bind("fromkeys", ["iterable", "value"])?;
    let (Some(keys), value) = (keys, value.unwrap_or(Value::None)) else {
        return fail("fromkeys needs the keys");
    };
    let entries = keys.iterate(budget)?.into_iter().map(|key| (key, value.clone())).collect();
    Ok(Value::Dict(Dict::new(entries, budget)?))
}

/// An attribute of a macro; `None` for one it does not have.
pub(super) fn macro_field(machine: &mut Machine<'_>, id: usize, name: &str) -> Res<Option<Value>> {
    let Some(definition) = machine.macros.get(id).map(|value| value.definition) else { return Ok(None) };
    let uses = definition.uses;
    Ok(Some(match name {
        "name" => {
            machine.budget.bytes(definition.name.len() + STRING)?;
            Value::from(definition.name.as_str())
        }
        "arguments" => {
            let mut names = Vec::new();
            for (name, _) in &definition.params {
                machine.budget.bytes(name.len() + STRING)?;
                names.push(Value::from(name.as_str()));
            }
            Value::Tuple(List::new(names, &mut machine.budget)?)
        }
        "catch_varargs" => Value::Bool(uses.varargs),
        "catch_kwargs" => Value::Bool(uses.kwargs),
        "caller" => Value::Bool(uses.caller),
        _ => return Ok(None),
    }))
}

fn range(machine: &mut Machine<'_>, args: CallArgs) -> Res<Value> {
    let numbers: Option<Vec<i128>> = args.positional.iter().map(Value::integer).collect();
    let (start, stop, step) = match numbers.as_deref() {
        Some([stop]) => (0, *stop, 1),
        Some([start, stop]) => (*start, *stop, 1),
        Some([start, stop, step]) if *step != 0 => (*start, *stop, *step),
        _ => return fail("range needs one to three integers, the third one not zero"),
    };
    let too_long = || Fault::limit(format!("a range has more than {MOST_RANGE} numbers"));
    let span =
        if step > 0 { stop.checked_sub(start) } else { start.checked_sub(stop) }.ok_or_else(too_long)?;
    let step_size = step.checked_abs().ok_or_else(too_long)?;
    let n = if span <= 0 { 0 } else { (span - 1) / step_size + 1 };
    if n > MOST_RANGE {
        return Err(too_long());
    }
    let items = (0..n).map(|i| Value::Int(start + i * step)).collect();
    machine.budget.bytes(64)?;
    let shape = Shape::Range(Box::new([start, stop, step]));
    Ok(Value::List(List::shaped(items, shape, &mut machine.budget)?))
}

/// A field of `loop`; `None` for one that does not exist.
pub(super) fn loop_field(machine: &mut Machine<'_>, id: usize, name: &str) -> Res<Option<Value>> {
    let Some(state) = machine.loops.get(id) else { return fail("a loop is used that has ended") };
    let (index, n) = (state.index, state.items.len());
    let int = |n: usize| Value::Int(n as i128);
    let neighbour = |item: Option<&Value>, what: &str, budget: &mut Budget| match item {
        Some(item) => Ok(item.clone()),
        None => Value::undefined(&format!("there is no {what} item, which"), budget),
    };
    let budget = &mut machine.budget;
    Ok(Some(match name {
        "index" => int(index + 1),
        "index0" => int(index),
        "revindex" => int(n - index),
        "revindex0" => int(n - index - 1),
        "first" => Value::Bool(index == 0),
        "last" => Value::Bool(index + 1 == n),
        "length" => int(n),
        "depth" => int(state.depth),
        "depth0" => int(state.depth - 1),
        "previtem" => neighbour(index.checked_sub(1).and_then(|i| state.items.get(i)), "previous", budget)?,
        "nextitem" => neighbour(state.items.get(index + 1), "next", budget)?,
        "cycle" | "changed" => {
            budget.bytes(std::mem::size_of::<(Value, String)>() + 2 * STRING)?;
            Value::Method(Arc::new((Value::Loop(id), name.to_owned())))
        }
        _ => return Ok(None),
    }))
}

/// `loop.cycle(…)` and `loop.changed(…)`.
pub(super) fn loop_method(machine: &mut Machine<'_>, id: usize, name: &str, args: CallArgs) -> Res<Value> {
    let Some(state) = machine.loops.get_mut(id) else { return fail("a loop is used that has ended") };
    let values = args.positional;
    if name == "cycle" {
        let n = values.len();
        let index = state.index;
        return match values.into_iter().nth(index.checked_rem(n).unwrap_or(0)) {
            Some(value) => Ok(value),
            None => fail("loop.cycle needs values"),
        };
    }
    let last = state.last.take();
    let changed = match last {
        Some(last) if last.len() == values.len() => {
            let mut changed = false;
            for (a, b) in last.iter().zip(&values) {
                changed |= !a.equals(b, &mut machine.budget)?;
            }
            changed
        }
        _ => true,
    };
    if let Some(state) = machine.loops.get_mut(id) {
        state.last = Some(values);
    }
    Ok(Value::Bool(changed))
}
