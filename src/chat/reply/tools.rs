//! The tools that a model may call, as far as parsing its calls needs them.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// Whether the model calls tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It may not: text that looks like a call is text.
    None,
    /// It has to.
    Required,
    /// It has to call this one.
    Named(String),
}

impl ToolChoice {
    /// From "auto", "none", "required", or `{"type": "function", "function": {"name": …}}`, or the name alone.
    ///
    /// # Errors
    /// `InvalidArgument` for JSON that is not such an object.
    pub fn parse(text: &str) -> Result<ToolChoice> {
        #[derive(serde::Deserialize)]
        struct Choice {
            name: Option<String>,
            function: Option<Named>,
        }
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        Ok(match text.trim() {
            "" | "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            json if json.starts_with('{') => {
                let choice: Choice = serde_json::from_str(json).map_err(|e| {
                    Error::InvalidArgument(format!("tool_choice cannot be read as JSON: {e}"))
                })?;
                let name = choice.function.map(|f| f.name).or(choice.name);
                ToolChoice::Named(name.ok_or_else(|| {
                    Error::InvalidArgument("tool_choice is an object without the name of a function".into())
                })?)
            }
            name => ToolChoice::Named(name.to_owned()),
        })
    }

    /// Checks that the tool which it names is one of `tools`.
    ///
    /// # Errors
    /// `InvalidArgument`, with the name.
    pub fn check_name(&self, tools: &Tools) -> Result<()> {
        match self {
            ToolChoice::Named(name) if tools.find(name).is_none() => {
                Err(Error::InvalidArgument(format!("tool_choice names {name:?}, which is none of the tools")))
            }
            _ => Ok(()),
        }
    }
}

/// Descriptions of tools.
#[derive(Debug, Clone, Default)]
pub struct Tools(Arc<Vec<Tool>>);

/// A tool.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments, as it was given.
    pub schema: String,
    /// The parameters, in the schema's order.
    pub parameters: Vec<Parameter>,
    /// Whether arguments that the schema does not name are allowed.
    pub is_open: bool,
}

/// A parameter of a tool.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its JSON schema.
    pub schema: String,
    /// Whether every call has it.
    pub required: bool,
    /// Its possible types.
    pub kinds: Kinds,
}

/// The possible types of a value, as far as text without types needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds {
    /// It may be a string.
    pub string: bool,
    /// It may be something else.
    pub other: bool,
}

impl Kinds {
    /// Of unknown types.
    pub const ANY: Kinds = Kinds { string: true, other: true };
    const NONE: Kinds = Kinds { string: false, other: false };
    const STRING: Kinds = Kinds { string: true, other: false };
    const OTHER: Kinds = Kinds { string: false, other: true };

    fn or(self, other: Kinds) -> Kinds {
        Kinds { string: self.string || other.string, other: self.other || other.other }
    }
}

impl Tools {
    /// From a JSON array of `{"type": "function", "function": {"name", "parameters"}}` or of the inner objects.
    ///
    /// # Errors
    /// `InvalidArgument` when it is something else, or two tools have one name.
    pub fn parse(json: &str) -> Result<Tools> {
        #[derive(serde::Deserialize)]
        struct Outer {
            function: Option<Inner>,
            name: Option<String>,
            parameters: Option<Box<RawValue>>,
            input_schema: Option<Box<RawValue>>,
        }
        #[derive(serde::Deserialize)]
        struct Inner {
            name: Option<String>,
            parameters: Option<Box<RawValue>>,
        }
        let wrong = |e: String| Error::InvalidArgument(format!("tools: {e}"));
        let list: Vec<Outer> = serde_json::from_str(json).map_err(|e| {
            Error::InvalidArgument(format!("tools cannot be read as a JSON array of tools: {e}"))
        })?;
        let mut tools: Vec<Tool> = Vec::with_capacity(list.len());
        for (i, tool) in list.into_iter().enumerate() {
            let (name, schema) = match tool.function {
                Some(f) => (f.name, f.parameters),
                None => (tool.name, tool.parameters.or(tool.input_schema)),
            };
            let name =
                name.filter(|n| !n.is_empty()).ok_or_else(|| wrong(format!("tools[{i}] has no name")))?;
            if tools.iter().any(|t| t.name == name) {
                return Err(wrong(format!("two are named {name:?}")));
            }
            let schema = schema.filter(|s| s.get() != "null").map_or("{}".to_owned(), |s| s.get().to_owned());
            let (parameters, is_open) =
                parameters(&schema).map_err(|e| wrong(format!("the parameters of {name:?}: {e}")))?;
            tools.push(Tool { name, schema, parameters, is_open });
        }
        Ok(Tools(Arc::new(tools)))
    }

    /// Whether no tool is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tools in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// The tool of a name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

impl Tool {
    /// The possible types of an argument.
    pub fn kinds(&self, parameter: &str) -> Kinds {
        self.parameters.iter().find(|p| p.name == parameter).map_or(Kinds::ANY, |p| p.kinds)
    }
}

/// An object's members in their order.
#[derive(Debug, Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Members, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

impl Members {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.get())
    }
}

