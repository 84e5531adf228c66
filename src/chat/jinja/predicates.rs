//! The tests after `is`.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::ast::{Binary, Compare};
use super::eval::{CallArgs, Machine};
use super::fault::{Res, fail};
use super::value::Value;
use super::{filters, helpers, ops, text};

/// Names of tests that compare, and their operators.
const COMPARISONS: [(&str, Compare); 16] = [
    ("eq", Compare::Eq),
    ("==", Compare::Eq),
    ("equalto", Compare::Eq),
    ("ne", Compare::Ne),
    ("!=", Compare::Ne),
    ("lt", Compare::Lt),
    ("<", Compare::Lt),
    ("lessthan", Compare::Lt),
    ("le", Compare::Le),
    ("<=", Compare::Le),
    ("gt", Compare::Gt),
    (">", Compare::Gt),
    ("greaterthan", Compare::Gt),
    ("ge", Compare::Ge),
    (">=", Compare::Ge),
    ("in", Compare::In),
];

const NAMES: [&str; 24] = [
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "integer",
    "iterable",
    "lower",
    "mapping",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
    "in",
];

fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || COMPARISONS.iter().any(|(n, _)| *n == name)
}

/// Whether `value is name(args)`.
#[inline(never)]
pub(super) fn check(machine: &mut Machine<'_>, name: &str, value: &Value, args: CallArgs) -> Res<bool> {
    if let Some((_, op)) = COMPARISONS.iter().find(|(n, _)| *n == name) {
        let [Some(other)] = args.bind(name, ["other"])? else {
            return fail(format!("the test \"{name}\" needs a value"));
        };
        return ops::compare(*op, value, &other, &mut machine.budget);
    }
    if let "divisibleby" | "sameas" = name {
        let [Some(other)] = args.bind(name, ["num"])? else {
            return fail(format!("the test \"{name}\" needs a value"));
        };
        return match name {
            "sameas" => same(value, &other, machine),
            _ => match (value.integer(), other.integer()) {
                (Some(a), Some(b)) if b != 0 => Ok(a.checked_rem(b).unwrap_or(0) == 0),
                _ => match ops::binary(Binary::Rem, value, &other, &mut machine.budget)? {
                    Value::Int(rest) => Ok(rest == 0),
                    Value::Float(rest) => Ok(rest == 0.0),
                    _ => fail("divisibleby needs numbers, the second one not zero"),
                },
            },
        };
    }
    let [] = args.bind(name, [])?;
    let parity = || match (value.integer(), value) {
        (Some(n), _) => Ok(n.rem_euclid(2)),
        // A float with a fraction is neither.
        (None, Value::Float(x)) => {
            Ok(super::value::whole(*x).filter(|n| *n as f64 == *x).map_or(2, |n| n.rem_euclid(2)))
        }
        _ => fail(format!("{} is neither odd nor even", value.type_name())),
    };
    Ok(match name {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "number" => value.number().is_some(),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "sequence" => value.has_length() && !value.is_view(),
        "iterable" => value.has_length() || matches!(value, Value::Lazy(_) | Value::Loop(_)),
        "callable" => match value {
            Value::Helper(id) => helpers::is_callable(machine, *id),
            _ => matches!(
                value,
                Value::Function(_)
                    | Value::Macro(_)
                    | Value::Method(_)
                    | Value::Block(_)
                    | Value::Loop(_)
                    | Value::Undefined(_)
            ),
        },
        "odd" => parity()? == 1,
        "even" => parity()? == 0,
        "lower" | "upper" => {
            let text = text::str(value, &mut machine.budget)?;
            machine.budget.scan(&text)?;
            let (has_lower, has_upper) =
                (text.chars().any(char::is_lowercase), text.chars().any(char::is_uppercase));
            if name == "lower" { has_lower && !has_upper } else { has_upper && !has_lower }
        }
        "escaped" => false,
        "filter" | "test" if matches!(value, Value::List(_) | Value::Dict(_)) && value.is_plain() => {
            return fail(format!("{} is no name", value.type_name()));
        }
        "filter" => value.str().is_some_and(filters::is_known),
        "test" => value.str().is_some_and(is_known),
        _ => return fail(format!("there is no test \"{name}\"")),
    })
}

/// Whether two values are identical: the same list or object, or equal and of one type.
fn same(a: &Value, b: &Value, machine: &mut Machine<'_>) -> Res<bool> {
    match (a, b) {
        (Value::Undefined(_), _) => return Ok(false),
        (Value::List(a), Value::List(b))
        | (Value::Tuple(a), Value::Tuple(b))
        | (Value::Lazy(a), Value::Lazy(b)) => {
            return Ok(Arc::ptr_eq(a, b));
        }
        (Value::Dict(a), Value::Dict(b)) => return Ok(Arc::ptr_eq(a, b)),
        _ => {}
    }
    Ok(std::mem::discriminant(a) == std::mem::discriminant(b) && a.equals(b, &mut machine.budget)?)
}
