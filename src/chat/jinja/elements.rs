//! Filters over the elements of a value: sorting, grouping, choosing, and other filters for each.
#![forbid(unsafe_code)]

use std::cmp::Ordering;

use super::eval::{CallArgs, Machine};
use super::fault::{Budget, Res, fail};
use super::text;
use super::value::{List, STRING, Shape, Value};
use super::{filters, ops, predicates};

/// The form in which values are sorted and compared where case does not matter.
fn folded(value: &Value, case_sensitive: bool, budget: &mut Budget) -> Res<Value> {
    match value {
        Value::Str(text) if !case_sensitive => {
            budget.bytes(text.len())?;
            super::strings::cased(text.to_lowercase(), budget)
        }
        other => Ok(other.clone()),
    }
}

/// Sorts stably by the keys given with the values, as Python does. Any two compared keys must have an order, or the template
/// fails; a contradictory order does no harm. With `equal_first`, equal ones need no order.
fn sort_by_key(
    items: Vec<(Value, Value)>,
    reverse: bool,
    equal_first: bool,
    budget: &mut Budget,
) -> Res<Vec<(Value, Value)>> {
    // The parts of the deepest merge, and their sources.
    budget.bytes(items.len().saturating_mul(3 * std::mem::size_of::<(Value, Value)>()))?;
    merge_sort(items, reverse, equal_first, budget)
}

