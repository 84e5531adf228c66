//! What a `tokenizer.json` and a `tokenizer_config.json` hold, borrowed from their bytes.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::looks::Looks;
use crate::error::{self, Error, shortened};

/// A string that stays where it is unless it has escapes.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// `tokenizer.json`.
pub(super) struct TokenizerFile<'a> {
    pub(super) added_tokens: Vec<AddedFile<'a>>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    pub(super) model: ModelFile<'a>,
}

impl<'a> TokenizerFile<'a> {
    /// Reads the file.
    ///
    /// # Errors
    /// `Format` for JSON that is malformed or holds something else; what ends it early.
    pub(super) fn read(json: &'a [u8], looks: Looks<'_>) -> error::Result<TokenizerFile<'a>> {
        let watch = Watch { looks, ended: Cell::default() };
        let mut json = serde_json::Deserializer::from_slice(json);
        let read = json.deserialize_map(FileReader(&watch)).and_then(|file| json.end().map(|()| file));
        read.map_err(|e| {
            let malformed = || Error::Format(format!("the tokenizer.json cannot be read: {}", shortened(e)));
            watch.ended.take().unwrap_or_else(malformed)
        })
    }
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

/// The model.
pub(super) struct ModelFile<'a> {
    pub(super) vocab: VocabFile<'a>,
    pub(super) merges: Option<Vec<MergeFile<'a>>>,
    pub(super) settings: ModelSettings,
}

/// The small fields of the model; which of them count depends on its kind.
#[derive(Deserialize)]
pub(super) struct ModelSettings {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
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

/// What may end the reading. Its error is kept, since one of serde's is only a text.
struct Watch<'l> {
    looks: Looks<'l>,
    ended: Cell<Option<Error>>,
}

impl Watch<'_> {
    fn at<E: de::Error>(&self, i: usize) -> Result<(), E> {
        self.looks.at(i).map_err(|e| {
            let text = E::custom(&e);
            self.ended.set(Some(e));
            text
        })
    }
}

struct FileReader<'w>(&'w Watch<'w>);

impl<'de> Visitor<'de> for FileReader<'_> {
    type Value = TokenizerFile<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the parts of a tokenizer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut added_tokens, mut model) = (Vec::new(), None);
        let [mut normalizer, mut pre_tokenizer, mut post_processor, mut decoder] = [const { Value::Null }; 4];
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "added_tokens" => added_tokens = map.next_value()?,
                "normalizer" => normalizer = map.next_value()?,
                "pre_tokenizer" => pre_tokenizer = map.next_value()?,
                "post_processor" => post_processor = map.next_value()?,
                "decoder" => decoder = map.next_value()?,
                "model" => model = Some(map.next_value_seed(ModelReader(self.0))?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let model = model.ok_or_else(|| de::Error::missing_field("model"))?;
        Ok(TokenizerFile { added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model })
    }
}

struct ModelReader<'w>(&'w Watch<'w>);

impl<'de> DeserializeSeed<'de> for ModelReader<'_> {
    type Value = ModelFile<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ModelReader<'_> {
    type Value = ModelFile<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the parts of a model")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut vocab, mut merges, mut rest) = (None, None, Map::new());
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "vocab" => vocab = Some(map.next_value_seed(VocabReader(self.0))?),
                "merges" => merges = map.next_value_seed(MergesReader(self.0))?,
                _ => _ = rest.insert(key.into_owned(), map.next_value()?),
            }
        }
        let vocab = vocab.ok_or_else(|| de::Error::missing_field("vocab"))?;
        let settings = ModelSettings::deserialize(Value::Object(rest)).map_err(de::Error::custom)?;
        Ok(ModelFile { vocab, merges, settings })
    }
}

struct VocabReader<'w>(&'w Watch<'w>);

impl<'de> DeserializeSeed<'de> for VocabReader<'_> {
    type Value = VocabFile<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VocabReader<'_> {
    type Value = VocabFile<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens with ids, or a list of tokens with scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tokens = Vec::new();
        while let Some((Text(text), id)) = map.next_entry()? {
            self.0.at(tokens.len())?;
            tokens.push((text, id));
        }
        Ok(VocabFile::Ids(tokens))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut tokens = Vec::new();
        while let Some((Text(text), score)) = list.next_element()? {
            self.0.at(tokens.len())?;
            tokens.push((text, score));
        }
        Ok(VocabFile::Scores(tokens))
    }
}

/// Reads the list of merges, or `null`.
struct MergesReader<'w>(&'w Watch<'w>);

impl<'de> DeserializeSeed<'de> for MergesReader<'_> {
    type Value = Option<Vec<MergeFile<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergesReader<'_> {
    type Value = Option<Vec<MergeFile<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut merges = Vec::new();
        while let Some(merge) = list.next_element()? {
            self.0.at(merges.len())?;
            merges.push(merge);
        }
        Ok(Some(merges))
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
