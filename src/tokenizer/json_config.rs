//! What a `tokenizer_config.json` holds.
#![forbid(unsafe_code)]

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// `tokenizer_config.json`, as far as it matters here.
#[derive(Default, Deserialize)]
pub(super) struct ConfigFile {
    #[serde(default)]
    pub(super) bos_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) eos_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) cls_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) sep_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) unk_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) pad_token: Option<RoleFile>,
    #[serde(default)]
    pub(super) add_bos_token: Option<bool>,
    #[serde(default)]
    pub(super) add_eos_token: Option<bool>,
    #[serde(default)]
    pub(super) chat_template: Option<TemplateFile>,
}

/// A token with a role: its text, or an object that holds it. (Not an untagged `enum`: that would be read into a tree
/// first, of fifty times its size.)
pub(super) struct RoleFile(String);

impl RoleFile {
    /// The token's text.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RoleFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Token {
            content: String,
        }
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RoleFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a token: a string, or an object with the key \"content\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(RoleFile(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, token: A) -> Result<Self::Value, A::Error> {
                let token = Token::deserialize(MapAccessDeserializer::new(token))?;
                Ok(RoleFile(token.content))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One chat template, or several with names.
pub(super) enum TemplateFile {
    One(String),
    Named(Vec<NamedTemplate>),
}

impl<'de> Deserialize<'de> for TemplateFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = TemplateFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a chat template: a string, or an array of objects with a name")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TemplateFile::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(TemplateFile::Named)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A chat template with a name.
#[derive(Deserialize)]
pub(super) struct NamedTemplate {
    pub(super) name: String,
    pub(super) template: String,
}

impl TemplateFile {
    /// Names and texts.
    pub(super) fn into_named(self) -> Vec<(String, String)> {
        match self {
            TemplateFile::One(template) => vec![("default".into(), template)],
            TemplateFile::Named(all) => all.into_iter().map(|named| (named.name, named.template)).collect(),
        }
    }
}
