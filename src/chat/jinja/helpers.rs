//! The values of the functions `joiner` and `cycler`: values with a state.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::eval::{CallArgs, Machine};
use super::fault::{Res, fail};
use super::value::{List, STRING, Value};

/// A value with a state. Templates have its number.
pub(super) enum Helper {
    /// Gives nothing when it is called first, and then always the separator.
    Joiner { separator: Value, used: bool },
    /// Gives one value after the other, in a cycle.
    Cycler { items: Arc<List>, at: usize },
}

/// `joiner(sep)` and `cycler(…)`.
pub(super) fn make(machine: &mut Machine<'_>, name: &str, args: CallArgs) -> Res<Value> {
    let helper = if name == "joiner" {
        let [separator] = args.bind(name, ["sep"])?;
        Helper::Joiner { separator: separator.unwrap_or_else(|| Value::from(", ")), used: false }
    } else {
        let [] = CallArgs { positional: Vec::new(), named: args.named }.bind(name, [])?;
        if args.positional.is_empty() {
            return fail("cycler needs values");
        }
        Helper::Cycler { items: List::new(args.positional, &mut machine.budget)?, at: 0 }
    };
    machine.budget.bytes(std::mem::size_of::<Helper>() * 2)?;
    machine.helpers.push(helper);
    Ok(Value::Helper(machine.helpers.len() - 1))
}

/// Calls a joiner.
pub(super) fn call(machine: &mut Machine<'_>, id: usize, args: CallArgs) -> Res<Value> {
    let [] = args.bind("a joiner", [])?;
    match machine.helpers.get_mut(id) {
        Some(Helper::Joiner { separator, used }) => {
            let before = std::mem::replace(used, true);
            Ok(if before { separator.clone() } else { Value::from("") })
        }
        _ => fail("a cycler cannot be called; its method next can"),
    }
}

/// Whether it can be called itself.
pub(super) fn is_callable(machine: &Machine<'_>, id: usize) -> bool {
    matches!(machine.helpers.get(id), Some(Helper::Joiner { .. }))
}

/// A field of a joiner or cycler; `None` for one that it does not have.
pub(super) fn field(machine: &mut Machine<'_>, id: usize, name: &str) -> Res<Option<Value>> {
    Ok(match (machine.helpers.get(id), name) {
        (Some(Helper::Joiner { separator, .. }), "sep") => Some(separator.clone()),
        (Some(Helper::Joiner { used, .. }), "used") => Some(Value::Bool(*used)),
        (Some(Helper::Cycler { items, .. }), "items") => Some(Value::Tuple(Arc::clone(items))),
        (Some(Helper::Cycler { items, at }), "current") => items.items.get(*at).cloned(),
        (Some(Helper::Cycler { at, .. }), "pos") => Some(Value::Int(*at as i128)),
        (Some(Helper::Cycler { .. }), "next" | "reset") => {
            machine.budget.bytes(std::mem::size_of::<(Value, String)>() + 2 * STRING)?;
            Some(Value::Method(Arc::new((Value::Helper(id), name.to_owned()))))
        }
        _ => None,
    })
}

/// `next` and `reset` of a cycler.
pub(super) fn method(machine: &mut Machine<'_>, id: usize, name: &str, args: CallArgs) -> Res<Value> {
    let Some(Helper::Cycler { items, at }) = machine.helpers.get_mut(id) else {
        return fail(format!("a joiner has no method \"{name}\""));
    };
    let [] = args.bind(name, [])?;
    if name == "reset" {
        *at = 0;
        return Ok(Value::None);
    }
    let found = items.items.get(*at).cloned();
    *at = (*at + 1) % items.items.len().max(1);
    Ok(found.unwrap_or(Value::None))
}