fn merge_sort(
    mut items: Vec<(Value, Value)>,
    reverse: bool,
    equal_first: bool,
    budget: &mut Budget,
) -> Res<Vec<(Value, Value)>> {
    if items.len() < 2 {
        return Ok(items);
    }
    budget.steps(items.len())?;
    let right = items.split_off(items.len() / 2);
    let mut left = merge_sort(items, reverse, equal_first, budget)?.into_iter().peekable();
    let mut right = merge_sort(right, reverse, equal_first, budget)?.into_iter().peekable();
    let mut out = Vec::with_capacity(left.len() + right.len());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if equal_first && b.0.equals(&a.0, budget)? {
            out.extend(left.next());
            continue;
        }
        let order = b.0.order(&a.0, budget)?;
        let is_before = order == Some(if reverse { Ordering::Greater } else { Ordering::Less });
        out.extend(if is_before { right.next() } else { left.next() });
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

/// `dictsort`: pairs of keys and values, in order.
pub(super) fn dict_sort(value: &Value, args: CallArgs, budget: &mut Budget) -> Res<Value> {
    let [case, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let case = case.is_some_and(|v| v.is_true());
    let Value::Dict(dict) = value else { return fail(format!("{} has no keys to sort", value.type_name())) };
    budget.bytes(dict.entries().len().saturating_mul(std::mem::size_of::<(Value, Value)>()))?;
    let by_value = match by.as_ref().map(|by| by.str()) {
        None | Some(Some("key")) => false,
        Some(Some("value")) => true,
        Some(_) => return fail("dictsort sorts by \"key\" or by \"value\""),
    };
    let mut keyed = Vec::with_capacity(dict.entries().len());
    for (key, value) in dict.entries() {
        let pair = Value::Tuple(List::new(vec![key.clone(), value.clone()], budget)?);
        keyed.push((folded(if by_value { value } else { key }, case, budget)?, pair));
    }
    let keyed = sort_by_key(keyed, reverse.is_some_and(|v| v.is_true()), false, budget)?;
    let items = keyed.into_iter().map(|(_, pair)| pair).collect();
    Ok(Value::List(List::new(items, budget)?))
}

/// The attribute `path` ("a.b.0") of a value; the value itself where there is no path.
fn attribute(machine: &mut Machine<'_>, value: &Value, path: Option<&Value>) -> Res<Value> {
    match path {
        None | Some(Value::None) => Ok(value.clone()),
        Some(Value::Str(path)) => {
            let mut value = value.clone();
            machine.budget.scan(path)?;
            for part in path.split('.') {
                machine.budget.bytes(part.len() + STRING)?;
                let key = part.parse().map_or_else(|_| Value::from(part), Value::Int);
                value = machine.item(&value, &key)?;
            }
            Ok(value)
        }
        Some(key) => machine.item(value, key),
    }
}

/// The values of more than one attribute, to sort by.
fn attributes(machine: &mut Machine<'_>, value: &Value, paths: &str, case: bool) -> Res<Value> {
    let mut found = Vec::new();
    for path in paths.split(',') {
        machine.budget.bytes(path.len() + STRING)?;
        let value = attribute(machine, value, Some(&Value::from(path)))?;
        found.push(folded(&value, case, &mut machine.budget)?);
    }
    Ok(Value::List(List::new(found, &mut machine.budget)?))
}

/// `sort`, `unique`, `min`, `max`, `groupby`, `sum` and `join`, of the elements or of one of their attributes.
#[inline(never)]
pub(super) fn by_attribute(
    machine: &mut Machine<'_>,
    name: &str,
    value: Value,
    args: CallArgs,
) -> Res<Value> {
    let is_true = |value: &Option<Value>| value.as_ref().is_some_and(|v| v.is_true());
    let names = match name {
        "sort" => ["reverse", "case_sensitive", "attribute"],
        "unique" | "min" | "max" => ["case_sensitive", "attribute", ""],
        "groupby" => ["attribute", "default", "case_sensitive"],
        "sum" => ["attribute", "start", ""],
        _ => ["d", "attribute", ""],
    };
    let bound = args.bind(name, names)?;
    let get = |name: &str| names.iter().position(|n| *n == name).and_then(|i| bound[i].clone());
    let path = get("attribute");
    let case = is_true(&get("case_sensitive"));
    let items = value.iterate(&mut machine.budget)?;
    machine.budget.bytes(items.len().saturating_mul(std::mem::size_of::<(Value, Value)>()))?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let mut found = match (name, &path) {
            ("sort", Some(Value::Str(path))) if path.contains(',') => attributes(machine, &item, path, case)?,
            _ => attribute(machine, &item, path.as_ref())?,
        };
        if name == "groupby" && found.is_undefined() {
            found = get("default").unwrap_or(found);
        }
        keyed.push((found, item));
    }
    let budget = &mut machine.budget;
    match name {
        "join" => {
            let separator = get("d").map_or(Ok(String::new()), |d| text::str(&d, budget))?;
            let mut out = String::new();
            for (i, (value, _)) in keyed.iter().enumerate() {
                budget.push(&mut out, if i > 0 { &separator } else { "" })?;
                text::push_str(&mut out, value, budget)?;
            }
            return Ok(Value::from(out));
        }
        "sum" => {
            let mut sum = get("start").unwrap_or(Value::Int(0));
            if sum.str().is_some() {
                return fail("strings are joined by the filter join, not by sum");
            }
            for (value, _) in &keyed {
                sum = ops::binary(super::ast::Binary::Add, &sum, value, budget)?;
            }
            return Ok(sum);
        }
        _ => {}
    }
    for (key, _) in &mut keyed {
        *key = folded(key, case, budget)?;
    }
    match name {
        "unique" => {
            let mut out: Vec<(Value, Value)> = Vec::new();
            for (key, item) in keyed {
                if let Value::List(_) | Value::Dict(_) = key {
                    return fail(format!("{} cannot be compared by unique", key.type_name()));
                }
                let mut seen = false;
                for (other, _) in &out {
                    seen |= key.equals(other, budget)?;
                }
                if !seen {
                    out.push((key, item));
                }
            }
            let items = out.into_iter().map(|(_, item)| item).collect();
            Ok(Value::Lazy(List::new(items, budget)?))
        }
        "min" | "max" => {
            let mut best: Option<(Value, Value)> = None;
            for (key, item) in keyed {
                let better = match &best {
                    None => true,
                    Some((other, _)) if name == "min" => key.order(other, budget)? == Some(Ordering::Less),
                    Some((other, _)) => key.order(other, budget)? == Some(Ordering::Greater),
                };
                if better {
                    best = Some((key, item));
                }
            }
            match best {
                Some((_, item)) => Ok(item),
                None => Value::undefined(&format!("the {name} of nothing"), budget),
            }
        }
        "groupby" => {
            let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
            for (key, item) in sort_by_key(keyed, false, false, budget)? {
                match groups.last_mut() {
                    Some((last, group)) if last.equals(&key, budget)? => group.push(item),
                    _ => groups.push((key, vec![item])),
                }
            }
            let mut out = Vec::new();
            for (mut key, group) in groups {
                if let (false, Some(first)) = (case, group.first()) {
                    // The original key, not its folded form.
                    key = attribute(machine, first, path.as_ref())?;
                    if key.is_undefined() {
                        key = get("default").unwrap_or(key);
                    }
                }
                let budget = &mut machine.budget;
                let group = Value::List(List::new(group, budget)?);
                out.push(Value::Tuple(List::shaped(vec![key, group], Shape::Group, budget)?));
            }
            let budget = &mut machine.budget;
            Ok(Value::List(List::new(out, budget)?))
        }
        _ => {
            let keyed = sort_by_key(keyed, is_true(&get("reverse")), true, budget)?;
            let items = keyed.into_iter().map(|(_, item)| item).collect();
            Ok(Value::List(List::new(items, budget)?))
        }
    }
}

/// The elements for `map`, `select` and the like: none, where the value counts as false.
fn some_items(value: &Value, budget: &mut Budget) -> Res<Vec<Value>> {
    if value.is_true() { value.iterate(budget) } else { Ok(Vec::new()) }
}

/// A copy of arguments.
fn again(positional: &[Value], named: &[(String, Value)], budget: &mut Budget) -> Res<CallArgs> {
    budget.bytes(positional.len() * 48)?;
    for (name, _) in named {
        budget.bytes(name.len() + 64)?;
    }
    Ok(CallArgs { positional: positional.to_vec(), named: named.to_vec() })
}

/// `map`: an attribute of each element, or another filter for each.
#[inline(never)]
pub(super) fn map(machine: &mut Machine<'_>, value: Value, args: CallArgs) -> Res<Value> {
    let items = some_items(&value, &mut machine.budget)?;
    let mut out = Vec::with_capacity(items.len());
    let mut positional = args.positional.into_iter();
    match positional.next() {
        None if args.named.iter().all(|(name, _)| name != "attribute") => {
            return fail("map needs the name of a filter or an attribute");
        }
        None => map_attribute(machine, items, args.named, &mut out)?,
        Some(filter) => {
            let Some(filter) = filter.str() else { return fail("map needs the name of a filter") };
            let rest: Vec<Value> = positional.collect();
            machine.enter()?;
            for item in items {
                machine.enter()?;
                let args = again(&rest, &args.named, &mut machine.budget)?;
                out.push(filters::apply(machine, filter, item, args)?);
                machine.depth -= 1;
            }
            machine.depth -= 1;
        }
    }
    Ok(Value::Lazy(List::new(out, &mut machine.budget)?))
}

#[inline(never)]
fn map_attribute(
    machine: &mut Machine<'_>,
    items: Vec<Value>,
    named: Vec<(String, Value)>,
    out: &mut Vec<Value>,
) -> Res<()> {
    let [path, default] = CallArgs { positional: Vec::new(), named }.bind("map", ["attribute", "default"])?;
    for item in items {
        let found = attribute(machine, &item, path.as_ref())?;
        out.push(match (&default, found.is_undefined()) {
            (Some(default), true) => default.clone(),
            _ => found,
        });
    }
    Ok(())
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
#[inline(never)]
pub(super) fn select(machine: &mut Machine<'_>, name: &str, value: Value, args: CallArgs) -> Res<Value> {
    let wanted = name.starts_with("select");
    let mut positional = args.positional.into_iter();
    let path = if name.ends_with("attr") {
        match positional.next() {
            Some(path) => Some(path),
            None => return fail(format!("{name} needs the name of an attribute")),
        }
    } else {
        None
    };
    let test = positional.next();
    let rest: Vec<Value> = positional.collect();
    let mut out = Vec::new();
    for item in some_items(&value, &mut machine.budget)? {
        let subject = attribute(machine, &item, path.as_ref())?;
        let holds = match &test {
            None => subject.is_true(),
            Some(Value::Str(test)) => {
                let args = again(&rest, &args.named, &mut machine.budget)?;
                predicates::check(machine, test, &subject, args)?
            }
            Some(other) => {
                return fail(format!("{name} needs the name of a test, not {}", other.type_name()));
            }
        };
        if holds == wanted {
            out.push(item);
        }
    }
    Ok(Value::Lazy(List::new(out, &mut machine.budget)?))
}
