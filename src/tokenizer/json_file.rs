//! What a `tokenizer.json` and a `tokenizer_config.json` hold, borrowed from their bytes.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A string that stays where it is unless it has escapes.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// `tokenizer.json`.
#[derive(Deserialize)]
pub(super) struct TokenizerFile<'a> {
    #[serde(borrow, default)]
    pub(super) added_tokens: Vec<AddedFile<'a>>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    pub(super) post_processor: Value,
    #[serde(default)]
    pub(super) decoder: Value,
    #[serde(borrow)]
    pub(super) model: ModelFile<'a>,
}

/// A token on top of the model's.
#[derive(Deserialize)]
pub(super) struct AddedFile<'a> {
    pub(super) id: u32,
    #[serde(borrow)]
    pub(super) content: Cow<'a, str>,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

/// The model; which of the fields count depends on its kind.
#[derive(Deserialize)]
pub(super) struct ModelFile<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(borrow)]
    pub(super) vocab: VocabFile<'a>,
    #[serde(borrow)]
    pub(super) merges: Option<Vec<MergeFile<'a>>>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<u32>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) fuse_unk: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    pub(super) max_input_chars_per_word: Option<usize>,
}

/// The model's tokens.
pub(super) enum VocabFile<'a> {
    /// Each with its id.
    Ids(Vec<(Cow<'a, str>, u32)>),
    /// In order, each with its score.
    Scores(Vec<(Cow<'a, str>, f64)>),
}

/// A merge: one line, or its two parts.
pub(super) enum MergeFile<'a> {
    Line(Cow<'a, str>),
    Pair(Cow<'a, str>, Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for VocabFile<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = VocabFile<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with ids, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some((Text(text), id)) = map.next_entry()? {
                    tokens.push((text, id));
                }
                Ok(VocabFile::Ids(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some((Text(text), score)) = list.next_element()? {
                    tokens.push((text, score));
                }
                Ok(VocabFile::Scores(tokens))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeFile<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = MergeFile<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: a string with a space, or two strings")
            }

            fn visit_borrowed_str<E>(self, line: &'de str) -> Result<Self::Value, E> {
                Ok(MergeFile::Line(Cow::Borrowed(line)))
            }

            fn visit_str<E>(self, line: &str) -> Result<Self::Value, E> {
                Ok(MergeFile::Line(Cow::Owned(line.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let pair = (list.next_element()?, list.next_element()?, list.next_element::<Text<'de>>()?);
                match pair {
                    (Some(Text(left)), Some(Text(right)), None) => Ok(MergeFile::Pair(left, right)),
                    _ => Err(serde::de::Error::custom("a merge has two parts")),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

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

/// A token with a role: its text, or an object that holds it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RoleFile {
    Text(String),
    Token { content: String },
}

impl RoleFile {
    /// The token's text.
    pub(super) fn text(&self) -> &str {
        match self {
            RoleFile::Text(text) | RoleFile::Token { content: text } => text,
        }
    }
}

/// One chat template, or several with names.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum TemplateFile {
    One(String),
    Named(Vec<NamedTemplate>),
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
