//! The filters behind `|`, as the Jinja2 package has them.
//! (<https://jinja.palletsprojects.com/en/stable/templates/#builtin-filters>)
#![forbid(unsafe_code)]

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Res, fail};
use super::methods::call_on_str;
use super::text::{self, JsonStyle};
use super::value::{List, Value};
use super::{elements, format, strings};

const NAMES: [&str; 45] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "wordcount",
];

pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `value | name(args)`.
pub(super) fn apply(machine: &mut Machine<'_>, name: &str, value: Value, args: CallArgs) -> Res<Value> {
    match name {
        "map" => return elements::map(machine, value, args),
        "select" | "reject" | "selectattr" | "rejectattr" => {
            return elements::select(machine, name, value, args);
        }
        "sort" | "unique" | "min" | "max" | "groupby" | "sum" | "join" => {
            return elements::by_attribute(machine, name, value, args);
        }
        "attr" => {
            let [Some(Value::Str(field))] = args.bind(name, ["name"])? else {
                return fail("attr needs a name");
            };
            return match &value {
                Value::Dict(_) => {
                    Ok(Value::Undefined(format!("the attribute \"{field}\" of an object").into()))
                }
                other => machine.field(other, &field),
            };
        }
        _ => {}
    }
    let budget = &mut machine.budget;
    match name {
        "lower" | "upper" | "capitalize" => call_on_str(&value, name, args, budget),
        "center" => {
            let [width] = args.bind(name, ["width"])?;
            let width = width.unwrap_or(Value::Int(80));
            call_on_str(&value, name, CallArgs { positional: vec![width], named: Vec::new() }, budget)
        }
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            call_on_str(
                &value,
                "strip",
                CallArgs { positional: chars.into_iter().collect(), named: Vec::new() },
                budget,
            )
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let part = |value: Option<Value>, budget: &mut Budget| match value {
                Some(value) => text::str(&value, budget),
                None => fail("replace needs two strings"),
            };
            let (old, new) = (part(old, budget)?, part(new, budget)?);
            let count = count.and_then(|n| n.integer()).and_then(|n| usize::try_from(n).ok());
            let whole = text::str(&value, budget)?;
            strings::replace(&whole, &old, &new, count, budget).map(Value::from)
        }
        "title" => {
            let [] = args.bind(name, [])?;
            Ok(Value::from(strings::title_words(&text::str(&value, budget)?)))
        }
        "string" | "safe" => {
            let [] = args.bind(name, [])?;
            Ok(Value::from(text::str(&value, budget)?))
        }
        "escape" | "e" | "forceescape" => {
            let [] = args.bind(name, [])?;
            escape(&text::str(&value, budget)?, budget)
        }
        "wordcount" => {
            let [] = args.bind(name, [])?;
            let text = text::str(&value, budget)?;
            let words = text.split(|c: char| c != '_' && !c.is_alphanumeric()).filter(|w| !w.is_empty());
            Ok(Value::Int(words.count() as i128))
        }
        "indent" => indent(&value, args, budget),
        "format" => {
            let pattern = text::str(&value, budget)?;
            let values = match args.named.is_empty() {
                true => Value::Tuple(List::new(args.positional, budget)?),
                false => {
                    let named =
                        args.named.into_iter().map(|(name, value)| (Value::from(name), value)).collect();
                    Value::Dict(super::value::Dict::new(named, budget)?)
                }
            };
            format::percent(&pattern, &values, budget).map(Value::from)
        }
        "length" | "count" => {
            let [] = args.bind(name, [])?;
            match value.len() {
                Some(n) => Ok(Value::Int(n as i128)),
                None => fail(format!("{} has no length", value.type_name())),
            }
        }
        "default" | "d" => {
            let [default, boolean] = args.bind(name, ["default_value", "boolean"])?;
            let boolean = boolean.is_some_and(|b| b.is_true());
            let keep = if boolean { value.is_true() } else { !value.is_undefined() };
            Ok(if keep { value } else { default.unwrap_or_else(|| Value::from("")) })
        }
        "list" => {
            let [] = args.bind(name, [])?;
            let items = value.iterate(budget)?;
            Ok(Value::List(List::new(items, budget)?))
        }
        "first" | "last" => {
            let [] = args.bind(name, [])?;
            let missing = || Value::Undefined(format!("the {name} element of nothing").into());
            let mut items = value.iterate(budget)?;
            let found = if name == "last" { items.pop() } else { items.into_iter().next() };
            Ok(found.unwrap_or_else(missing))
        }
        "reverse" => {
            let [] = args.bind(name, [])?;
            if let Value::Str(text) = &value {
                budget.bytes(text.len())?;
                return Ok(Value::from(text.chars().rev().collect::<String>()));
            }
            let mut items = value.iterate(budget)?;
            items.reverse();
            Ok(Value::Lazy(List::new(items, budget)?))
        }
        "items" => {
            let [] = args.bind(name, [])?;
            let pairs = match &value {
                Value::Undefined(_) => Vec::new(),
                Value::Dict(dict) => pairs(dict.entries().to_vec(), budget)?,
                other => return fail(format!("{} has no items", other.type_name())),
            };
            Ok(Value::Lazy(List::new(pairs, budget)?))
        }
        "dictsort" => elements::dict_sort(&value, args, budget),
        "batch" | "slice" => batch(name, &value, args, budget),
        "abs" => {
            let [] = args.bind(name, [])?;
            match (value.integer(), &value) {
                (Some(n), _) => {
                    n.checked_abs().map(Value::Int).map_or_else(|| fail("a number is too large"), Ok)
                }
                (None, Value::Float(x)) => Ok(Value::Float(x.abs())),
                _ => fail(format!("{} has no absolute value", value.type_name())),
            }
        }
        "round" => round(&value, args),
        "int" => {
            let [default, base] = args.bind(name, ["default", "base"])?;
            let base = base.and_then(|b| b.integer()).and_then(|b| u32::try_from(b).ok()).unwrap_or(10);
            let parsed = match &value {
                Value::Float(x) if x.is_finite() => Some(x.trunc() as i128),
                Value::Str(text) if (2..=36).contains(&base) => {
                    let text = text.trim();
                    let float =
                        || text.parse::<f64>().ok().filter(|x| x.is_finite()).map(|x| x.trunc() as i128);
                    i128::from_str_radix(text, base).ok().or_else(float)
                }
                other => other.integer(),
            };
            Ok(parsed.map_or(default.unwrap_or(Value::Int(0)), Value::Int))
        }
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = match &value {
                Value::Str(text) => text.trim().parse().ok(),
                other => other.number().map(|n| n.float()),
            };
            Ok(parsed.map_or(default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "tojson" => to_json(&value, args, budget),
        _ => fail(format!("there is no filter \"{name}\"")),
    }
}

fn pairs(entries: Vec<(Value, Value)>, budget: &mut Budget) -> Res<Vec<Value>> {
    entries.into_iter().map(|(key, value)| Ok(Value::Tuple(List::new(vec![key, value], budget)?))).collect()
}

fn escape(text: &str, budget: &mut Budget) -> Res<Value> {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => budget.push(&mut out, "&amp;")?,
            '<' => budget.push(&mut out, "&lt;")?,
            '>' => budget.push(&mut out, "&gt;")?,
            '"' => budget.push(&mut out, "&#34;")?,
            '\'' => budget.push(&mut out, "&#39;")?,
            c => budget.push(&mut out, c.encode_utf8(&mut [0; 4]))?,
        }
    }
    Ok(Value::from(out))
}

