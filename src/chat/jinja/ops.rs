//! Operators with Python's meaning.
#![forbid(unsafe_code)]

use super::ast::{Binary, Compare};
use super::fault::{Budget, Res, fail};
use super::format;
use super::text;
use super::value::{List, Number, Value};

/// `left op right`. The caller evaluates `and` and `or`, which may not need both sides.
pub(super) fn binary(op: Binary, left: &Value, right: &Value, budget: &mut Budget) -> Res<Value> {
    if op == Binary::Concat {
        let mut out = text::str(left, budget)?;
        text::push_str(&mut out, right, budget)?;
        return Ok(Value::from(out));
    }
    for side in [left, right] {
        if side.is_undefined() {
            return Err(side.undefined_error());
        }
    }
    match (op, left, right) {
        (Binary::Add, Value::Str(a), Value::Str(b)) => {
            let mut out = String::new();
            budget.push(&mut out, a)?;
            budget.push(&mut out, b)?;
            return Ok(Value::from(out));
        }
        (Binary::Add, Value::List(a), Value::List(b)) if left.is_plain() && right.is_plain() => {
            return Ok(Value::List(joined(a, b, budget)?));
        }
        (Binary::Add, Value::Tuple(a), Value::Tuple(b)) => return Ok(Value::Tuple(joined(a, b, budget)?)),
        (Binary::Rem, Value::Str(pattern), args) => {
            return format::percent(pattern, args, budget).map(Value::from);
        }
        (Binary::Mul, Value::Str(_) | Value::List(_) | Value::Tuple(_), n)
            if n.integer().is_some() && left.is_plain() =>
        {
            return repeated(left, n, budget);
        }
        (Binary::Mul, n, Value::Str(_) | Value::List(_) | Value::Tuple(_))
            if n.integer().is_some() && right.is_plain() =>
        {
            return repeated(right, n, budget);
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (left.number(), right.number()) else {
        return fail(format!("{} and {} do not go with this operator", left.type_name(), right.type_name()));
    };
    numbers(op, a, b)
}

fn joined(a: &List, b: &List, budget: &mut Budget) -> Res<std::sync::Arc<List>> {
    List::new(a.items.iter().chain(&b.items).cloned().collect(), budget)
}

fn repeated(value: &Value, n: &Value, budget: &mut Budget) -> Res<Value> {
    let n = usize::try_from(n.integer().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Str(text) => {
            budget.bytes(text.len().saturating_mul(n))?;
            Ok(Value::from(text.repeat(if text.is_empty() { 0 } else { n })))
        }
        Value::List(list) | Value::Tuple(list) => {
            budget.bytes(list.items.len().saturating_mul(n).saturating_mul(48))?;
            let n = if list.items.is_empty() { 0 } else { n };
            let items = std::iter::repeat_n(&list.items, n).flatten().cloned().collect();
            let list = List::new(items, budget)?;
            Ok(if matches!(value, Value::List(_)) { Value::List(list) } else { Value::Tuple(list) })
        }
        other => fail(format!("{} cannot be repeated", other.type_name())),
    }
}

fn numbers(op: Binary, a: Number, b: Number) -> Res<Value> {
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        let exact = match op {
            Binary::Add => a.checked_add(b),
            Binary::Sub => a.checked_sub(b),
            Binary::Mul => a.checked_mul(b),
            Binary::FloorDiv | Binary::Rem | Binary::Div if b == 0 => {
                return fail("a number is divided by zero");
            }
            Binary::FloorDiv => a.checked_div_euclid(b).map(|_| floor_div(a, b)),
            Binary::Rem => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
            Binary::Pow if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            _ => return floats(op, a as f64, b as f64),
        };
        return match exact {
            Some(n) => Ok(Value::Int(n)),
            None => fail("a number is too large"),
        };
    }
    floats(op, a.float(), b.float())
}

/// The quotient rounded down; `b` is not 0, and the quotient exists.
fn floor_div(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn floats(op: Binary, a: f64, b: f64) -> Res<Value> {
    if b == 0.0 && matches!(op, Binary::Div | Binary::FloorDiv | Binary::Rem) {
        return fail("a number is divided by zero");
    }
    if op == Binary::Pow && a == 0.0 && b < 0.0 {
        return fail("zero is raised to a negative power");
    }
    if op == Binary::Pow && a < 0.0 && b.is_finite() && b.trunc() != b {
        return fail("a number below zero is raised to a power that is not whole");
    }
    let rem = || {
        let r = libm::fmod(a, b);
        if r == 0.0 {
            0.0_f64.copysign(b)
        } else if (r < 0.0) != (b < 0.0) {
            r + b
        } else {
            r
        }
    };
    Ok(Value::Float(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::FloorDiv => ((a - rem()) / b).round(),
        Binary::Rem => rem(),
        Binary::Pow => libm::pow(a, b),
        Binary::Concat | Binary::And | Binary::Or => return fail("this operator does not go with numbers"),
    }))
}

/// `left op right`.
pub(super) fn compare(op: Compare, left: &Value, right: &Value, budget: &mut Budget) -> Res<bool> {
    let order = |budget: &mut Budget| left.order(right, budget);
    Ok(match op {
        Compare::Eq => left.equals(right, budget)?,
        Compare::Ne => !left.equals(right, budget)?,
        Compare::Lt => order(budget)?.is_some_and(|o| o.is_lt()),
        Compare::Le => order(budget)?.is_some_and(|o| o.is_le()),
        Compare::Gt => order(budget)?.is_some_and(|o| o.is_gt()),
        Compare::Ge => order(budget)?.is_some_and(|o| o.is_ge()),
        Compare::In => contains(right, left, budget)?,
        Compare::NotIn => !contains(right, left, budget)?,
    })
}

/// Whether `item` is in `container`.
pub(super) fn contains(container: &Value, item: &Value, budget: &mut Budget) -> Res<bool> {
    match container {
        Value::Str(text) => match item {
            Value::Str(part) => {
                budget.scan(text)?;
                budget.scan(part)?;
                Ok(text.contains(&**part))
            }
            other => fail(format!("{} cannot be looked for in a string", other.type_name())),
        },
        Value::List(list) | Value::Tuple(list) | Value::Lazy(list) => {
            for other in &list.items {
                if other.equals(item, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Dict(dict) => match item {
            Value::List(_) | Value::Dict(_) => fail(format!("{} cannot be a key", item.type_name())),
            _ => Ok(dict.get(item, budget)?.is_some()),
        },
        Value::Undefined(_) => Ok(false),
        other => fail(format!("nothing can be looked for in {}", other.type_name())),
    }
}

/// `value[start:stop:step]`, each part an integer or none.
pub(super) fn slice(value: &Value, parts: [Option<Value>; 3], budget: &mut Budget) -> Res<Value> {
    let mut bounds = [None; 3];
    for (bound, part) in bounds.iter_mut().zip(&parts) {
        *bound = match part {
            None | Some(Value::None) => None,
            Some(part) => match part.integer() {
                Some(n) => Some(i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })),
                None => return fail(format!("{} cannot be the bound of a slice", part.type_name())),
            },
        };
    }
    match value {
        Value::Str(text) => {
            budget.bytes(text.len())?;
            budget.scan(text)?;
            let part = positions(bounds, text.chars().count())?;
            let part: String = match bounds[2].unwrap_or(1) {
                1 => text.chars().skip(part.clone().next().unwrap_or(0)).take(part.len()).collect(),
                _ => {
                    budget.bytes(text.len().saturating_mul(std::mem::size_of::<char>()))?;
                    let chars: Vec<char> = text.chars().collect();
                    part.map(|i| chars[i]).collect()
                }
            };
            Ok(Value::from(part))
        }
        Value::List(list) | Value::Tuple(list) if !value.is_view() => {
            let part = positions(bounds, list.items.len())?;
            budget.bytes(part.len().saturating_mul(std::mem::size_of::<Value>()))?;
            let part = List::new(part.map(|i| list.items[i].clone()).collect(), budget)?;
            Ok(if matches!(value, Value::List(_)) { Value::List(part) } else { Value::Tuple(part) })
        }
        Value::Undefined(_) => Err(value.undefined_error()),
        Value::List(_) => fail(format!("{} has no slices", value.type_name())),
        other => Value::undefined(&format!("a slice of {}", other.type_name()), budget),
    }
}

/// The positions that a slice takes of `len`.
fn positions(
    [start, stop, step]: [Option<i64>; 3],
    len: usize,
) -> Res<impl Clone + ExactSizeIterator<Item = usize>> {
    let step = step.unwrap_or(1);
    let len = len as i64;
    let (low, high) = if step < 0 { (-1, len - 1) } else { (0, len) };
    let clamp = |bound: i64| (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(low, high);
    let (first, end) = if step < 0 { (high, low) } else { (low, high) };
    let (at, stop) = (start.map_or(first, clamp), stop.map_or(end, clamp));
    if step == 0 {
        return fail("the step of a slice is zero");
    }
    let reaches = if step > 0 { at < stop } else { at > stop };
    let n = if reaches { at.abs_diff(stop).div_ceil(step.unsigned_abs()) as usize } else { 0 };
    Ok((0..n).map(move |i| (at + i as i64 * step) as usize))
}