fn parameters(schema: &str) -> std::result::Result<(Vec<Parameter>, bool), serde_json::Error> {
    let root: Members = serde_json::from_str(schema)?;
    let required: Vec<String> =
        root.get("required").map(serde_json::from_str).transpose()?.unwrap_or_default();
    let properties: Members =
        root.get("properties").map(serde_json::from_str).transpose()?.unwrap_or_default();
    let parameter = |(name, schema): (String, Box<RawValue>)| Parameter {
        required: required.contains(&name),
        kinds: kinds(schema.get(), &root, &mut 64),
        schema: schema.get().to_owned(),
        name,
    };
    let is_open = root.get("additionalProperties").is_some_and(|more| more != "false");
    let none_named = properties.0.is_empty() && root.get("additionalProperties").is_none();
    Ok((properties.0.into_iter().map(parameter).collect(), is_open || none_named))
}

/// The types that a schema allows. `steps` bounds the work: references may be circular.
fn kinds(schema: &str, root: &Members, steps: &mut usize) -> Kinds {
    let Ok(members) = serde_json::from_str::<Members>(schema) else { return Kinds::ANY };
    if *steps == 0 {
        return Kinds::ANY;
    }
    *steps -= 1;
    let of_type = |name: &str| if name == "string" { Kinds::STRING } else { Kinds::OTHER };
    if let Some(types) = members.get("type") {
        if let Ok(one) = serde_json::from_str::<String>(types) {
            return of_type(&one);
        }
        let many = serde_json::from_str::<Vec<String>>(types).unwrap_or_default();
        return many.iter().map(|name| of_type(name)).fold(Kinds::NONE, Kinds::or);
    }
    let of_value = |value: &str| if value.starts_with('"') { Kinds::STRING } else { Kinds::OTHER };
    if let Some(value) = members.get("const") {
        return of_value(value);
    }
    let list = |name| members.get(name).and_then(|l| serde_json::from_str::<Vec<Box<RawValue>>>(l).ok());
    if let Some(values) = list("enum") {
        return values.iter().map(|v| of_value(v.get())).fold(Kinds::NONE, Kinds::or);
    }
    if let Some(some) = list("anyOf").or_else(|| list("oneOf")) {
        return some.iter().map(|s| kinds(s.get(), root, steps)).fold(Kinds::NONE, Kinds::or);
    }
    if let Some(all) = list("allOf").filter(|all| all.len() == 1) {
        return kinds(all[0].get(), root, steps);
    }
    let target = members.get("$ref").and_then(|r| serde_json::from_str::<String>(r).ok());
    if let Some((group, name)) = target.as_deref().and_then(|t| t.strip_prefix("#/")?.split_once('/')) {
        let group = root.get(group).and_then(|g| serde_json::from_str::<Members>(g).ok()).unwrap_or_default();
        return group.get(name).map_or(Kinds::ANY, |schema| kinds(schema, root, steps));
    }
    Kinds::ANY
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn parameters_know_what_they_may_be() {
        let tools = Tools::parse(
            r##"[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["z"],"properties":{
            "z":{"type":"string"},"b":{"type":["string","null"]},"a":{"type":"integer"},"e":{"enum":["x",1]},"c":{},
            "n":{"anyOf":[{"type":"string"},{"const":"x"}]},"r":{"$ref":"#/$defs/t"},"l":{"$ref":"#/$defs/l"}},
            "$defs":{"t":{"type":"string"},"l":{"$ref":"#/$defs/l"}}}}},{"name":"g"}]"##,
        )
        .unwrap();
        let f = tools.find("f").unwrap();
        let names: Vec<&str> = f.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["z", "b", "a", "e", "c", "n", "r", "l"]);
        let want = [
            Kinds::STRING,
            Kinds::ANY,
            Kinds::OTHER,
            Kinds::ANY,
            Kinds::ANY,
            Kinds::STRING,
            Kinds::STRING,
            Kinds::ANY,
        ];
        assert_eq!(f.parameters.iter().map(|p| p.kinds).collect::<Vec<_>>(), want);
        assert!(f.parameters[0].required && !f.parameters[1].required && !f.is_open);
        assert_eq!(f.kinds("unknown"), Kinds::ANY);
        assert!(tools.find("g").unwrap().is_open && tools.find("h").is_none());
        for (json, word) in
            [("{}", "array"), ("[{}]", "tools[0]"), ("[{\"name\":\"a\"},{\"name\":\"a\"}]", "\"a\"")]
        {
            assert!(Tools::parse(json).unwrap_err().message().contains(word), "{json}");
        }
    }

    #[test]
    fn choices_are_read() {
        let named = ToolChoice::Named("f".into());
        assert_eq!(ToolChoice::parse(r#"{"type":"function","function":{"name":"f"}}"#).unwrap(), named);
        assert_eq!(ToolChoice::parse("f").unwrap(), named);
        assert_eq!(ToolChoice::parse("").unwrap(), ToolChoice::Auto);
        assert_eq!(ToolChoice::parse("required").unwrap(), ToolChoice::Required);
        assert!(ToolChoice::parse("{}").unwrap_err().message().contains("tool_choice"));
    }
}
