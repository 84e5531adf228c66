//! The classes of `transformers` 5 that build everything around a vocabulary and its merges themselves, from the settings in
//! `tokenizer_config.json`, whatever the `tokenizer.json` says there.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::json_config::ConfigFile;
use super::json_file::ModelSettings;
use crate::error::{Error, Result};

/// Such a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Bert,
    Gpt2,
    GptNeoX,
    Qwen2,
    Gemma,
    Llama,
    XlmRoberta,
    T5,
}

/// `AutoTokenizer`'s classes for names in "tokenizer_class".
const CLASSES: &[(&str, Class)] = &[
    ("BertTokenizer", Class::Bert),
    ("GPT2Tokenizer", Class::Gpt2),
    ("GPTNeoXTokenizer", Class::GptNeoX),
    ("Qwen2Tokenizer", Class::Qwen2),
    ("GemmaTokenizer", Class::Gemma),
    ("LlamaTokenizer", Class::Llama),
    ("XLMRobertaTokenizer", Class::XlmRoberta),
    ("T5Tokenizer", Class::T5),
];

/// `AutoTokenizer`'s choice for a model type: a class, or (`None`) the `tokenizer.json` as it is.
const MODEL_TYPES: &[(&str, Option<Class>)] = &[
    ("bert", Some(Class::Bert)),
    ("nomic_bert", Some(Class::Bert)),
    ("gpt2", Some(Class::Gpt2)),
    ("phi", Some(Class::Gpt2)),
    ("starcoder2", Some(Class::Gpt2)),
    ("gpt_neox", Some(Class::GptNeoX)),
    ("qwen2", Some(Class::Qwen2)),
    ("qwen2_moe", Some(Class::Qwen2)),
    ("qwen3", Some(Class::Qwen2)),
    ("qwen3_moe", Some(Class::Qwen2)),
    ("gemma", Some(Class::Gemma)),
    ("gemma2", Some(Class::Gemma)),
    ("gemma3_text", Some(Class::Gemma)),
    ("gemma3", Some(Class::Gemma)),
    ("xlm-roberta", Some(Class::XlmRoberta)),
    ("t5", Some(Class::T5)),
    ("mt5", Some(Class::T5)),
    ("umt5", None),
    ("mistral", None),
    ("mixtral", None),
    ("phi3", None),
    ("stablelm", None),
    ("olmo2", None),
    ("granite", None),
];
/// Model types for which the class in `tokenizer_config.json` does not count.
const OWN_CLASS: &[&str] = &["qwen2"];

