//! The methods of strings, objects and lists that do not change them, as Python has them.
#![forbid(unsafe_code)]

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Res, fail};
use super::lexer::is_space;
use super::value::{List, STRING, Shape, Value, View};
use super::{filters, format, functions, helpers, numbers, strings, text};

const STR: [&str; 39] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
];
const STR_TOO: [&str; 4] = ["expandtabs", "isprintable", "upper", "zfill"];
const DICT: [&str; 6] = ["get", "items", "keys", "values", "copy", "fromkeys"];
/// They change the object, which a template may not do.
const DICT_REFUSED: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const LIST: [&str; 3] = ["count", "index", "copy"];
const LIST_REFUSED: [&str; 8] = ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];

/// Whether a value has a method.
pub(super) fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Str(_) => STR.contains(&name) || STR_TOO.contains(&name),
        Value::Dict(_) => DICT.contains(&name) || DICT_REFUSED.contains(&name),
        Value::List(_) if value.is_plain() => LIST.contains(&name) || LIST_REFUSED.contains(&name),
        Value::Tuple(_) => ["count", "index"].contains(&name),
        Value::Loop(_) => ["cycle", "changed"].contains(&name),
        Value::Helper(_) => ["next", "reset"].contains(&name),
        Value::Function("dict") => name == "fromkeys",
        Value::Float(_) => name == "is_integer",
        _ => false,
    }
}

/// Calls a method.
#[inline(never)]
pub(super) fn call(machine: &mut Machine<'_>, value: &Value, name: &str, args: CallArgs) -> Res<Value> {
    let refused = match value {
        Value::Dict(_) => DICT_REFUSED.contains(&name),
        Value::List(_) => LIST_REFUSED.contains(&name),
        _ => false,
    };
    if refused {
        return fail(format!("\"{name}\" would change {}, which a template may not", value.type_name()));
    }
    match (value, name) {
        (Value::Str(text), "format") => return format::braces(machine, text, &args).map(Value::from),
        (Value::Dict(_) | Value::Function(_), "fromkeys") => {
            return functions::from_keys(args, &mut machine.budget);
        }
        (Value::Helper(id), _) => return helpers::method(machine, *id, name, args),
        _ => {}
    }
    let budget = &mut machine.budget;
    match value {
        Value::Float(x) => {
            let [] = args.bind(name, [])?;
            Ok(Value::Bool(x.is_finite() && x.trunc() == *x))
        }
        Value::Str(text) => string(text, name, args, budget),
        Value::Loop(id) => functions::loop_method(machine, *id, name, args),
        Value::Dict(dict) => {
            if name == "get" {
                if !args.named.is_empty() {
                    return fail("get has no named parameters");
                }
                let [key, default] = args.bind(name, ["key", "default"])?;
                let Some(key) = key else { return fail("get needs a key") };
                return Ok(dict.get(&key, budget)?.cloned().or(default).unwrap_or(Value::None));
            }
            let [] = args.bind(name, [])?;
            let entries = dict.entries();
            let (items, view) = match name {
                "copy" => return Ok(value.clone()),
                "items" => (filters::pairs(entries, budget)?, View::Items),
                "keys" => (entries.iter().map(|(key, _)| key.clone()).collect(), View::Keys),
                _ => (entries.iter().map(|(_, value)| value.clone()).collect(), View::Values),
            };
            Ok(Value::List(List::shaped(items, Shape::View(view), budget)?))
        }
        Value::List(list) | Value::Tuple(list) => {
            if name == "copy" {
                return Ok(value.clone());
            }
            let [Some(wanted)] = args.bind(name, ["value"])? else {
                return fail(format!("{name} needs a value"));
            };
            let mut n = 0;
            for (i, item) in list.items.iter().enumerate() {
                if item.equals(&wanted, budget)? {
                    if name == "index" {
                        return Ok(Value::Int(i as i128));
                    }
                    n += 1;
                }
            }
            if name == "index" { fail("the list has no such value") } else { Ok(Value::Int(n)) }
        }
        other => fail(format!("{} has no method \"{name}\"", other.type_name())),
    }
}

