//! JSON schemas: checks and changes before `llguidance` compiles them.
#![forbid(unsafe_code)]

use llguidance::JsonCompileOptions;
use serde_json::{Map, Value, json};

use super::options::ConstraintOptions;
use crate::error::{Error, Result};
use crate::gguf::json;

/// The key of `llguidance`'s options.
const OPTIONS: &str = "x-guidance";
/// Most members of lists whose compilation takes quadratic time.
const MOST: [(&str, usize); 3] = [("oneOf", 256), ("patternProperties", 64), ("allOf", 256)];
/// Keywords whose values are no schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// A JSON schema as a tree in the form that `%json` takes in a grammar, with its options under the key `x-guidance`.
///
/// # Errors
/// `InvalidArgument` for text that is no schema, or too large; `Unsupported` for unknown keywords.
pub fn read(text: &str, options: &ConstraintOptions) -> Result<Value> {
    let schema = json::tree(text.as_bytes())
        .map_err(|e| Error::InvalidArgument(format!("the JSON schema is no JSON: {e}")))?;
    let mut schema = match schema {
        Value::Object(schema) => Value::Object(schema),
        Value::Bool(true) => Value::Object(Map::new()),
        Value::Bool(false) => {
            return Err(Error::InvalidArgument("the JSON schema cannot be met: it is false".into()));
        }
        _ => {
            return Err(Error::InvalidArgument("the JSON schema must be an object, true or false".into()));
        }
    };
    if schema.get(OPTIONS).is_some() {
        return Err(Error::Unsupported(format!(
            "the JSON schema has the key \"{OPTIONS}\", which is no keyword of JSON Schema: use the options of the constraint"
        )));
    }
    check(&schema)?;
    make_exact(&mut schema);
    let root = schema.clone();
    if !has_identifiers(&root) {
        resolve_exclusive(&mut schema, &root);
    }
    to_options(options).apply_to(&mut schema);
    Ok(schema)
}

/// The schema of any object.
pub(super) fn object(options: &ConstraintOptions) -> Value {
    let mut schema = json!({"type": "object"});
    to_options(options).apply_to(&mut schema);
    schema
}

fn to_options(options: &ConstraintOptions) -> JsonCompileOptions {
    let n = options.whitespace;
    JsonCompileOptions {
        whitespace_flexible: n > 0,
        whitespace_pattern: (n > 0).then(|| format!(r"[\x20\x0A\x0D\x09]{{1,{n}}}")),
        ..JsonCompileOptions::default()
    }
}

/// `InvalidArgument` for schemas that would take too long.
fn check(schema: &Value) -> Result<()> {
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(list) => rest.extend(list),
            Value::Object(members) => {
                for (key, value) in members {
                    let n = value.as_array().map(Vec::len).or(value.as_object().map(Map::len)).unwrap_or(0);
                    if let Some((_, most)) = MOST.iter().find(|(name, most)| name == key && n > *most) {
                        return Err(Error::InvalidArgument(format!(
                            "the JSON schema has \"{key}\" with {n} members, more than {most}"
                        )));
                    }
                    rest.push(value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether references may mean something other than a place below the root.
fn has_identifiers(schema: &Value) -> bool {
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(list) => rest.extend(list),
            Value::Object(members) => {
                if ["$id", "id"].iter().any(|key| members.get(*key).is_some_and(Value::is_string)) {
                    return true;
                }
                rest.extend(members.values());
            }
            _ => {}
        }
    }
    false
}

/// Replaces references that are parts of `oneOf` by their targets: only then can `llguidance` see that the parts exclude each
/// other. References within the targets stay.
fn resolve_exclusive(schema: &mut Value, root: &Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(|item| resolve_exclusive(item, root)),
        Value::Object(members) => {
            // These hold values, not schemas.
            let schemas = members.iter_mut().filter(|(key, _)| !VALUES.contains(&key.as_str()));
            for (key, value) in schemas {
                resolve_exclusive(value, root);
                let parts = value.as_array_mut().filter(|_| key == "oneOf");
                for part in parts.into_iter().flatten() {
                    if let Some(meaning) = target(part, root) {
                        *part = meaning.clone();
                    }
                }
            }
        }
        _ => {}
    }
}

/// The target of a schema that is only a reference into `root`.
fn target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let members = schema.as_object().filter(|members| members.len() == 1)?;
    let pointer = members.get("$ref")?.as_str()?.strip_prefix('#')?;
    // References with percent signs are left to the compiler.
    let target = root.pointer(pointer).filter(|_| !pointer.is_empty() && !pointer.contains('%'))?;
    target.is_object().then_some(target)
}

/// An existing day: 30 and 31 days of months, and the 29th of February in leap years from the year 1 on.
const DATE: &str = concat!(
    "(?:(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-",
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
);
/// A time of day with its distance from UTC, without leap seconds, which exist at few times only.
const TIME: &str = concat!(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?",
    "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
);

/// The expression of a format for which `llguidance` allows days and times that do not exist.
fn exact(format: &str) -> Option<String> {
    match format {
        "date" => Some(format!("^{DATE}$")),
        "time" => Some(format!("^{TIME}$")),
        "date-time" => Some(format!("^{DATE}[tT]{TIME}$")),
        _ => None,
    }
}

/// The expression, in the syntax of the crate `regex`, of a format of JSON Schema, where Ember has one.
pub fn expression(format: &str) -> Option<String> {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    let number = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    Some(match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}[tT]{TIME}"),
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_owned(),
        "email" => {
            let word = r"[a-zA-Z0-9!#$%&'*+\-=?^_`{|}~]+";
            format!(r"{word}(?:\.{word})*@{label}(?:\.{label})*")
        }
        "hostname" => format!(r"{label}(?:\.{label})*"),
        "ipv4" => format!(r"{number}(?:\.{number}){{3}}"),
        "ipv6" => {
            let h = "[0-9a-fA-F]{1,4}";
            format!("(?:(?:{h}:){{7}}{h}|(?:{h}:){{1,7}}:|(?:{h}:){{1,6}}:{h}|:(?::{h}){{1,7}}|::)")
        }
        // URIs with a host.
        "uri" => {
            let text = r"(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})*";
            format!(
                r"[a-zA-Z][a-zA-Z0-9+.-]*://{label}(?:\.{label})*(?::[0-9]{{1,5}})?(?:/{text})*(?:\?{text})?(?:#{text})?"
            )
        }
        "duration" => {
            let time = "T(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+S)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
            format!(
                "P(?:[0-9]+W|{time}|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{time})?)"
            )
        }
        _ => return None,
    })
}

/// Replaces some formats by expressions.
fn make_exact(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(make_exact),
        Value::Object(members) => {
            let schemas = members.iter_mut().filter(|(key, _)| !VALUES.contains(&key.as_str()));
            schemas.for_each(|(_, value)| make_exact(value));
            let Some(pattern) = members.get("format").and_then(Value::as_str).and_then(exact) else { return };
            members.remove("format");
            let also = json!({"pattern": pattern});
            match members.get_mut("allOf").and_then(Value::as_array_mut) {
                Some(parts) => parts.push(also),
                None => {
                    members.insert("allOf".into(), Value::Array(vec![also]));
                }
            }
        }
        _ => {}
    }
}
