//! `"%s" % values` and `"{}".format(values)`, as far as templates use them.
#![forbid(unsafe_code)]

use super::eval::CallArgs;
use super::fault::{Budget, Res, fail};
use super::text;
use super::value::{Value, whole};

/// Python's `pattern % args`, with `%s`, `%r`, `%d`, `%i`, `%f` and `%x`, a width, a precision and the flags `-` and `0`.
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
        let flags = rest.len() - rest.trim_start_matches(['-', '0']).len();
        let (flags, tail) = rest.split_at(flags);
        let (width, tail) = digits(tail)?;
        let (precision, tail) = match tail.strip_prefix('.') {
            Some(tail) => digits(tail).map(|(n, tail)| (Some(n.unwrap_or(0)), tail))?,
            None => (None, tail),
        };
        let Some(kind) = tail.chars().next() else { return fail("a format ends in its middle") };
        rest = &tail[kind.len_utf8()..];
        if kind == '%' {
            budget.push(&mut out, "%")?;
            continue;
        }
        let Some(value) = value.or_else(|| values.next()) else { return fail("a format has too few values") };
        let body = converted(kind, value, precision, budget)?;
        pad(&mut out, &body, flags, width.unwrap_or(0), budget)?;
    }
    if values.next().is_some() && !matches!(args, Value::Dict(_)) {
        return fail("a format has too many values");
    }
    budget.push(&mut out, rest)?;
    Ok(out)
}

/// A number of at most four digits.
fn digits(text: &str) -> Res<(Option<usize>, &str)> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    match n {
        0 => Ok((None, text)),
        1..=4 => Ok((text[..n].parse().ok(), &text[n..])),
        _ => fail("a width in a format is too large"),
    }
}

fn converted(kind: char, value: &Value, precision: Option<usize>, budget: &mut Budget) -> Res<String> {
    Ok(match (kind, value.number()) {
        ('s', _) => {
            let text = text::str(value, budget)?;
            match precision {
                Some(n) => text.chars().take(n).collect(),
                None => text,
            }
        }
        ('r', _) => text::repr(value, budget)?,
        ('d' | 'i', Some(number)) => match value.integer() {
            Some(n) => n.to_string(),
            None => match whole(number.float()) {
                Some(n) => n.to_string(),
                None => return fail("a number is too large"),
            },
        },
        ('f', Some(number)) => fixed(number.float(), precision.unwrap_or(6), budget)?,
        ('x', Some(_)) if value.integer().is_some_and(|n| n >= 0) => {
            format!("{:x}", value.integer().unwrap_or(0))
        }
        _ => return fail(format!("{} does not go with \"%{kind}\"", value.type_name())),
    })
}

/// A number with so many digits behind the point.
pub(super) fn fixed(x: f64, precision: usize, budget: &mut Budget) -> Res<String> {
    // There are at most 309 digits before it, which take much longer each than the bytes of a text.
    let text = format!("{x:.precision$}");
    budget.steps(text.len() / 4)?;
    Ok(text)
}

fn pad(out: &mut String, body: &str, flags: &str, width: usize, budget: &mut Budget) -> Res<()> {
    budget.scan(body)?;
    let missing = width.saturating_sub(body.chars().count());
    budget.bytes(body.len() + missing)?;
    if flags.contains('-') {
        out.push_str(body);
        out.extend(std::iter::repeat_n(' ', missing));
        return Ok(());
    }
    let zero = flags.contains('0') && body.ends_with(|c: char| c.is_ascii_digit());
    let (sign, digits) = body.split_at(usize::from(zero && body.starts_with('-')));
    out.push_str(sign);
    out.extend(std::iter::repeat_n(if zero { '0' } else { ' ' }, missing));
    out.push_str(digits);
    Ok(())
}

/// Python's `pattern.format(…)`, with `{}`, `{0}` and `{name}`.
pub(super) fn braces(pattern: &str, args: &CallArgs, budget: &mut Budget) -> Res<String> {
    budget.scan(pattern)?;
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    let mut numbered = false;
    while let Some(at) = rest.find(['{', '}']) {
        budget.steps(1)?;
        budget.push(&mut out, &rest[..at])?;
        let bracket = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix(bracket) {
            budget.push(&mut out, bracket)?;
            rest = tail;
            continue;
        }
        let Some((name, tail)) = rest.split_once('}').filter(|_| bracket == "{") else {
            return fail("a format has a single bracket");
        };
        rest = tail;
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
        let Some(value) = value else { return fail(format!("the format's \"{{{name}}}\" has no value")) };
        text::push_str(&mut out, value, budget)?;
    }
    budget.push(&mut out, rest)?;
    Ok(out)
}
