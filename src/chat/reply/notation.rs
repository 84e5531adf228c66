//! Values in notations other than JSON, constrained by a JSON schema: Gemma's, with marks for the quotes of strings and none for
//! keys; MiniMax M3's, with tags; and Python's.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::lark::{ANY, Lark, escaped, literal, regex, row};
use super::schema::{Root, is_free, list};
use super::walk::quoted;
use crate::error::Result;

/// Texts that are not read as strings where other values may occur.
pub(super) const LOOKS_LIKE_OTHERS: &str =
    r"/\s*([-+._0-9\[{(](?s:.)*|(null|true|false|None|True|False)\s*)?/";
/// Text between single quotation marks without escapes.
const PLAIN: &str = r"/[^'\\\x00-\x1f]*/";
/// The deepest nesting of values where a schema says nothing about them.
const MOST_FREE: usize = 8;
/// Keywords of numbers, which `%json` enforces.
const NUMBERS: [&str; 7] =
    ["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "x-guidance"];
/// Keywords of lists and objects that cannot be enforced here.
const REFUSED: [&str; 10] = [
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "prefixItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
];

/// A notation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Style {
    /// With this mark for quotes of strings.
    Braces(&'static str),
    /// With this mark before each tag. A value ends with it: the mark of its closing tag.
    Tags(&'static str),
    /// Python's, which includes JSON except for JSON's words.
    Python,
}

/// Makes the rules of one tool's arguments.
pub(super) struct Notation<'l, 'p, 's> {
    lark: &'l mut Lark<'p>,
    root: Root<'s>,
    style: Style,
    /// The rules of schemas that occurred already, by their address: references may be circular.
    known: HashMap<*const Value, String>,
    /// The rules of values without a schema, by their depth.
    free: HashMap<usize, String>,
}

impl<'l, 'p, 's> Notation<'l, 'p, 's> {
    pub(super) fn new(lark: &'l mut Lark<'p>, root: Root<'s>, style: Style) -> Self {
        Notation { lark, root, style, known: HashMap::new(), free: HashMap::new() }
    }

    /// The symbol of a value.
    pub(super) fn value(&mut self, schema: &'s Value) -> Result<String> {
        let schema = self.root.resolve(schema)?;
        let members = match schema {
            Value::Bool(false) => return self.root.impossible("a value of it may be nothing"),
            Value::Object(members) if !is_free(schema) => members,
            _ => return Ok(self.free(MOST_FREE)),
        };
        if let Some(name) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(name.clone());
        }
        let name = format!("value_{}", self.lark.number());
        self.known.insert(std::ptr::from_ref(schema), name.clone());
        let ways = self.ways(schema, members)?;
        if ways.is_empty() {
            return self.root.impossible("a value of it may be nothing");
        }
        Ok(self.lark.rule(name, &ways.join(" | ")))
    }

    fn ways(&mut self, schema: &'s Value, members: &'s Map<String, Value>) -> Result<Vec<String>> {
        let values = members.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        if let Some(values) = members.get("const").map(std::slice::from_ref).or(values) {
            let types = self.root.types(schema)?;
            let fits = |value: &&Value| match value {
                Value::String(_) => types.has("string"),
                Value::Null | Value::Bool(_) => true,
                Value::Number(_) => types.has("number"),
                Value::Array(_) => types.has("array"),
                Value::Object(_) => types.has("object"),
            };
            return values.iter().filter(fits).map(|value| self.written(value)).collect();
        }
        let types = self.root.types(schema)?;
        if let Some(parts) = members.get("anyOf").or(members.get("oneOf")).and_then(Value::as_array) {
            let others = ["properties", "items", "required", "pattern", "minLength", "maxLength", "allOf"];
            if let Some(other) = others.iter().find(|other| members.contains_key(**other)) {
                return self.root.refuse(&format!("{other}\" beside \"anyOf\" or \"oneOf"));
            }
            if members.contains_key("oneOf") && !self.are_apart(parts)? {
                return self.root.refuse("oneOf");
            }
            return parts.iter().map(|part| self.value(part)).collect();
        }
        let all = list(members, "allOf");
        let is_text = !["null", "boolean", "number", "array", "object"].iter().any(|name| types.has(name));
        if !all.is_empty() && !is_text {
            return match all {
                [one] if !members.keys().any(|key| key == "properties" || key == "items") => {
                    Ok(vec![self.value(one)?])
                }
                _ => self.root.refuse("allOf"),
            };
        }
        if let Some(keyword) = REFUSED.iter().find(|k| members.get(**k).is_some_and(|v| *v != false)) {
            return self.root.refuse(keyword);
        }
        let both = |a: &str, b: &str| types.has(a) && types.has(b);
        if let Style::Tags(mark) = self.style {
            // A notation without tags inside is recognized by its text alone.
            if both("string", "array") || both("string", "object") || both("array", "object") {
                return self.root.refuse("type\" with several of string, array and object, or \"type");
            }
            if types.has("string") && (types.has("null") || types.has("boolean") || types.has("number")) {
                return self.text_or_other(schema, members, mark);
            }
        }
        let mut ways = Vec::new();
        let boolean = match self.style {
            Style::Python => "(\"true\" | \"false\" | \"True\" | \"False\")",
            _ => "(\"true\" | \"false\")",
        };
        let words = [("null", "(\"null\" | \"None\")"), ("boolean", boolean)];
        for (_, word) in words.iter().filter(|(name, _)| types.has(name)) {
            ways.push(self.ended((*word).to_owned()));
        }
        if types.has("number") {
            ways.push(self.number(members));
        }
        if types.has("string") {
            let atoms = self.root.atoms(schema, self.lark)?;
            ways.push(self.string(schema, &atoms));
        }
        if types.has("array") {
            ways.push(self.array(members)?);
        }
        if types.has("object") {
            ways.push(self.object(members)?);
        }
        Ok(ways)
    }

    fn number(&mut self, members: &Map<String, Value>) -> String {
        let mut number: Map<String, Value> = members
            .iter()
            .filter(|(key, _)| NUMBERS.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let is_integer = match members.get("type") {
            Some(Value::Array(names)) => names.iter().all(|name| name != "number"),
            Some(name) => name == "integer",
            None => false,
        };
        number.insert("type".into(), if is_integer { "integer" } else { "number" }.into());
        let name = format!("number_{}", self.lark.number());
        let number = self.lark.json(name, &Value::Object(number));
        self.ended(number)
    }

    /// A value with what ends it.
    fn ended(&self, value: String) -> String {
        match self.style {
            Style::Braces(_) | Style::Python => value,
            Style::Tags(mark) => row([value, self.lark.mark(mark)]),
        }
    }

    /// A string that looks like no other value, or null, true, false or a number, up to the mark of a tag.
    fn text_or_other(
        &mut self,
        schema: &'s Value,
        members: &'s Map<String, Value>,
        mark: &str,
    ) -> Result<Vec<String>> {
        let types = self.root.types(schema)?;
        let mut text = self.root.atoms(schema, self.lark)?;
        text.push(format!("~{LOOKS_LIKE_OTHERS}"));
        let mut ways = vec![text.join(" & ")];
        let words = [("null", "null"), ("boolean", "true"), ("boolean", "false")];
        ways.extend(words.iter().filter(|(name, _)| types.has(name)).map(|(_, word)| literal(word)));
        let mut all = vec![self.lark.text(&[format!("({})", ways.join(" | "))], mark, &[])];
        if types.has("number") {
            all.push(self.number(members));
        }
        Ok(all)
    }

    /// Whether no value matches two of these schemas, by their types or by a constant member.
    fn are_apart(&self, parts: &'s [Value]) -> Result<bool> {
        let mark = |part: &'s Value| -> Result<Option<(&'s str, &'s Value)>> {
            let Some(members) = self.root.resolve(part)?.as_object() else { return Ok(None) };
            let required = list(members, "required");
            let properties = members.get("properties").and_then(Value::as_object);
            Ok(properties.and_then(|properties| {
                properties.iter().find_map(|(name, schema)| {
                    let value = schema.get("const").or(match list(schema.as_object()?, "enum") {
                        [one] => Some(one),
                        _ => None,
                    })?;
                    required.iter().any(|r| r == name.as_str()).then_some((name.as_str(), value))
                })
            }))
        };
        for (i, a) in parts.iter().enumerate() {
            for b in &parts[i + 1..] {
                let (x, y) = (self.root.types(a)?, self.root.types(b)?);
                let shares = super::schema::NAMES.iter().filter(|name| x.has(name) && y.has(name));
                let shares: Vec<&&str> = shares.collect();
                let is_apart = match (mark(a)?, mark(b)?) {
                    (Some((name, value)), Some((other, another))) => name == other && value != another,
                    _ => false,
                };
                if !(shares.is_empty() || is_apart && shares == [&"object"]) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// A string that matches all of `atoms`, with the marks around it.
    fn string(&mut self, schema: &Value, atoms: &[String]) -> String {
        let quote = match self.style {
            Style::Python => {
                let n = self.lark.number();
                let json = self.lark.json(format!("string_{n}"), &self.root.part_of(schema, &["string"]));
                // Without escapes: a string that needs one is written as JSON.
                let inner = [vec![PLAIN.to_owned()], atoms.to_vec()].concat().join(" & ");
                let inner = self.lark.rule(format!("INNER_{n}"), &inner);
                let plain = self.lark.rule(format!("STRING_{n}"), &format!("\"'\" {inner} \"'\""));
                return format!("({json} | {plain})");
            }
            Style::Braces(quote) => quote,
            Style::Tags(mark) => return self.lark.text(atoms, mark, &[]),
        };
        let mut all = vec![regex(ANY)];
        all.extend_from_slice(atoms);
        all.push(format!("~{}", regex(&format!("{ANY}{}{ANY}", escaped(quote)))));
        let n = self.lark.number();
        let inner = self.lark.rule(format!("INNER_{n}"), &all.join(" & "));
        if self.lark.has_controls(quote) {
            let quote = self.lark.mark(quote);
            return row([quote.clone(), inner, quote]);
        }
        let quote = literal(quote);
        self.lark.rule(format!("STRING_{n}"), &row([quote.clone(), inner, quote]))
    }

    fn array(&mut self, members: &'s Map<String, Value>) -> Result<String> {
        let count = |name: &str| members.get(name).and_then(Value::as_u64);
        let item = match members.get("items") {
            Some(Value::Array(_)) => return self.root.refuse("items\" with a list, or \"items"),
            Some(items) => self.value(items)?,
            None => self.free(MOST_FREE - 1),
        };
        let (least, most) = (count("minItems").unwrap_or(0), count("maxItems"));
        if most.is_some_and(|most| most < least) {
            return self.root.impossible("a list has to have more members than it may");
        }
        let space = "/[ ]?/";
        if let Style::Tags(mark) = self.style {
            let (mark, most) = (self.lark.mark(mark), most.map_or(String::new(), |most| most.to_string()));
            return Ok(format!("({mark} \"<item>\" {item} \"</item>\"){{{least},{most}}} {mark}"));
        }
        if most == Some(0) {
            return Ok("\"[\" \"]\"".to_owned());
        }
        let more = most.map_or(String::new(), |most| (most - 1).to_string());
        let items = format!("{item} (\",\" {space} {item}){{{},{more}}}", least.saturating_sub(1));
        let items = if least == 0 { format!("({items})?") } else { items };
        Ok(row(["\"[\"".to_owned(), items, "\"]\"".to_owned()]))
    }

    fn object(&mut self, members: &'s Map<String, Value>) -> Result<String> {
        let properties = members.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty());
        let more = members.get("additionalProperties");
        let required: Vec<&str> = list(members, "required").iter().filter_map(Value::as_str).collect();
        let Some(properties) = properties else {
            if !required.is_empty() {
                return self.root.refuse("required\" without \"properties");
            }
            if let Style::Tags(mark) = self.style {
                // A grammar cannot require that a tag is closed by its own name, so there are no members.
                return Ok(self.lark.mark(mark));
            }
            let value = match more {
                Some(Value::Bool(false)) => return Ok("\"{\" \"}\"".to_owned()),
                Some(schema) => self.value(schema)?,
                None => self.free(MOST_FREE - 1),
            };
            return Ok(self.members_of(&value));
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return self.root.refuse(&format!("required\" with {name:?}, which is none of its \"properties"));
        }
        let mut names: Vec<(&'s String, &'s Value)> = properties.iter().collect();
        if let Style::Braces(_) = self.style {
            sort(&mut names, |(name, _)| name);
        }
        let mut rules = Vec::new();
        for (name, schema) in names {
            self.check_key(name)?;
            // A property whose schema no value meets never occurs.
            let is_required = required.contains(&name.as_str());
            if *schema == false && !is_required {
                continue;
            }
            let value = self.value(schema)?;
            let body = match self.style {
                Style::Braces(_) => row([literal(&format!("{name}:")), value]),
                Style::Python => format!("(\"'{name}':\" | \"\\\"{name}\\\":\") /[ ]?/ {value}"),
                Style::Tags(mark) => {
                    let (open, close) = (literal(&format!("<{name}>")), literal(&format!("</{name}>")));
                    row([self.lark.mark(mark), open, value, close])
                }
            };
            rules.push((body, is_required));
        }
        let rules: Vec<(String, bool)> = rules
            .into_iter()
            .map(|(body, is_required)| {
                let n = self.lark.number();
                (self.lark.rule(format!("member_{n}"), &body), is_required)
            })
            .collect();
        if let Style::Tags(mark) = self.style {
            let inner = self.lark.list(&rules, "");
            return Ok(row([inner, self.lark.mark(mark)]));
        }
        let inner = self.lark.list(&rules, "\",\" /[ ]?/");
        Ok(row(["\"{\"".to_owned(), inner, "\"}\"".to_owned()]))
    }

    /// Keys are written as they are.
    pub(super) fn check_key(&self, name: &str) -> Result<()> {
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || ":,{}[]()\"'`<>;=|".contains(c);
        match name.is_empty() || name.contains(is_odd) {
            true => self.root.refuse(&format!("properties\" with the name {name:?}, or \"properties")),
            false => Ok(()),
        }
    }

    /// A value without a schema, with at most `depth` levels of nesting.
    fn free(&mut self, depth: usize) -> String {
        if let Some(name) = self.free.get(&depth) {
            return name.clone();
        }
        if let Style::Tags(mark) = self.style {
            return self.lark.text(&[], mark, &[]);
        }
        let mut ways = vec![self.string(&Value::Bool(true), &[]), "%json {\"type\": \"number\"}".to_owned()];
        ways.extend(["true", "false", "null", "None"].map(literal));
        if let Style::Python = self.style {
            ways.extend(["True", "False"].map(literal));
        }
        if depth > 0 {
            let inner = self.free(depth - 1);
            ways.push(format!("\"[\" ({inner} (\",\" /[ ]?/ {inner})*)? \"]\""));
            ways.push(self.members_of(&inner));
        }
        let n = self.lark.number();
        let name = self.lark.rule(format!("free_{n}_{depth}"), &ways.join(" | "));
        self.free.insert(depth, name.clone());
        name
    }

    fn written_in_python(&mut self, value: &Value) -> Result<String> {
        Ok(match value {
            Value::Null => "(\"null\" | \"None\")".to_owned(),
            Value::Bool(true) => "(\"true\" | \"True\")".to_owned(),
            Value::Bool(false) => "(\"false\" | \"False\")".to_owned(),
            Value::String(text) if !text.contains(|c: char| c.is_control() || "'\\".contains(c)) => {
                format!("({} | {})", literal(&quoted(text)), literal(&format!("'{text}'")))
            }
            // Constant lists and objects are written as in JSON.
            value => literal(&value.to_string()),
        })
    }

    /// An object with any keys and values of this rule.
    fn members_of(&self, value: &str) -> String {
        let key = match self.style {
            Style::Python => r#"/"[A-Za-z_][A-Za-z0-9_]{0,63}"|'[A-Za-z_][A-Za-z0-9_]{0,63}'/ ":" /[ ]?/"#,
            _ => "/[A-Za-z_][A-Za-z0-9_]{0,63}/ \":\"",
        };
        format!("\"{{\" ({key} {value} (\",\" /[ ]?/ {key} {value})*)? \"}}\"")
    }

    /// A constant value.
    fn written(&mut self, value: &Value) -> Result<String> {
        let quote = match self.style {
            Style::Braces(quote) | Style::Tags(quote) => quote,
            Style::Python => return self.written_in_python(value),
        };
        Ok(match value {
            Value::String(text) if text.contains(quote) => {
                return self.root.refuse(&format!("enum\" with {text:?}, or \"enum"));
            }
            Value::Array(_) | Value::Object(_) if matches!(self.style, Style::Tags(_)) => {
                return self.root.refuse(&format!("enum\" with {value}, or \"enum"));
            }
            Value::String(text) if matches!(self.style, Style::Tags(_)) => self.ended(literal(text)),
            Value::String(text) => {
                let quote = self.lark.mark(quote);
                row([quote.clone(), literal(text), quote])
            }
            Value::Null if matches!(self.style, Style::Tags(_)) => self.ended(literal("null")),
            Value::Null => "(\"null\" | \"None\")".to_owned(),
            Value::Bool(_) | Value::Number(_) => self.ended(literal(&value.to_string())),
            Value::Array(values) => {
                let values: Result<Vec<String>> = values.iter().map(|value| self.written(value)).collect();
                row(["\"[\"".to_owned(), values?.join(" \",\" "), "\"]\"".to_owned()])
            }
            Value::Object(members) => {
                let mut names: Vec<(&String, &Value)> = members.iter().collect();
                sort(&mut names, |(name, _)| name);
                let mut parts = Vec::new();
                for (name, value) in names {
                    self.check_key(name)?;
                    parts.push(row([literal(&format!("{name}:")), self.written(value)?]));
                }
                row(["\"{\"".to_owned(), parts.join(" \",\" "), "\"}\"".to_owned()])
            }
        })
    }
}

/// Sorts by the order in which the templates write keys.
pub(super) fn sort<T>(items: &mut [T], name: impl Fn(&T) -> &String) {
    items.sort_by_key(|item| name(item).to_lowercase());
}
