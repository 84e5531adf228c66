//! The content of a `tokenizer.json`, borrowed from its bytes.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::looks::Looks;
use crate::error::{self, Error, shortened};
use crate::gguf::{append, json, with_capacity};

/// The most bytes of a text in the file, of a part around the model, and the deepest nesting of ignored fields. JSON parsers need
/// a buffer for texts with escapes and for nesting, and cannot work with less. Real parts have some hundred bytes, or half a
/// million with a normalization table.
const MAX_TEXT: usize = 4 << 20;
/// Approximate bytes of memory for each of a part's bytes, objects, arrays and elements: as a tree, of which there are several
/// while the `tokenizers` crate determines its type, and as the result.
const MEMORY_PER_BYTE: usize = 8;
const MEMORY_PER_OBJECT: usize = 4096;
const MEMORY_PER_ARRAY: usize = 1024;
const MEMORY_PER_ELEMENT: usize = 512;
/// Bytes of copied texts between two checks for cancelling.
const COPIED: usize = 1 << 20;

/// A string that is borrowed unless it has escapes.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// `tokenizer.json`.
pub(super) struct TokenizerFile<'a> {
    pub(super) added_tokens: Vec<AddedFile<'a>>,
    pub(super) normalizer: Part<'a>,
    pub(super) pre_tokenizer: Part<'a>,
    pub(super) post_processor: Part<'a>,
    pub(super) decoder: Part<'a>,
    pub(super) model: ModelFile<'a>,
}

impl<'a> TokenizerFile<'a> {
    /// Reads the file.
    ///
    /// # Errors
    /// `Format` for malformed JSON or another structure; what ends it early.
    pub(super) fn read(json: &'a [u8], looks: Looks<'_>) -> error::Result<TokenizerFile<'a>> {
        check_lengths(json)?;
        let watch = Watch { looks, ended: Cell::default(), copied: Cell::default() };
        let mut json = serde_json::Deserializer::from_slice(json);
        let read = json.deserialize_map(FileReader(&watch)).and_then(|file| json.end().map(|()| file));
        read.map_err(|e| {
            let malformed = || Error::Format(format!("the tokenizer.json cannot be read: {}", shortened(e)));
            watch.ended.take().unwrap_or_else(malformed)
        })
    }
}

/// Refuses texts that are too long, and nesting that is too deep.
fn check_lengths(json: &[u8]) -> error::Result<()> {
    if json.len() <= MAX_TEXT {
        return Ok(());
    }
    let (mut depth, mut most) = (0usize, 0);
    for (byte, n_text) in (Marks { json, at: 0 }) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => most = most.max(n_text),
        }
        most = most.max(depth);
        if most > MAX_TEXT {
            return Err(Error::Unsupported(format!(
                "the tokenizer.json has a text of {most} bytes, or is nested as deeply; Ember reads at most {MAX_TEXT}"
            )));
        }
    }
    Ok(())
}

/// The bytes of JSON outside of texts. Each text is its first quote, with the number of its bytes as written; the number is 0 for
/// all other bytes.
struct Marks<'j> {
    json: &'j [u8],
    at: usize,
}

impl Iterator for Marks<'_> {
    type Item = (u8, usize);

    fn next(&mut self) -> Option<(u8, usize)> {
        let byte = *self.json.get(self.at)?;
        self.at += 1;
        let start = self.at;
        if byte != b'"' {
            return Some((byte, 0));
        }
        while let Some(&byte) = self.json.get(self.at)
            && byte != b'"'
        {
            self.at += if byte == b'\\' { 2 } else { 1 };
        }
        let n_text = self.at - start;
        self.at += 1;
        Some((byte, n_text))
    }
}

/// A part around the model: its JSON, if it is present.
pub(super) struct Part<'a> {
    name: &'static str,
    json: Option<&'a RawValue>,
}

impl Part<'_> {
    /// The part as a tree; `null` if it is absent.
    ///
    /// # Errors
    /// `Unsupported` for one that is longer than any real one; `NoMemory`; `Format` for one that is nested too deeply.
    pub(super) fn tree(&self) -> error::Result<Value> {
        let (name, json) = (self.name, self.json.map_or("null", RawValue::get));
        if json.len() > MAX_TEXT {
            let n = json.len();
            return Err(Error::Unsupported(format!(
                "the field {name:?} of the tokenizer.json has {n} bytes, Ember reads at most {MAX_TEXT}"
            )));
        }
        with_capacity::<u8>(memory_needed(json), &format!("the field {name:?} of the tokenizer.json"))?;
        json::tree(json.as_bytes()).map_err(|e| {
            let e = shortened(e);
            Error::Format(format!("the field {name:?} of the tokenizer.json cannot be read: {e}"))
        })
    }
}

