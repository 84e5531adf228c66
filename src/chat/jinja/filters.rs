//! The filters after `|`, as in the Jinja2 package. (<https://jinja.palletsprojects.com/en/stable/templates/#builtin-filters>)
#![forbid(unsafe_code)]

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Res, fail};
use super::methods::call_on_str;
use super::text::{self, JsonStyle};
use super::value::{List, Value};
use super::{elements, format, numbers, strings};

const NAMES: [&str; 48] = [
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
    "filesizeformat",
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
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
];

/// Filters of the Jinja2 package that Ember does not have: those for web pages, and two that lay out text by rules of their own.
const REFUSED: [&str; 6] = ["pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"];

/// Whether the Jinja2 package has a filter that Ember does not. A template that names one is not compiled.
pub(super) fn is_refused(name: &str) -> bool {
    REFUSED.contains(&name)
}

pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `value | name(args)`.
pub(super) fn apply(machine: &mut Machine<'_>, name: &str, value: Value, args: CallArgs) -> Res<Value> {
    match name {
        "map" => elements::map(machine, value, args),
        "select" | "reject" | "selectattr" | "rejectattr" => elements::select(machine, name, value, args),
        "sort" | "unique" | "min" | "max" | "groupby" | "sum" | "join" => {
            elements::by_attribute(machine, name, value, args)
        }
        "attr" => attribute(machine, &value, args),
        _ => plain(name, value, args, &mut machine.budget),
    }
}

#[inline(never)]
fn attribute(machine: &mut Machine<'_>, value: &Value, args: CallArgs) -> Res<Value> {
    let [Some(Value::Str(name))] = args.bind("attr", ["name"])? else {
        return fail("attr needs a name");
    };
    match value {
        Value::Dict(_) => Value::missing(&name, " as an attribute of an object", &mut machine.budget),
        other => machine.field(other, &name),
    }
}