/// An argument that is a string.
fn need<'v>(value: Option<&'v Value>, name: &str) -> Res<&'v str> {
    match value {
        Some(Value::Str(text)) => Ok(text),
        Some(other) => fail(format!("{name} needs a string, not {}", other.type_name())),
        None => fail(format!("{name} needs a string")),
    }
}

/// An argument that is a string if it is there.
fn optional<'v>(value: &'v Option<Value>, name: &str) -> Res<Option<&'v str>> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(value) => need(Some(value), name).map(Some),
    }
}

fn string(text: &str, name: &str, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    // The text is read, and so are arguments that are strings. The result is no longer than the text, or is charged below.
    budget.bytes(text.len())?;
    budget.scan(text)?;
    for argument in args.positional.iter().chain(args.named.iter().map(|(_, value)| value)) {
        budget.scan(argument.str().unwrap_or_default())?;
    }
    let all = |test: fn(char) -> bool| Ok(Value::Bool(!text.is_empty() && text.chars().all(test)));
    let cased = |wanted: fn(char) -> bool, other: fn(char) -> bool| {
        Ok(Value::Bool(text.chars().any(wanted) && !text.chars().any(other)))
    };
    match name {
        "startswith" | "endswith" => {
            let [affix, start, end] = args.bind(name, ["prefix", "start", "end"])?;
            let Some((_, text)) = strings::between(text, [start, end])? else {
                return Ok(Value::Bool(false));
            };
            let matches = |affix: &str| match name {
                "startswith" => text.starts_with(affix),
                _ => text.ends_with(affix),
            };
            if let Some(Value::Tuple(affixes)) = &affix {
                for affix in &affixes.items {
                    let affix = need(Some(affix), name)?;
                    budget.steps(1 + affix.len().min(text.len()) / 64)?;
                    if matches(affix) {
                        return Ok(Value::Bool(true));
                    }
                }
                return Ok(Value::Bool(false));
            }
            Ok(Value::Bool(matches(need(affix.as_ref(), name)?)))
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"])?;
            let (chars, start, end) = (optional(&chars, name)?, name != "rstrip", name != "lstrip");
            strings::strip(text, chars, start, end, budget).map(Value::from)
        }
        "split" | "rsplit" => {
            let [separator, most] = args.bind(name, ["sep", "maxsplit"])?;
            let most = most.and_then(|n| n.integer()).and_then(|n| usize::try_from(n).ok());
            let separator = optional(&separator, name)?;
            if separator == Some("") {
                return fail("the separator of split is empty");
            }
            let parts = strings::split(text, separator, most, name == "rsplit", budget)?;
            Ok(Value::List(List::new(parts, budget)?))
        }
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"])?;
            let size = size.map_or(Some(8), |size| size.integer());
            let Some(size) = size.and_then(|size| usize::try_from(size.max(0)).ok()) else {
                return fail("expandtabs needs an integer");
            };
            strings::expand_tabs(text, size, budget).map(Value::from)
        }
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"])?;
            let keep = keep.is_some_and(|keep| keep.is_true());
            let mut parts = Vec::new();
            for line in strings::lines(text, keep) {
                strings::push_part(&mut parts, line, budget)?;
            }
            Ok(Value::List(List::new(parts, budget)?))
        }
        "partition" | "rpartition" => {
            let [separator] = args.bind(name, ["sep"])?;
            let separator = need(separator.as_ref(), name)?;
            let found =
                if name == "partition" { text.split_once(separator) } else { text.rsplit_once(separator) };
            let parts = match (found, name) {
                (Some((before, after)), _) => [before, separator, after],
                (None, "partition") => [text, "", ""],
                (None, _) => ["", "", text],
            };
            budget.bytes(separator.len() + parts.len() * STRING)?;
            Ok(Value::Tuple(List::new(parts.map(Value::from).to_vec(), budget)?))
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let count = count.and_then(|n| n.integer()).and_then(|n| usize::try_from(n).ok());
            strings::replace(text, need(old.as_ref(), name)?, need(new.as_ref(), name)?, count, budget)
                .map(Value::from)
        }
        "join" => {
            let [items] = args.bind(name, ["iterable"])?;
            let Some(items) = items else { return fail("join needs strings") };
            let mut out = String::new();
            for (i, item) in items.iterate(budget)?.into_iter().enumerate() {
                budget.push(&mut out, if i > 0 { text } else { "" })?;
                budget.push(&mut out, need(Some(&item), name)?)?;
            }
            Ok(Value::from(out))
        }
        "count" | "find" | "rfind" | "index" | "rindex" => {
            let [part, start, end] = args.bind(name, ["sub", "start", "end"])?;
            let part = need(part.as_ref(), name)?;
            let Some((before, text)) = strings::between(text, [start, end])? else {
                return match name {
                    "count" => Ok(Value::Int(0)),
                    "find" | "rfind" => Ok(Value::Int(-1)),
                    _ => fail("the text has no such part"),
                };
            };
            if name == "count" {
                return Ok(Value::Int(text.matches(part).count() as i128));
            }
            let at = if name.starts_with('r') { text.rfind(part) } else { text.find(part) };
            match at {
                Some(at) => Ok(Value::Int((before + text[..at].chars().count()) as i128)),
                None if name.ends_with("find") => Ok(Value::Int(-1)),
                None => fail("the text has no such part"),
            }
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind(name, ["affix"])?;
            let affix = need(affix.as_ref(), name)?;
            let rest =
                if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Ok(Value::from(rest.unwrap_or(text)))
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = args.bind(name, ["width", "fillchar"])?;
            let width = width.and_then(|n| n.integer()).unwrap_or(0);
            let fill = optional(&fill, name)?.unwrap_or(if name == "zfill" { "0" } else { " " });
            strings::pad(text, name, width, fill, budget).map(Value::from)
        }
        _ => {
            let [] = args.bind(name, [])?;
            match name {
                "upper" => strings::cased(text.to_uppercase(), budget),
                "lower" => strings::cased(text.to_lowercase(), budget),
                "casefold" => strings::cased(strings::case_fold(text), budget),
                "title" => strings::cased(strings::title(text), budget),
                "capitalize" => strings::cased(strings::capitalize(text), budget),
                "swapcase" => strings::cased(strings::swap_case(text), budget),
                "isalnum" => all(char::is_alphanumeric),
                "isalpha" => all(char::is_alphabetic),
                "isascii" => Ok(Value::Bool(text.is_ascii())),
                "isdigit" => all(numbers::is_digit),
                "isdecimal" => all(numbers::is_decimal),
                "isnumeric" => all(char::is_numeric),
                "isidentifier" => {
                    let name = |(i, c): (usize, char)| {
                        c == '_' || c.is_alphabetic() || (i > 0 && c.is_alphanumeric())
                    };
                    Ok(Value::Bool(!text.is_empty() && text.chars().enumerate().all(name)))
                }
                "isprintable" => Ok(Value::Bool(text.chars().all(text::is_printable))),
                "isspace" => all(is_space),
                "islower" => cased(char::is_lowercase, char::is_uppercase),
                "isupper" => cased(char::is_uppercase, char::is_lowercase),
                "istitle" => {
                    Ok(Value::Bool(text.chars().any(char::is_alphabetic) && strings::title(text) == text))
                }
                _ => fail(format!("the method \"{name}\" of strings is not supported")),
            }
        }
    }
}

/// Calls a string method on `value` as a string, for filters.
pub(super) fn call_on_str(value: &Value, name: &str, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let text = text::str(value, budget)?;
    string(&text, name, args, budget)
}
