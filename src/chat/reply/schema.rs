//! What a JSON schema says about a value, where a grammar cannot leave it to `%json`.
#![forbid(unsafe_code)]

use serde_json::{Map, Value};

use super::lark::{Lark, regex, unsupported};
use super::walk::quoted;
use crate::error::{Error, Result};

/// Sets of JSON's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

pub(super) const NAMES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

impl Types {
    const ALL: Types = Types(63);
    const NONE: Types = Types(0);

    fn of_name(name: &str) -> Types {
        let name = if name == "integer" { "number" } else { name };
        NAMES.iter().position(|n| *n == name).map_or(Types::NONE, |i| Types(1 << i))
    }

    fn of_value(value: &Value) -> Types {
        Types::of_name(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        })
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.0 & Types::of_name(name).0 != 0
    }

    fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }
}

/// The schema of a tool's arguments, and its name in errors.
#[derive(Clone, Copy)]
pub(super) struct Root<'s> {
    pub schema: &'s Value,
    pub what: &'s str,
}

/// Most references and parts of schemas that are followed.
const MOST_DEEP: usize = 32;
/// Keywords that no grammar here enforces.
const NEVER: [&str; 10] = [
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
];

impl<'s> Root<'s> {
    pub(super) fn refuse<T>(&self, keyword: &str) -> Result<T> {
        Err(unsupported(self.what, keyword))
    }

    pub(super) fn impossible<T>(&self, why: &str) -> Result<T> {
        Err(Error::InvalidArgument(format!("{} cannot be met: {why}", self.what)))
    }

    /// The target of a schema: that of a reference without other keywords.
    pub(super) fn resolve(&self, schema: &'s Value) -> Result<&'s Value> {
        let mut schema = schema;
        for _ in 0..MOST_DEEP {
            let Some(members) = schema.as_object() else { return Ok(schema) };
            if let Some(keyword) = NEVER.iter().find(|keyword| members.contains_key(**keyword)) {
                return self.refuse(keyword);
            }
            let Some(target) = members.get("$ref") else { return Ok(schema) };
            let others =
                ["type", "enum", "const", "properties", "items", "anyOf", "oneOf", "allOf", "pattern"];
            if others.iter().any(|other| members.contains_key(*other)) {
                return self.refuse("$ref\" beside other keywords, or \"$ref");
            }
            let pointer = target.as_str().and_then(|target| target.strip_prefix('#'));
            match pointer.and_then(|pointer| self.schema.pointer(pointer)) {
                Some(target) => schema = target,
                None => return self.refuse(&format!("$ref\": {target}, or \"$ref")),
            }
        }
        self.impossible("its references have no end")
    }

    /// The types that a value may have.
    pub(super) fn types(&self, schema: &'s Value) -> Result<Types> {
        self.types_within(schema, MOST_DEEP)
    }

    fn types_within(&self, schema: &'s Value, depth: usize) -> Result<Types> {
        if depth == 0 {
            return Ok(Types::ALL);
        }
        let members = match self.resolve(schema)? {
            Value::Bool(false) => return Ok(Types::NONE),
            Value::Object(members) => members,
            _ => return Ok(Types::ALL),
        };
        let mut types = match members.get("type") {
            Some(Value::String(name)) => Types::of_name(name),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Types::NONE, |all, name| all.or(Types::of_name(name))),
            _ => Types::ALL,
        };
        if let Some(value) = members.get("const") {
            types = types.and(Types::of_value(value));
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            types = types.and(values.iter().fold(Types::NONE, |all, value| all.or(Types::of_value(value))));
        }
        for part in list(members, "allOf") {
            types = types.and(self.types_within(part, depth - 1)?);
        }
        for name in ["anyOf", "oneOf"].into_iter().filter(|name| members.contains_key(*name)) {
            let mut some = Types::NONE;
            for part in list(members, name) {
                some = some.or(self.types_within(part, depth - 1)?);
            }
            types = types.and(some);
        }
        Ok(types)
    }

    /// Whether a schema allows `null`, `true` or `false`.
    pub(super) fn allows(&self, schema: &'s Value, word: &Value) -> Result<bool> {
        self.allows_within(schema, word, MOST_DEEP)
    }

