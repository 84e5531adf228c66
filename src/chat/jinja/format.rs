//! `"%s" % values` and `"{}".format(values)`.
#![forbid(unsafe_code)]

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Res, fail};
use super::spec::{self, Spec, digits};
use super::text;
use super::value::Value;

/// Python's `pattern % args`.
pub(super) fn percent(pattern: &str, args: &Value, budget: &mut Budget) -> Res<String> {
    let mut values = match args {
        Value::Tuple(list) => list.items.iter(),
        other => std::slice::from_ref(other).iter(),
    };
    budget.scan(pattern)?;
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        budget.steps(1)?;
        budget.push(&mut out, &rest[..at])?;
        rest = &rest[at + 1..];
        let mut value = None;
        if let Some(inner) = rest.strip_prefix('(') {
            let Some((key, tail)) = inner.split_once(')') else {
                return fail("a key in a format does not end");
            };
            let Value::Dict(dict) = args else { return fail("a format with keys needs an object") };
            value = dict.get_str(key, budget)?;
            if value.is_none() {
                return fail(format!("the format's key \"{key}\" is missing"));
            }
            rest = tail;
            values = [].iter();
        }
        let mut spec = Spec::default();
        let mut left = false;
        while let Some(flag @ ('-' | '+' | ' ' | '0' | '#')) = rest.chars().next() {
            match flag {
                '-' => left = true,
                '0' => spec.zero = true,
                '#' => spec.alternate = true,
                '+' => spec.plus = Some('+'),
                _ => spec.plus = spec.plus.or(Some(' ')),
            }
            rest = &rest[1..];
        }
        let mut starred = |rest: &mut &str| -> Res<Option<i128>> {
            let Some(tail) = rest.strip_prefix('*') else { return Ok(None) };
            *rest = tail;
            match values.next().and_then(Value::integer) {
                Some(n) if n.abs() < 10_000 => Ok(Some(n)),
                _ => fail("a width in a format is no integer, or too large"),
            }
        };
        match starred(&mut rest)? {
            Some(n) => {
                left |= n < 0;
                spec.width = n.unsigned_abs() as usize;
            }
            None => {
                let (width, tail) = digits(rest)?;
                (spec.width, rest) = (width.unwrap_or(0), tail);
            }
        }
        if let Some(tail) = rest.strip_prefix('.') {
            rest = tail;
            spec.precision = match starred(&mut rest)? {
                Some(n) => Some(usize::try_from(n).unwrap_or(0)),
                None => {
                    let (n, tail) = digits(rest)?;
                    rest = tail;
                    Some(n.unwrap_or(0))
                }
            };
        }
        // C has sizes there, which have no effect.
        rest = rest.strip_prefix(['h', 'l', 'L']).unwrap_or(rest);
        let Some(kind) = rest.chars().next() else { return fail("a format ends in its middle") };
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            budget.push(&mut out, "%")?;
            continue;
        }
        let Some(value) = value.or_else(|| values.next()) else { return fail("a format has too few values") };
        one(&mut out, spec, left, kind, value, budget)?;
    }
    // Python only checks whether the values could be looked up by names.
    let keyed = matches!(args, Value::Dict(_) | Value::List(_) | Value::Undefined(_)) && !args.is_view();
    if values.next().is_some() && !keyed {
        return fail("a format has too many values");
    }
    budget.push(&mut out, rest)?;
    Ok(out)
}

/// Appends one value of a `%` format.
fn one(
    out: &mut String,
    mut spec: Spec,
    left: bool,
    kind: char,
    value: &Value,
    budget: &mut Budget,
) -> Res<()> {
    let (sign, body) = match kind {
        's' | 'r' | 'a' | 'c' => {
            spec.zero = false;
            let text = match kind {
                's' => text::str(value, budget)?,
                'r' => text::repr(value, budget)?,
                'a' => text::ascii(value, budget)?,
                _ => character(value)?,
            };
            let most = spec.precision.filter(|_| kind != 'c');
            (String::new(), most.map_or_else(|| text.clone(), |n| text.chars().take(n).collect()))
        }
        'd' | 'i' | 'u' => {
            let n = spec::integer(value)?;
            let least = spec.precision.unwrap_or(0);
            budget.bytes(least)?;
            let sign = if n < 0 { "-".into() } else { spec.plus.map_or(String::new(), String::from) };
            (sign, format!("{:0least$}", n.unsigned_abs()))
        }
        'x' | 'X' | 'o' => {
            let least = spec.precision.unwrap_or(0);
            budget.bytes(least)?;
            let (sign, digits) = spec.number(kind, value, budget)?;
            (sign, format!("{digits:0>least$}"))
        }
        kind => spec.number(kind, value, budget)?,
    };
    // A sign before values that are no numbers, and zero padding with left alignment, have no effect.
    spec.zero &= !left;
    let align = match (left, spec.zero) {
        (true, _) => '<',
        (false, true) => '=',
        (false, false) => '>',
    };
    spec.pad(out, &sign, &body, align, budget)
}

