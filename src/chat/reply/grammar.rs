//! Grammars for calls, in llguidance's dialect of Lark: what a model may write so that its calls can be parsed, and their
//! arguments follow the schemas of the tools.
#![forbid(unsafe_code)]

use serde_json::Value;

use super::families::Calls;
use super::format::ReplyFormat;
use super::lark::{GrammarParts, Lark, literal, regex, row};
use super::notation::{LOOKS_LIKE_OTHERS, Notation, Style, sort};
use super::schema::{NAMES, Root, is_free};
use super::shape::{Each, Form, Piece, Shape, Values};
use super::sink::MOST_NAME;
use super::tools::{Kinds, Tool, ToolChoice, Tools};
use super::walk::quoted;
use crate::error::{Error, Result};

/// Most calls of a reply that a grammar allows.
pub const MOST_CALLS: usize = 32;

/// The constraint on calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGrammar {
    /// The grammar begins after the first of these in the answer. None: it begins with the answer, after a thought.
    pub triggers: Vec<String>,
    /// Texts that would also begin a call, and that are denied where the grammar waits for a trigger.
    pub never: Vec<String>,
    /// How many times the grammar may begin.
    pub most_parts: usize,
    /// The grammar, in Lark.
    pub lark: String,
}

/// The demands on a reply.
#[derive(Debug, Clone, Copy)]
pub struct ToolUse<'t> {
    /// The tools.
    pub tools: &'t Tools,
    /// Whether the model calls one.
    pub choice: &'t ToolChoice,
    /// Whether there may be more than one call.
    pub parallel: bool,
    /// Whether the reply begins inside a thought. The required calls follow it.
    pub in_thought: bool,
}

impl ReplyFormat {
    /// The grammar of calls. `Ok(None)`: nothing is constrained, since no call is required, and the beginning of a call does not
    /// distinguish it from an answer.
    ///
    /// # Errors
    /// `InvalidArgument` when a call is required and there is no tool, or none of the name, and for schemas that no value meets;
    /// `Unsupported` when the template's form of calls is unknown, and for names and schemas that the form cannot enforce.
    pub fn tool_grammar(&self, asked: ToolUse<'_>, parts: &GrammarParts<'_>) -> Result<Option<ToolGrammar>> {
        let ToolUse { tools, choice, parallel, in_thought } = asked;
        let is_lazy = *choice == ToolChoice::Auto;
        if *choice == ToolChoice::None || is_lazy && tools.is_empty() {
            return Ok(None);
        }
        choice.check_name(tools)?;
        let allowed: Vec<&Tool> = match choice {
            ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
            _ => tools.iter().collect(),
        };
        if allowed.is_empty() {
            return Err(Error::InvalidArgument("tool_choice asks for a call, and there are no tools".into()));
        }
        let calls = self.calls().ok_or_else(|| {
            Error::Unsupported("no grammar is known for calls of the form of this chat template".into())
        })?;
        if is_lazy && calls.is_bare {
            return Ok(None);
        }
        let most = if parallel { MOST_CALLS } else { 1 };
        let mut maker = Maker { calls, lark: Lark::new(parts), most, is_lazy };
        let mut grammar =
            ToolGrammar { triggers: Vec::new(), never: Vec::new(), most_parts: 0, lark: String::new() };
        let is_awaited = in_thought && !is_lazy && !calls.has_channels;
        let close = self.thinking().filter(|_| is_awaited).map(|marks| marks.close.clone());
        grammar.triggers.extend(close);
        let start = match &calls.shape {
            Shape::Calls(form) => maker.between_marks(form, &allowed, &mut grammar)?,
            Shape::Channels => maker.in_channels(&allowed, in_thought)?,
            Shape::Recipients => maker.for_recipients(&allowed)?,
        };
        grammar.lark = maker.lark.finish(&start);
        Ok(Some(grammar))
    }
}

/// Makes the grammar of one form.
pub(super) struct Maker<'p> {
    calls: &'static Calls,
    pub(super) lark: Lark<'p>,
    /// Most calls.
    pub(super) most: usize,
    pub(super) is_lazy: bool,
}