/// A filter that needs only its value and arguments. It is not inlined, so that filters that call filters recurse with small
/// frames.
#[inline(never)]
fn plain(name: &str, value: Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
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
            let (Some(old), Some(new)) = (old, new) else { return fail("replace needs two strings") };
            let mut positional = vec![text::str(&old, budget)?.into(), text::str(&new, budget)?.into()];
            positional.extend(count);
            call_on_str(&value, name, CallArgs { positional, named: Vec::new() }, budget)
        }
        "title" => {
            let [] = args.bind(name, [])?;
            let text = text::str(&value, budget)?;
            strings::cased(strings::title_words(&text), budget)
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
            if !args.positional.is_empty() && !args.named.is_empty() {
                return fail("format takes values with names or without, not both");
            }
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
            Ok(Value::Int(value.len(budget)? as i128))
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
            if matches!((name, &value), ("last", Value::Lazy(_))) {
                return fail("a generator has no last element; the filter list makes a list of it");
            }
            let mut items = value.iterate(budget)?;
            let found = if name == "last" { items.pop() } else { items.into_iter().next() };
            match found {
                Some(found) => Ok(found),
                None => Value::undefined(&format!("the {name} element of nothing"), budget),
            }
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
                Value::Dict(dict) => pairs(dict.entries(), budget)?,
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
        "round" => round(&value, args, budget),
        "int" => {
            let [default, base] = args.bind(name, ["default", "base"])?;
            let parsed = numbers::int(&value, base.as_ref(), budget)?;
            Ok(parsed.map_or(default.unwrap_or(Value::Int(0)), Value::Int))
        }
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = numbers::float(&value, budget)?;
            Ok(parsed.map_or(default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "truncate" => truncate(&value, args, budget),
        "filesizeformat" => file_size(&value, args, budget),
        "urlencode" => {
            let [] = args.bind(name, [])?;
            url_encode(&value, budget)
        }
        "tojson" => to_json(&value, args, budget),
        _ => fail(format!("there is no filter \"{name}\"")),
    }
}

/// Keys and values as tuples.
pub(super) fn pairs(entries: &[(Value, Value)], budget: &mut Budget) -> Res<Vec<Value>> {
    let mut out = Vec::new();
    for (key, value) in entries {
        out.push(Value::Tuple(List::new(vec![key.clone(), value.clone()], budget)?));
    }
    Ok(out)
}

fn truncate(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [length, kill_words, end, leeway] =
        args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let number = |value: Option<Value>, default: i128| match value {
        None => Ok(default),
        Some(value) => match value.integer() {
            Some(n) => Ok(n),
            None => fail(format!("truncate needs a number, not {}", value.type_name())),
        },
    };
    let leeway = number(leeway.filter(|v| !matches!(v, Value::None)), 5)?;
    let length = number(length, 255)?;
    let end = end.unwrap_or_else(|| Value::from("..."));
    let Some(end) = end.str() else { return fail("truncate needs a string to end with") };
    budget.scan(end)?;
    let (Ok(length), Ok(leeway)) = (usize::try_from(length), usize::try_from(leeway)) else {
        return fail("truncate needs numbers that are not negative");
    };
    if length < end.chars().count() {
        return fail("truncate is given a length below that of its end");
    }
    match value {
        Value::Undefined(_) => Ok(value.clone()),
        Value::Str(text) => {
            let kill_words = kill_words.is_some_and(|v| v.is_true());
            strings::truncate(text, [length, leeway], kill_words, end, budget).map(Value::from)
        }
        other if other.len(budget)? <= length.saturating_add(leeway) => Ok(value.clone()),
        other => fail(format!("only a string can be truncated, not {}", other.type_name())),
    }
}

fn file_size(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [binary] = args.bind("filesizeformat", ["binary"])?;
    let binary = binary.is_some_and(|v| v.is_true());
    let Some(size) = numbers::float(value, budget)?.filter(|size| !size.is_nan()) else {
        return fail(format!("{} is no size", value.type_name()));
    };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if size == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if size < base {
        let Some(whole) = super::value::whole(size) else { return fail("a number is too large") };
        return Ok(Value::from(format!("{whole} Bytes")));
    }
    let mut unit = base;
    let mut prefixes = "kMGTPEZY".chars().peekable();
    while let Some(prefix) = prefixes.next() {
        unit *= base;
        if size < unit || prefixes.peek().is_none() {
            let prefix = if binary { prefix.to_ascii_uppercase() } else { prefix };
            let size = format::fixed(base * size / unit, 1, budget)?;
            return Ok(Value::from(format!("{size} {prefix}{}B", if binary { "i" } else { "" })));
        }
    }
    fail("a number is too large")
}

fn url_encode(value: &Value, budget: &mut Budget) -> Res<Value> {
    let mut out = String::new();
    let entries = match value {
        Value::Dict(dict) => pairs(dict.entries(), budget)?,
        Value::List(_) | Value::Tuple(_) | Value::Lazy(_) => value.iterate(budget)?,
        other => {
            strings::url_quote(&mut out, &text::str(other, budget)?, false, budget)?;
            return Ok(Value::from(out));
        }
    };
    for (i, pair) in entries.iter().enumerate() {
        let [key, value] = &pair.iterate(budget)?[..] else {
            return fail("urlencode needs pairs of names and values");
        };
        budget.push(&mut out, if i > 0 { "&" } else { "" })?;
        strings::url_quote(&mut out, &text::str(key, budget)?, true, budget)?;
        budget.push(&mut out, "=")?;
        strings::url_quote(&mut out, &text::str(value, budget)?, true, budget)?;
    }
    Ok(Value::from(out))
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
        Some(text @ Value::Str(_)) => text::str(&text, budget)?,
        Some(width) => match width.integer() {
            Some(width) => strings::pad("", "rjust", width, " ", budget)?,
            None => return fail(format!("indent needs a number or a string, not {}", width.type_name())),
        },
    };
    let Some(whole) = value.str() else {
        return fail(format!("only a string can be indented, not {}", value.type_name()));
    };
    budget.scan(whole)?;
    let last = (whole.is_empty() || whole.ends_with('\n')).then_some("");
    let mut out = String::new();
    for (i, line) in strings::lines(whole, false).chain(last).enumerate() {
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
        Some(text @ Value::Str(_)) => Some(text::str(&text, budget)?),
        Some(width) => Some(strings::pad("", "rjust", width.integer().unwrap_or(0), " ", budget)?),
    };
    let (item_separator, key_separator) = match separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(Value::Tuple(pair) | Value::List(pair)) => match &pair.items[..] {
            [item @ Value::Str(_), key @ Value::Str(_)] => {
                (text::str(item, budget)?, text::str(key, budget)?)
            }
            _ => return fail("the separators of tojson are two strings"),
        },
        Some(_) => return fail("the separators of tojson are two strings"),
    };
    let (ensure_ascii, sort_keys) = (is_true(ensure_ascii), is_true(sort_keys));
    let style = JsonStyle { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    text::json(value, &style, budget).map(Value::from)
}

fn round(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let Some(number) = value.number() else {
        return fail(format!("{} cannot be rounded", value.type_name()));
    };
    let precision = precision.and_then(|p| p.integer()).unwrap_or(0);
    let is_common = matches!(method.as_ref().and_then(Value::str), None | Some("common"));
    if let (Some(n), true) = (value.integer(), is_common) {
        return numbers::round_int(n, precision).map(Value::Int);
    }
    let precision = precision.clamp(-300, 300) as i32;
    let factor = libm::pow(10.0, f64::from(precision));
    let scaled = number.float() * factor;
    Ok(Value::Float(match method.as_ref().and_then(Value::str) {
        Some("ceil") => scaled.ceil() / factor,
        Some("floor") => scaled.floor() / factor,
        None | Some("common") => match precision {
            // Python rounds the decimal number, not the scaled one.
            0..=300 => {
                let decimal = format::fixed(number.float(), precision as usize, budget)?;
                decimal.parse().unwrap_or(scaled / factor)
            }
            _ => libm::rint(scaled) / factor,
        },
        Some(other) => return fail(format!("rounding is common, ceil or floor, not \"{other}\"")),
    }))
}

fn batch(name: &str, value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [n, fill] = args.bind(name, [if name == "batch" { "linecount" } else { "slices" }, "fill_with"])?;
    let fill = fill.filter(|fill| !matches!(fill, Value::None));
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