    fn allows_within(&self, schema: &'s Value, word: &Value, depth: usize) -> Result<bool> {
        if depth == 0 || !Types::of_value(word).and(self.types_within(schema, depth)?).has(type_of(word)) {
            return Ok(false);
        }
        let Some(members) = self.resolve(schema)?.as_object() else { return Ok(true) };
        let is_listed = |values: &Value| values.as_array().is_none_or(|values| values.contains(word));
        if members.get("const").is_some_and(|value| value != word)
            || !members.get("enum").is_none_or(is_listed)
        {
            return Ok(false);
        }
        for part in list(members, "allOf") {
            if !self.allows_within(part, word, depth - 1)? {
                return Ok(false);
            }
        }
        for (name, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let mut n = 0;
            for part in list(members, name) {
                n += usize::from(self.allows_within(part, word, depth - 1)?);
            }
            if members.contains_key(name) && (n == 0 || n > most) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The expressions that a string has to match, as atoms of a terminal of Lark; none: any string.
    pub(super) fn atoms(&self, schema: &'s Value, lark: &Lark<'_>) -> Result<Vec<String>> {
        self.atoms_within(schema, lark, MOST_DEEP)
    }

    fn atoms_within(&self, schema: &'s Value, lark: &Lark<'_>, depth: usize) -> Result<Vec<String>> {
        if depth == 0 {
            return self.impossible("its references have no end");
        }
        let Some(members) = self.resolve(schema)?.as_object() else { return Ok(Vec::new()) };
        let mut atoms = Vec::new();
        let values = members.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        let values = members.get("const").map(std::slice::from_ref).or(values);
        if let Some(values) = values {
            let texts: Vec<String> = values.iter().filter_map(Value::as_str).map(quoted).collect();
            if texts.is_empty() {
                return self.impossible("no string is among its values");
            }
            atoms.push(format!("({})", texts.join(" | ")));
        }
        let length = |name: &str| members.get(name).map(|n| n.as_u64().or(n.as_f64().map(|n| n as u64)));
        match (length("minLength"), length("maxLength")) {
            (None, None) => {}
            (Some(None), _) | (_, Some(None)) => return self.impossible("a length is no number"),
            (least, most) => {
                let most = most.flatten().map_or(String::new(), |n| n.to_string());
                atoms.push(format!("/(?s:.){{{},{most}}}/", least.flatten().unwrap_or(0)));
            }
        }
        if let Some(pattern) = members.get("pattern").and_then(Value::as_str) {
            match anchored(pattern) {
                Some(pattern) => atoms.push(regex(&pattern)),
                None => return self.refuse(&format!("pattern\": {pattern:?}, or \"pattern")),
            }
        }
        if let Some(format) = members.get("format").and_then(Value::as_str) {
            match (lark.parts.expression)(format) {
                Some(expression) => atoms.push(regex(&format!("(?:{expression})"))),
                None => return self.refuse(&format!("format\": {format:?}, or \"format")),
            }
        }
        for part in list(members, "allOf") {
            atoms.extend(self.atoms_within(part, lark, depth - 1)?);
        }
        for name in ["anyOf", "oneOf"].into_iter().filter(|name| members.contains_key(*name)) {
            let (mut ways, mut n_open) = (Vec::new(), 0);
            for part in list(members, name) {
                if self.types_within(part, depth)?.has("string") {
                    let part = self.atoms_within(part, lark, depth - 1)?;
                    n_open += usize::from(!(part.len() == 1 && part[0].starts_with("(\"")));
                    ways.push(part);
                }
            }
            match ways.len() {
                0 => return self.impossible("no string is among its parts"),
                // Whether one value can match two of them is not known.
                2.. if name == "oneOf" && n_open > 0 => return self.refuse(name),
                _ if ways.iter().any(Vec::is_empty) => {}
                _ => {
                    let ways: Vec<String> = ways.iter().map(|atoms| atoms.join(" & ")).collect();
                    atoms.push(format!("({})", ways.join(" | ")));
                }
            }
        }
        Ok(atoms)
    }

    /// The schema of a part as a root of its own, with the definitions that it refers to.
    pub(super) fn part(&self, schema: &Value) -> Value {
        let mut members = match schema {
            Value::Object(members) => members.clone(),
            Value::Bool(false) => Map::from_iter([("not".to_owned(), Value::Object(Map::new()))]),
            _ => Map::new(),
        };
        for name in ["$defs", "definitions", "x-guidance"] {
            if let Some(value) = self.schema.get(name) {
                members.insert(name.to_owned(), value.clone());
            }
        }
        Value::Object(members)
    }

    /// The same for values of some types only.
    pub(super) fn part_of(&self, schema: &Value, types: &[&str]) -> Value {
        let mut whole = self.part(&Value::Bool(true));
        let types = serde_json::json!({ "type": types });
        if let Some(members) = whole.as_object_mut() {
            members.insert("allOf".into(), Value::Array(vec![schema.clone(), types]));
        }
        whole
    }
}

/// Whether a schema says nothing about a value.
pub(super) fn is_free(schema: &Value) -> bool {
    const SILENT: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$comment"];
    schema.as_object().is_none_or(|members| members.keys().all(|key| SILENT.contains(&key.as_str())))
}

fn type_of(value: &Value) -> &'static str {
    NAMES.into_iter().find(|name| Types::of_value(value).has(name)).unwrap_or("null")
}

/// The schemas under a keyword.
pub(super) fn list<'s>(members: &'s Map<String, Value>, name: &str) -> &'s [Value] {
    members.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The expression of a pattern for a whole text; the pattern may match anywhere in the text. `None` where it has anchors inside.