/// The output of `%c`: a character, or the character of a code.
fn character(value: &Value) -> Res<String> {
    let found = match value {
        Value::Str(text) => {
            let mut chars = text.chars();
            chars.next().filter(|_| chars.next().is_none())
        }
        other => other.integer().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32),
    };
    match found {
        Some(c) => Ok(c.to_string()),
        None => fail(format!("{} does not go with \"%c\"", value.type_name())),
    }
}

/// A number with `precision` digits after the point.
pub(super) fn fixed(x: f64, precision: usize, budget: &mut Budget) -> Res<String> {
    // There are at most 309 digits before it, which take much longer each than the bytes of a text.
    let text = format!("{x:.precision$}");
    budget.steps(text.len() / 4)?;
    Ok(text)
}

/// Python's `pattern.format(…)`.
pub(super) fn braces(machine: &mut Machine<'_>, pattern: &str, args: &CallArgs) -> Res<String> {
    machine.budget.scan(pattern)?;
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    let mut numbered = false;
    while let Some(at) = rest.find(['{', '}']) {
        let budget = &mut machine.budget;
        budget.steps(1)?;
        budget.push(&mut out, &rest[..at])?;
        let bracket = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix(bracket) {
            budget.push(&mut out, bracket)?;
            rest = tail;
            continue;
        }
        let Some((field, tail)) = rest.split_once('}').filter(|_| bracket == "{") else {
            return fail("a format has a single bracket");
        };
        rest = tail;
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        if spec.contains('{') {
            return fail("a format with brackets in each other is not supported");
        }
        let (path, conversion) = match field.split_once('!') {
            Some((path, conversion)) => (path, Some(conversion)),
            None => (field, None),
        };
        let (name, steps) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
        let value = if name.is_empty() {
            next += 1;
            args.positional.get(next - 1)
        } else if let Ok(index) = name.parse::<usize>() {
            numbered = true;
            args.positional.get(index)
        } else {
            let at = budget.position(args.named.iter().map(|(n, _)| n.as_str()), name)?;
            at.map(|at| &args.named[at].1)
        };
        if numbered && next > 0 {
            return fail("a format has brackets with numbers and without");
        }
        let Some(value) = value.cloned() else {
            return fail(format!("the format's \"{{{name}}}\" has no value"));
        };
        let value = followed(machine, value, steps)?;
        let budget = &mut machine.budget;
        let value = match conversion {
            None => value,
            Some("s") => Value::from(text::str(&value, budget)?),
            Some("r") => Value::from(text::repr(&value, budget)?),
            Some("a") => Value::from(text::ascii(&value, budget)?),
            Some(other) => return fail(format!("a format has the conversion \"!{other}\"")),
        };
        match spec {
            "" => text::push_str(&mut out, &value, budget)?,
            spec => {
                let (spec, kind) = Spec::of_brackets(spec)?;
                spec.bracketed(&mut out, kind, &value, budget)?;
            }
        }
    }
    machine.budget.push(&mut out, rest)?;
    Ok(out)
}

/// The value of the `.name` and `[key]` steps after a field's name.
fn followed(machine: &mut Machine<'_>, mut value: Value, mut steps: &str) -> Res<Value> {
    while !steps.is_empty() {
        machine.budget.steps(1)?;
        machine.budget.bytes(steps.len() + 32)?;
        if let Some((key, tail)) = steps.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            let key = key.parse().map_or_else(|_| Value::from(key), Value::Int);
            value = machine.item(&value, &key)?;
            steps = tail;
        } else if let Some(inner) = steps.strip_prefix('.') {
            let (name, tail) = inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()));
            value = machine.field(&value, name)?;
            steps = tail;
        } else {
            return fail("a format's field is not understood");
        }
        if value.is_undefined() {
            return Err(value.undefined_error());
        }
    }
    Ok(value)
}