impl Maker<'_> {
    /// Calls between marks. Where none is required, the mark before them triggers the grammar.
    fn between_marks(&mut self, form: &Form, tools: &[&Tool], grammar: &mut ToolGrammar) -> Result<String> {
        let mut ways = Vec::new();
        for tool in tools {
            for way in form.ways {
                ways.extend(self.call(way, tool)?);
            }
        }
        let call = self.lark.rule("call", &ways.join(" | "));
        let more = self.most - 1;
        let trigger = self.calls.trigger();
        let begin = match self.is_lazy {
            true => form.open.strip_prefix(trigger).unwrap_or(form.open),
            false => form.open,
        };
        let (open, close, begin) =
            (self.lark.mark(form.open), self.lark.mark(form.close), self.lark.mark(begin));
        if self.is_lazy {
            grammar.triggers = vec![trigger.to_owned()];
            grammar.never = self.calls.opens[1..].iter().map(|mark| (*mark).to_owned()).collect();
            // A section has all calls; without sections, each call is a part.
            grammar.most_parts = if form.between.is_some() { 1 } else { self.most };
        }
        Ok(match form.between {
            Some(_) if more == 0 => row([begin, call, close]),
            Some(between) => {
                let between = self.lark.mark(between);
                row([begin, call.clone(), format!("({between} {call}){{0,{more}}}"), close])
            }
            None => {
                let rest = self.lark.rule("rest", &row([call, close]));
                match self.is_lazy || more == 0 {
                    true => row([begin, rest]),
                    false => row([begin, rest.clone(), format!("(/\\s{{0,8}}/ {open} {rest}){{0,{more}}}")]),
                }
            }
        })
    }

    /// Replies of Functionary 3.2, which are constrained from their beginning: `all` and a text, or a tool and its arguments.
    fn for_recipients(&mut self, tools: &[&Tool]) -> Result<String> {
        let mut ways = Vec::new();
        for tool in tools {
            if tool.name == "all" {
                return Err(self.refuse_name("tool", "all"));
            }
            ways.push(self.written(&[Piece::Name, Piece::Mark("\n"), Piece::Arguments], tool)?);
        }
        let call = self.lark.rule("call", &ways.join(" | "));
        let mark = self.lark.mark(">>>");
        let more = self.most - 1;
        let more = if more > 0 { format!("({mark} {call}){{0,{more}}}") } else { String::new() };
        let calls = self.lark.rule("calls", &row([call, more]));
        if !self.is_lazy {
            return Ok(calls);
        }
        let text = self.lark.rule("SAID", "/(?s:.)*/ & ~/(?s:.)*>>>(?s:.)*/");
        let said = self.lark.text(&[], ">>>", &[]);
        Ok(format!("{calls} | \"all\\n\" {text} | \"all\\n\" {said} {calls}"))
    }

    /// A call in one of the ways; `None` where another way is needed.
    fn call(&mut self, way: &[Piece], tool: &Tool) -> Result<Option<String>> {
        // A kind of tool in the place of the name would be read as a name.
        let is_kind = |piece: &Piece| matches!(piece, Piece::Mark(mark) if mark.starts_with(&tool.name));
        if way.first().is_some_and(|piece| matches!(piece, Piece::Name)) && self.has_kind(is_kind) {
            return Ok(None);
        }
        let body = self.written(way, tool)?;
        let name = format!("call_{}", self.lark.number());
        Ok(Some(self.lark.rule(name, &body)))
    }

    /// Whether a way of the form begins with such a piece.
    fn has_kind(&self, is_kind: impl Fn(&Piece) -> bool) -> bool {
        match &self.calls.shape {
            Shape::Calls(form) => form.ways.iter().any(|way| way.first().is_some_and(&is_kind)),
            _ => false,
        }
    }

    pub(super) fn written(&mut self, pieces: &[Piece], tool: &Tool) -> Result<String> {
        let mut symbols = Vec::new();
        for piece in pieces {
            symbols.push(match piece {
                Piece::Mark(mark) => self.lark.mark(mark),
                Piece::Name => match is_plain(&tool.name) {
                    true => literal(&tool.name),
                    false => return Err(self.refuse_name("tool", &tool.name)),
                },
                Piece::QuotedName if tool.name.len() > MOST_NAME => {
                    return Err(self.refuse_name("tool", &tool.name));
                }
                Piece::QuotedName => literal(&quoted(&tool.name)),
                Piece::Id => "/[A-Za-z0-9_-]{1,40}/".to_owned(),
                Piece::Arguments => {
                    let empty = "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}";
                    let schema = if tool.schema.trim() == "{}" { empty } else { &tool.schema };
                    let schema = (self.lark.parts.schema)(schema).map_err(|e| within(e, tool))?;
                    let name = format!("arguments_{}", self.lark.number());
                    self.lark.json(name, &of_object(schema))
                }
                Piece::Each(each) => self.each(each, tool)?,
            });
        }
        symbols.retain(|symbol| !symbol.is_empty());
        Ok(symbols.join(" "))
    }

    fn refuse_name(&self, what: &str, name: &str) -> Error {
        let form = self.calls.name;
        Error::Unsupported(format!(
            "the {what} {name:.300?} has a name that calls of the form {form} cannot spell"
        ))
    }

    /// The arguments of a tool one by one: the required ones, and any of the others.
    fn each(&mut self, each: &Each, tool: &Tool) -> Result<String> {
        let what = format!("the schema of the tool {:.300?}", tool.name);
        let schema = (self.lark.parts.schema)(&tool.schema).map_err(|e| within(e, tool))?;
        let root = Root { schema: &schema, what: &what };
        check_root(&root)?;
        let empty = Value::Bool(true);
        let mut all: Vec<(&String, &Value, bool)> = Vec::new();
        for parameter in &tool.parameters {
            let schema = schema.get("properties").and_then(|p| p.get(&parameter.name));
            all.push((&parameter.name, schema.unwrap_or(&empty), parameter.required));
        }
        if let Some(name) =
            super::schema::list(schema.as_object().unwrap_or(&serde_json::Map::new()), "required")
                .iter()
                .filter_map(Value::as_str)
                .find(|name| !tool.parameters.iter().any(|p| p.name == *name))
        {
            return root.refuse(&format!("required\" with {name:?}, which is none of its \"properties"));
        }
        if let Values::Braces(_) = each.values {
            sort(&mut all, |(name, ..)| name);
        }
        let mut names = Vec::new();
        let mut values: Vec<String> = Vec::new();
        let style = match each.values {
            Values::Braces(quote) => Some(Style::Braces(quote)),
            Values::Nested(mark) => Some(Style::Tags(mark)),
            _ => None,
        };
        if let Some(style) = style {
            let mut notation = Notation::new(&mut self.lark, root, style);
            for (name, schema, _) in &all {
                notation.check_key(name)?;
                values.push(if **schema == false { String::new() } else { notation.value(schema)? });
            }
        }
        for (i, (name, schema, required)) in all.iter().enumerate() {
            // An argument whose schema no value meets never occurs.
            if **schema == false {
                match required {
                    true => return root.impossible(&format!("{name:?} may be nothing")),
                    false => continue,
                }
            }
            if !is_plain(name) {
                return Err(self.refuse_name("argument", name));
            }
            let (key, value, end) =
                (self.lark.mark(each.key), self.lark.mark(each.value), self.lark.mark(each.end));
            let body = match each.values {
                Values::Braces(_) => row([key, literal(name), value, values[i].clone(), end]),
                Values::Nested(_) => {
                    row([key, literal(name), value, values[i].clone(), literal(&format!("</{name}>"))])
                }
                Values::Json => {
                    let written = self.python(&root, schema)?;
                    row([key, literal(name), value, written, end])
                }
                Values::Raw(follows, only) => {
                    let kinds = tool.kinds(name);
                    let written = self.raw((each.end, follows, only), &root, schema, kinds)?;
                    row([key, literal(name), value, written])
                }
                Values::Typed(follows, types) => {
                    let written = self.typed(each.end, follows, types, &root, schema)?;
                    row([key, literal(name), value, written])
                }
            };
            let rule = format!("argument_{}", self.lark.number());
            names.push((self.lark.rule(rule, &body), *required));
        }
        let comma = self.lark.mark(each.comma);
        Ok(self.lark.list(&names, &comma))
    }

    /// A value in Python's or JSON's notation; only in JSON's where the schema has keywords that only `%json` enforces.
    fn python<'s>(&mut self, root: &Root<'s>, schema: &'s Value) -> Result<String> {
        match Notation::new(&mut self.lark, *root, Style::Python).value(schema) {
            Err(Error::Unsupported(_)) => {
                let rule = format!("value_{}", self.lark.number());
                Ok(self.lark.json(rule, &root.part(schema)))
            }
            outcome => outcome,
        }
    }

    /// A value without a type, and what ends it. The parser reads it as a string where it may be one and is no JSON.
    fn raw<'s>(
        &mut self,
        (end, follows, only): (&str, &[&str], Option<&str>),
        root: &Root<'s>,
        schema: &'s Value,
        kinds: Kinds,
    ) -> Result<String> {
        if !kinds.string {
            let written = self.python(root, schema)?;
            return Ok(row([written, self.lark.mark(end)]));
        }
        let mut atoms: Vec<String> = only.map(regex).into_iter().collect();
        if !kinds.other {
            let text = root.atoms(schema, &self.lark)?;
            atoms.extend(text);
            return Ok(self.lark.text(&atoms, end, follows));
        }
        if is_free(schema) {
            return Ok(self.lark.text(&atoms, end, follows));
        }
        // Strings that look like other values are left out.
        let types = root.types(schema)?;
        let mut ways = Vec::new();
        if types.has("string") {
            let mut text = root.atoms(schema, &self.lark)?;
            text.push(format!("~{LOOKS_LIKE_OTHERS}"));
            ways.push(text.join(" & "));
        }
        for (word, value) in [("null", Value::Null), ("true", true.into()), ("false", false.into())] {
            if root.allows(schema, &value)? {
                ways.push(literal(word));
            }
        }
        let mut all = Vec::new();
        if !ways.is_empty() {
            atoms.push(format!("({})", ways.join(" | ")));
            all.push(self.lark.text(&atoms, end, follows));
        }
        let others: Vec<&str> = ["number", "array", "object"].into_iter().filter(|t| types.has(t)).collect();
        if !others.is_empty() {
            let rule = format!("value_{}", self.lark.number());
            let json = self.lark.json(rule, &root.part_of(schema, &others));
            all.push(row([json, self.lark.mark(end)]));
        }
        match all.is_empty() {
            true => root.impossible("a value of it may be nothing"),
            false => Ok(format!("({})", all.join(" | "))),
        }
    }

    /// A value after a mark with its type, and what ends it.
    fn typed(
        &mut self,
        end: &str,
        follows: &[&str],
        marks: &[(Option<&str>, &str)],
        root: &Root<'_>,
        schema: &Value,
    ) -> Result<String> {
        let types = root.types(schema)?;
        let is_named = |name: &str| marks.iter().any(|(of, _)| *of == Some(name));
        let mut ways = Vec::new();
        for (name, mark) in marks {
            let mark = self.lark.mark(mark);
            if *name == Some("string") {
                if types.has("string") {
                    let atoms = root.atoms(schema, &self.lark)?;
                    ways.push(row([mark, self.lark.text(&atoms, end, follows)]));
                }
                continue;
            }
            let of: Vec<&str> = match name {
                Some(name) => vec![name],
                None => NAMES.into_iter().filter(|name| !is_named(name)).collect(),
            };
            let of: Vec<&str> = of.into_iter().filter(|name| types.has(name)).collect();
            if !of.is_empty() {
                let rule = format!("value_{}", self.lark.number());
                let json = self.lark.json(rule, &root.part_of(schema, &of));
                ways.push(row([mark, json, self.lark.mark(end)]));
            }
        }
        match ways.is_empty() {
            true => root.impossible("a value of it may be nothing"),
            false => Ok(format!("({})", ways.join(" | "))),
        }
    }
}