fn anchored(pattern: &str) -> Option<String> {
    let (mut inner, mut is_start, mut is_end, mut has_bar) = (String::new(), false, false, false);
    let (mut depth, mut in_class) = (0_usize, false);
    let mut chars = pattern.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let (_, next) = chars.next()?;
                match (next, in_class) {
                    // In patterns of JSON Schema these are ASCII only.
                    ('d', true) => inner.push_str("0-9"),
                    ('d', false) => inner.push_str("[0-9]"),
                    ('w', true) => inner.push_str("A-Za-z0-9_"),
                    ('w', false) => inner.push_str("[A-Za-z0-9_]"),
                    ('b' | 'B', false) => return None,
                    (next, _) => inner.extend(['\\', next]),
                }
                continue;
            }
            '[' if !in_class => in_class = true,
            ']' if in_class => in_class = false,
            // A nested class is an extension of the crate `regex`.
            '[' => {
                inner.push('\\');
            }
            '&' | '~' if in_class => inner.push('\\'),
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth = depth.checked_sub(1)?,
            '|' if !in_class && depth == 0 => has_bar = true,
            '^' if !in_class && at == 0 => {
                is_start = true;
                continue;
            }
            '$' if !in_class && depth == 0 && chars.peek().is_none() => {
                is_end = true;
                continue;
            }
            '^' | '$' if !in_class => return None,
            _ => {}
        }
        inner.push(c);
    }
    if has_bar && (is_start || is_end) {
        return None;
    }
    let any = super::lark::ANY;
    let (before, after) = (if is_start { "" } else { any }, if is_end { "" } else { any });
    Some(format!("{before}(?:{inner}){after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_expressions_of_whole_texts() {
        for (pattern, want) in [
            ("^a$", Some("(?:a)")),
            ("a", Some("(?s:.)*(?:a)(?s:.)*")),
            ("^[A-Z]\\d{3}", Some("(?:[A-Z][0-9]{3})(?s:.)*")),
            ("[\\d$^]$", Some("(?s:.)*(?:[0-9$^])")),
            ("a|b", Some("(?s:.)*(?:a|b)(?s:.)*")),
            ("^(a|b)$", Some("(?:(a|b))")),
            ("\\$$", Some("(?s:.)*(?:\\$)")),
            ("^a|b$", None),
            ("(^a)", None),
            ("a\\b", None),
            ("\\", None),
        ] {
            assert_eq!(anchored(pattern).as_deref(), want, "{pattern}");
        }
    }
}