/// Bytes of memory that a part takes.
pub(super) fn memory_needed(json: &str) -> usize {
    let marks = Marks { json: json.as_bytes(), at: 0 };
    marks.fold(0, |n, (byte, n_text)| {
        let more = match byte {
            b'{' => MEMORY_PER_OBJECT,
            b'[' => MEMORY_PER_ARRAY,
            b',' => MEMORY_PER_ELEMENT,
            b'"' => MEMORY_PER_BYTE * (2 + n_text),
            _ => MEMORY_PER_BYTE,
        };
        n.saturating_add(more)
    })
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
#[derive(Default)]
pub(super) struct ModelSettings {
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

/// What may end the reading. Its error is kept, since serde's errors are only texts.
struct Watch<'l> {
    looks: Looks<'l>,
    ended: Cell<Option<Error>>,
    /// Bytes of texts that were copied since the last check for cancelling.
    copied: Cell<usize>,
}

impl Watch<'_> {
    /// Appends an entry with these texts to a list, which `what` names.
    fn push<T, E: de::Error>(
        &self,
        list: &mut Vec<T>,
        entry: T,
        n_copied: usize,
        what: &str,
    ) -> Result<(), E> {
        let copied = self.copied.get() + n_copied;
        let looked = match copied >= COPIED {
            true => (self.looks.0)(),
            false => self.looks.at(list.len()),
        };
        self.copied.set(if copied >= COPIED { 0 } else { copied });
        looked.and_then(|()| append(list, entry, what)).map_err(|e| {
            let text = E::custom(&e);
            self.ended.set(Some(e));
            text
        })
    }
}

/// Bytes of those texts that were copied.
fn n_copied(texts: &[&Cow<'_, str>]) -> usize {
    texts.iter().filter(|text| matches!(text, Cow::Owned(_))).map(|text| text.len()).sum()
}

impl MergeFile<'_> {
    fn n_copied(&self) -> usize {
        match self {
            MergeFile::Line(line) => n_copied(&[line]),
            MergeFile::Pair(left, right) => n_copied(&[left, right]),
        }
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
        let [mut normalizer, mut pre_tokenizer, mut post_processor, mut decoder] =
            ["normalizer", "pre_tokenizer", "post_processor", "decoder"]
                .map(|name| Part { name, json: None });
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "added_tokens" => added_tokens = map.next_value_seed(AddedReader(self.0))?,
                "normalizer" => normalizer.json = map.next_value()?,
                "pre_tokenizer" => pre_tokenizer.json = map.next_value()?,
                "post_processor" => post_processor.json = map.next_value()?,
                "decoder" => decoder.json = map.next_value()?,
                "model" => model = Some(map.next_value_seed(ModelReader(self.0))?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let model = model.ok_or_else(|| de::Error::missing_field("model"))?;
        Ok(TokenizerFile { added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model })
    }
}

/// Reads the list of added tokens.
struct AddedReader<'w>(&'w Watch<'w>);

impl<'de> DeserializeSeed<'de> for AddedReader<'_> {
    type Value = Vec<AddedFile<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AddedReader<'_> {
    type Value = Vec<AddedFile<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of added tokens")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut tokens: Vec<AddedFile<'de>> = Vec::new();
        while let Some(token) = list.next_element::<AddedFile<'de>>()? {
            let n_copied = n_copied(&[&token.content]);
            self.0.push(&mut tokens, token, n_copied, "the added tokens")?;
        }
        Ok(tokens)
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
        let (mut vocab, mut merges, mut settings) = (None, None, ModelSettings::default());
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "vocab" => vocab = Some(map.next_value_seed(VocabReader(self.0))?),
                "merges" => merges = map.next_value_seed(MergesReader(self.0))?,
                "type" => settings.kind = map.next_value()?,
                "unk_token" => settings.unk_token = map.next_value()?,
                "unk_id" => settings.unk_id = map.next_value()?,
                "byte_fallback" => settings.byte_fallback = map.next_value()?,
                "fuse_unk" => settings.fuse_unk = map.next_value()?,
                "ignore_merges" => settings.ignore_merges = map.next_value()?,
                "continuing_subword_prefix" => settings.continuing_subword_prefix = map.next_value()?,
                "end_of_word_suffix" => settings.end_of_word_suffix = map.next_value()?,
                "max_input_chars_per_word" => settings.max_input_chars_per_word = map.next_value()?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let vocab = vocab.ok_or_else(|| de::Error::missing_field("vocab"))?;
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
            let n_copied = n_copied(&[&text]);
            self.0.push(&mut tokens, (text, id), n_copied, "the vocabulary")?;
        }
        Ok(VocabFile::Ids(tokens))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut tokens = Vec::new();
        while let Some((Text(text), score)) = list.next_element()? {
            let n_copied = n_copied(&[&text]);
            self.0.push(&mut tokens, (text, score), n_copied, "the vocabulary")?;
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
        while let Some(merge) = list.next_element::<MergeFile<'de>>()? {
            let n_copied = merge.n_copied();
            self.0.push(&mut merges, merge, n_copied, "the merges")?;
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