/// Whether a name can be parsed without quotation marks.
fn is_plain(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "<>{}[]()\"'`,;=|:".contains(c);
    !name.is_empty() && name.len() <= MOST_NAME && !name.contains(is_odd)
}

/// The schema as one of objects, which arguments are.
fn of_object(mut schema: Value) -> Value {
    if let Some(members) = schema.as_object_mut()
        && !["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"]
            .iter()
            .any(|key| members.contains_key(*key))
    {
        members.insert("type".into(), "object".into());
    }
    schema
}

/// Refuses keywords that cannot be enforced on arguments that are written one by one.
fn check_root(root: &Root<'_>) -> Result<()> {
    const OTHERS: [&str; 8] =
        ["anyOf", "oneOf", "allOf", "$ref", "enum", "const", "minProperties", "maxProperties"];
    root.resolve(root.schema)?;
    let Some(members) = root.schema.as_object() else { return Ok(()) };
    if let Some(keyword) = OTHERS.iter().find(|keyword| members.contains_key(**keyword)) {
        return root.refuse(keyword);
    }
    match members.get("type") {
        None => Ok(()),
        Some(name) if name == "object" => Ok(()),
        Some(_) => root.impossible("arguments are an object"),
    }
}

fn within(error: Error, tool: &Tool) -> Error {
    error.within(&format!("the tool {:.300?}", tool.name))
}