/// Qwen's expression for the words of a text.
const QWEN_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl Class {
    /// The class that a folder's files name, unless the `tokenizer.json` counts as it is.
    pub(super) fn of(config: &ConfigFile, model_type: Option<&str>, byte_level: bool) -> Option<Class> {
        let registered =
            MODEL_TYPES.iter().find(|(name, _)| Some(*name) == model_type).map(|(_, class)| *class);
        let name = config.tokenizer_class.as_deref().map(|name| name.strip_suffix("Fast").unwrap_or(name));
        let named = CLASSES.iter().find(|(known, _)| Some(*known) == name).map(|(_, class)| *class);
        match (name, registered) {
            (_, Some(None)) => None,
            (None, registered) => registered.flatten(),
            _ if OWN_CLASS.iter().any(|own| Some(*own) == model_type) => registered.flatten(),
            _ if named == Some(Class::Llama) && byte_level => None,
            _ => named,
        }
    }

    /// The kind of model that the class builds.
    fn kind(self) -> &'static str {
        match self {
            Class::Bert => "WordPiece",
            Class::XlmRoberta | Class::T5 => "Unigram",
            _ => "BPE",
        }
    }

    /// Whether the class builds a model of this kind.
    pub(super) fn takes(self, found: &str, byte_level: bool) -> bool {
        self.kind() == found && self.is_byte_level() == byte_level
    }

    fn is_byte_level(self) -> bool {
        matches!(self, Class::Gpt2 | Class::GptNeoX | Class::Qwen2)
    }

    /// Refuses a `tokenizer.json` of another kind, and an unknown setting.
    pub(super) fn check(self, config: &ConfigFile, found: &'static str, byte_level: bool) -> Result<()> {
        if self == Class::Qwen2 && self.takes(found, byte_level) && config.add_prefix_space == Some(true) {
            return Err(Error::Unsupported(
                "the tokenizer_config.json: the key \"add_prefix_space\" is true, which is not supported for Qwen2Tokenizer"
                    .into(),
            ));
        }
        let kind = |kind: &'static str, byte_level: bool| if byte_level { "byte-level BPE" } else { kind };
        match self.takes(found, byte_level) {
            true => Ok(()),
            false => Err(Error::Unsupported(format!(
                "the \"tokenizer_class\" {:?} builds {}, but the tokenizer.json has {}",
                CLASSES.iter().find(|(_, class)| *class == self).map_or("", |(name, _)| name),
                kind(self.kind(), self.is_byte_level()),
                kind(found, byte_level)
            ))),
        }
    }

    /// Whether the class takes a text's frame from the `tokenizer.json`.
    pub(super) fn keeps_frame(self) -> bool {
        !matches!(self, Class::Bert | Class::GptNeoX | Class::XlmRoberta | Class::T5)
    }

    /// The roles of the tokens before and after a text, where the class decides them.
    pub(super) fn frame(self) -> [Option<&'static str>; 2] {
        match self {
            Class::Bert => [Some("cls_token"), Some("sep_token")],
            Class::XlmRoberta => [Some("bos_token"), Some("eos_token")],
            Class::T5 => [None, Some("eos_token")],
            _ => [None, None],
        }
    }

    /// The text of a token with a role where the configuration has none.
    pub(super) fn default_role(self, role: &str) -> Option<&'static str> {
        Some(match (self, role) {
            (Class::Bert, "unk_token") => "[UNK]",
            (Class::Bert, "sep_token") => "[SEP]",
            (Class::Bert, "pad_token") => "[PAD]",
            (Class::Bert, "cls_token") => "[CLS]",
            (Class::Bert, "mask_token") => "[MASK]",
            (Class::Gpt2 | Class::GptNeoX, "unk_token" | "bos_token" | "eos_token") => "<|endoftext|>",
            (Class::GptNeoX, "pad_token") => "<|padding|>",
            (Class::Qwen2, "unk_token" | "eos_token" | "pad_token") => "<|endoftext|>",
            (Class::Gemma | Class::Llama | Class::XlmRoberta | Class::T5, "unk_token") => "<unk>",
            (Class::XlmRoberta, "bos_token" | "cls_token") => "<s>",
            (Class::XlmRoberta, "eos_token" | "sep_token") | (Class::T5, "eos_token") => "</s>",
            (Class::XlmRoberta | Class::T5, "pad_token") => "<pad>",
            (Class::XlmRoberta, "mask_token") => "<mask>",
            (Class::Gemma, "bos_token") => "<bos>",
            (Class::Gemma, "eos_token") => "<eos>",
            (Class::Gemma, "pad_token") => "<pad>",
            (Class::Gemma, "mask_token") => "<mask>",
            (Class::Llama, "bos_token") => "<s>",
            (Class::Llama, "eos_token") => "</s>",
            _ => return None,
        })
    }

    /// The normalizer in the form of a `tokenizer.json`, whose own is `own`.
    pub(super) fn normalizer(self, config: &ConfigFile, own: Value) -> Value {
        match self {
            Class::Bert => json!({
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": config.tokenize_chinese_chars.unwrap_or(true),
                "strip_accents": config.strip_accents,
                "lowercase": config.do_lower_case.unwrap_or(true),
            }),
            Class::GptNeoX | Class::Qwen2 => json!({ "type": "NFC" }),
            Class::Gemma => json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" }),
            Class::Gpt2 | Class::Llama => Value::Null,
            Class::XlmRoberta | Class::T5 => charsmap(own),
        }
    }

    /// The pre-tokenizer.
    pub(super) fn pre_tokenizer(self, config: &ConfigFile) -> Value {
        let byte_level = |use_regex: bool| {
            let add_prefix_space = config.add_prefix_space.unwrap_or(false);
            json!({ "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex })
        };
        match self {
            Class::Bert => json!({ "type": "BertPreTokenizer" }),
            Class::Gpt2 | Class::GptNeoX => byte_level(true),
            Class::Qwen2 => {
                let words = json!({ "Regex": QWEN_WORDS });
                let split =
                    json!({ "type": "Split", "pattern": words, "behavior": "Isolated", "invert": false });
                json!({ "type": "Sequence", "pretokenizers": [split, byte_level(false)] })
            }
            Class::Gemma => {
                let space = json!({ "String": " " });
                json!({ "type": "Split", "pattern": space, "behavior": "MergedWithPrevious", "invert": false })
            }
            Class::Llama => {
                let scheme = match (config.add_prefix_space.unwrap_or(true), config.legacy.unwrap_or(false)) {
                    (false, _) => "never",
                    (true, true) => "always",
                    (true, false) => "first",
                };
                json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false })
            }
            Class::XlmRoberta | Class::T5 => {
                json!({ "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, self.metaspace(config)] })
            }
        }
    }

    /// The Metaspace that begins words with a sign.
    fn metaspace(self, config: &ConfigFile) -> Value {
        let is_false = config.add_prefix_space == Some(false) || config.null_prefix_space;
        let never = self == Class::XlmRoberta && is_false;
        let scheme = if never { "never" } else { "always" };
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true })
    }

    /// The decoder.
    pub(super) fn decoder(self, config: &ConfigFile) -> Value {
        match self {
            Class::Bert => json!({ "type": "WordPiece", "prefix": "##", "cleanup": true }),
            Class::Gpt2 | Class::GptNeoX | Class::Qwen2 => json!({ "type": "ByteLevel" }),
            Class::XlmRoberta | Class::T5 => self.metaspace(config),
            Class::Gemma | Class::Llama => {
                let spaces = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
                let mut all = vec![spaces, json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })];
                if self == Class::Llama && config.add_prefix_space.unwrap_or(true) {
                    all.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
                }
                json!({ "type": "Sequence", "decoders": all })
            }
        }
    }

    /// The small fields of the model.
    pub(super) fn settings(self, config: &ConfigFile) -> ModelSettings {
        let pieces = matches!(self, Class::Gemma | Class::Llama);
        let unk = match config.role("unk_token") {
            Some(unk) => unk.map(|unk| &*unk.content),
            None => self.default_role("unk_token"),
        };
        ModelSettings {
            kind: Some(self.kind().into()),
            unk_token: unk.filter(|_| matches!(self, Class::Bert | Class::Gemma)).map(str::to_owned),
            unk_id: match self {
                Class::XlmRoberta => Some(3),
                Class::T5 => Some(2),
                _ => None,
            },
            byte_fallback: Some(pieces),
            fuse_unk: Some(pieces),
            continuing_subword_prefix: (self == Class::Bert).then(|| "##".into()),
            ..ModelSettings::default()
        }
    }
}

/// The first normalization table among the parts of a `tokenizer.json`'s normalizer: these classes keep no other part.
fn charsmap(own: Value) -> Value {
    let is_table = |part: &Value| part.get("type").and_then(Value::as_str) == Some("Precompiled");
    match own {
        Value::Object(mut parts) if parts.get("type").and_then(Value::as_str) == Some("Sequence") => {
            match parts.remove("normalizers") {
                Some(Value::Array(list)) => list.into_iter().find(is_table).unwrap_or(Value::Null),
                _ => Value::Null,
            }
        }
        own if is_table(&own) => own,
        _ => Value::Null,
    }
}