fn indent(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let is_true = |value: Option<Value>| value.is_some_and(|v| v.is_true());
    let (first, blank) = (is_true(first), is_true(blank));
    let indentation = match width {
        None => "    ".to_owned(),
        Some(Value::Str(text)) => text.to_string(),
        Some(width) => strings::pad("", "rjust", width.integer().unwrap_or(0), " ", budget)?,
    };
    let whole = text::str(value, budget)?;
    let mut lines = strings::lines(&whole, false);
    if whole.is_empty() || whole.ends_with('\n') {
        lines.push("");
    }
    let mut out = String::new();
    for (i, line) in lines.into_iter().enumerate() {
        budget.push(&mut out, if i > 0 { "\n" } else { "" })?;
        let wanted = if i == 0 { first } else { blank || !line.is_empty() };
        budget.push(&mut out, if wanted { &indentation } else { "" })?;
        budget.push(&mut out, line)?;
    }
    Ok(Value::from(out))
}

fn to_json(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = args.bind("tojson", names)?;
    let is_true = |value: Option<Value>| value.is_some_and(|v| v.is_true());
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text.to_string()),
        Some(width) => Some(strings::pad("", "rjust", width.integer().unwrap_or(0), " ", budget)?),
    };
    let (item_separator, key_separator) = match separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(Value::Tuple(pair) | Value::List(pair)) => match &pair.items[..] {
            [Value::Str(item), Value::Str(key)] => (item.to_string(), key.to_string()),
            _ => return fail("the separators of tojson are two strings"),
        },
        Some(_) => return fail("the separators of tojson are two strings"),
    };
    let (ensure_ascii, sort_keys) = (is_true(ensure_ascii), is_true(sort_keys));
    let style = JsonStyle { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    text::json(value, &style, budget).map(Value::from)
}

fn round(value: &Value, args: CallArgs) -> Res<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let Some(number) = value.number() else {
        return fail(format!("{} cannot be rounded", value.type_name()));
    };
    let precision = precision.and_then(|p| p.integer()).unwrap_or(0).clamp(-300, 300) as i32;
    let factor = libm::pow(10.0, f64::from(precision));
    let scaled = number.float() * factor;
    Ok(Value::Float(match method.as_ref().and_then(Value::str) {
        Some("ceil") => scaled.ceil() / factor,
        Some("floor") => scaled.floor() / factor,
        None | Some("common") => match precision {
            // Python rounds the decimal number, not the scaled one.
            0..=300 => {
                format!("{:.*}", precision as usize, number.float()).parse().unwrap_or(scaled / factor)
            }
            _ => libm::rint(scaled) / factor,
        },
        Some(other) => return fail(format!("rounding is common, ceil or floor, not \"{other}\"")),
    }))
}

fn batch(name: &str, value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [n, fill] = args.bind(name, ["count", "fill_with"])?;
    let n = n.and_then(|n| n.integer()).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
    let Some(n) = n else { return fail(format!("{name} needs a number above 0")) };
    let items = value.iterate(budget)?;
    let mut out = Vec::new();
    if name == "batch" {
        for part in items.chunks(n) {
            let mut part = part.to_vec();
            if let Some(fill) = &fill {
                budget.bytes((n - part.len()).saturating_mul(48))?;
                part.resize(n, fill.clone());
            }
            out.push(Value::List(List::new(part, budget)?));
        }
    } else {
        budget.bytes(n.saturating_mul(48))?;
        let (each, more) = (items.len() / n, items.len() % n);
        let mut at = 0;
        for i in 0..n {
            let end = at + each + usize::from(i < more);
            let mut part = items[at..end].to_vec();
            part.extend(fill.clone().filter(|_| i >= more && more > 0));
            out.push(Value::List(List::new(part, budget)?));
            at = end;
        }
    }
    Ok(Value::Lazy(List::new(out, budget)?))
}
