//! Text to tokens and back, by the vocabulary that a GGUF file carries or a `tokenizer.json`.
//!
//! A text goes through one pipeline, whatever its source: special tokens are cut out (`special`), the text between them is
//! normalized (`normalize`) and cut into words (`pre`, with the names of `pre_registry`), and a model makes tokens of each word:
//! BPE (`bpe`, `merges`), SentencePiece's scores (`spm`), WordPiece (`wordpiece`) or Unigram (`unigram`). `gguf` and `json` build
//! the pipeline. All of them look words up in one table of each token's exact bytes (`vocab`), which decoding uses as well. A
//! file's expressions (`expression`, `oniguruma`) and all work on a text (`effort`) have bounds.
//!
//! The reference is the tokenizer that the model was trained with:
//!
//! - Where llama.cpp differs from it, Ember follows the authors. It composes characters (NFC) for Qwen 2 and 3, treats `'ſ` as
//!   `'s` in contractions, and makes words of more than 100 characters unknown to BERT.
//! - Where a GGUF file cannot express the authors' file, Ember follows llama.cpp. Tokens that are known by their text to end a
//!   generation or to fill a gap in code are control tokens whatever their type. A normal `</s>` that no key names is text, and so
//!   is a user-defined one beside Gemma's turns. Gemma's spare tokens are control tokens. Bytes without a token break a word.
//! - Plain text never spells a control token.
//! - The normalization table of SentencePiece replaces the longest match for a GGUF file and works by grapheme clusters for a
//!   `tokenizer.json`, as in their reference implementations.
//!
//! BPE merging is our own (a linked list and a heap): a general one owns two strings for each merge and takes longer to build
//! than the model takes to load. Rarer normalizers and pre-tokenizers are those of the `tokenizers` crate. No text takes more
//! than O(n log n), and hashes have random seeds, so no file can choose colliding keys.
#![forbid(unsafe_code)]

mod bpe;
mod charsmap;
mod dna;
mod effort;
mod encode;
mod expression;
mod facts;
mod fill_in;
#[cfg_attr(not(feature = "tokenizers"), path = "foreign_off.rs")]
mod foreign;
mod gguf;
mod gguf_keys;
mod gguf_kinds;
#[cfg(all(test, feature = "hf"))]
mod hostile_tests;
#[cfg(feature = "hf")]
mod json;
#[cfg(feature = "hf")]
mod json_added;
#[cfg(feature = "hf")]
mod json_class;
#[cfg(feature = "hf")]
mod json_config;
#[cfg(feature = "hf")]
mod json_file;
#[cfg(feature = "hf")]
mod json_parts;
#[cfg(all(test, feature = "hf"))]
mod json_tests;
mod longest;
mod looks;
mod merges;
mod normalize;
#[cfg(feature = "hf")]
mod oniguruma;
mod parts;
mod plamo;
mod pre;
mod pre_registry;
mod roles;
#[cfg(test)]
mod roles_tests;
mod special;
mod spm;
#[cfg(test)]
mod tests;
mod unigram;
mod vocab;
mod wordpiece;

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use bpe::{Bpe, Units};
use dna::Dna;
pub use encode::Encoder;
pub use fill_in::FillIn;
use longest::Longest;
use looks::Looks;
use normalize::Normalizer;
pub use parts::Pair;
use plamo::Plamo;
use pre::{PreTokenizer, Stage};
use roles::Roles;
use special::SpecialTokens;
use spm::Spm;
use unigram::Unigram;
use vocab::{Lexicon, SPACE, TokenType};
use wordpiece::WordPiece;

/// The tokenizer of one model. It does not change once built, and many threads may use it at the same time.
pub struct Tokenizer {
    /// Found in the unnormalized text.
    specials: SpecialTokens,
    normalizer: Normalizer,
    /// Found in the normalized text.
    normalized_specials: SpecialTokens,
    pre: PreTokenizer,
    model: Model,
    lexicon: Lexicon,
    /// One for each token.
    types: Vec<TokenType>,
    roles: Roles,
    /// Words reach the model with `▁` for each space.
    escapes_space: bool,
    /// Decoding removes the space that encoding puts before a text.
    strips_space: bool,
    /// Its name in errors; may be empty.
    name: String,
    /// Names and texts; one without a name is called `default`.
    chat_templates: Vec<(String, String)>,
    /// Sequences of DNA, which are no words.
    dna: Option<Dna>,
}

/// The files of a folder that make its tokenizer, as `AutoTokenizer` of the Python package `transformers` reads them.
#[cfg(feature = "hf")]
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenizerFiles<'a> {
    /// `tokenizer.json`.
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`.
    pub config: Option<&'a [u8]>,
    /// `special_tokens_map.json`, which counts where the configuration has no `added_tokens_decoder`.
    pub special_tokens_map: Option<&'a [u8]>,
    /// `added_tokens.json`, which counts in the same case.
    pub added_tokens: Option<&'a [u8]>,
    /// `model_type` of `config.json`, which may imply a class of tokenizers.
    pub model_type: Option<&'a str>,
}

/// Bytes of memory that encoding may take for each byte of a text. Texts of 4 MB took 4 to 32 with byte-level BPE, the most where each
/// digit is a word, and 28 to 56 with the scores of SentencePiece.
const MEMORY_PER_BYTE: usize = 64;
/// The same where the `tokenizers` crate cuts text into words, which it copies: 290 where each letter is a word.
const FOREIGN_MEMORY_PER_BYTE: usize = 320;

/// The model that makes tokens of a word.
enum Model {
    Bpe(Bpe),
    Spm(Spm),
    WordPiece(WordPiece),
    Unigram(Unigram),
    Longest(Longest),
    Plamo(Plamo),
}

impl Model {
    /// The token for text that it cannot express.
    fn unk(&self) -> Option<u32> {
        match self {
            Model::Bpe(Bpe { units: Units::Chars { unk, .. }, .. }) => *unk,
            Model::Bpe(_) => None,
            Model::Spm(model) => model.unk,
            Model::WordPiece(model) => model.unk,
            Model::Unigram(model) => Some(model.unk),
            Model::Longest(model) => model.unk,
            Model::Plamo(model) => model.unk,
        }
    }
}

/// Where in the sequence a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    AfterSpecial,
    /// After a token that was found in the normalized text, or after bytes that are not text.
    Inside,
    /// It continues the text of another call.
    After,
}

impl Tokenizer {
    /// Builds the tokenizer that the keys `tokenizer.ggml.*` describe.
    ///
    /// # Errors
    /// `Unsupported` for an unknown kind of vocabulary or pre-tokenizer, by name; `Format` for keys that are missing, of the
    /// wrong type, or contradict each other.
    pub fn from_gguf(meta: &Metadata) -> Result<Tokenizer> {
        Tokenizer::from_gguf_under(meta, &|| Ok(()))
    }

    /// As [`Tokenizer::from_gguf`]; `step` is called every few thousand entries, and its error ends the building.
    ///
    /// # Errors
    /// As [`Tokenizer::from_gguf`], and what `step` gives.
    pub fn from_gguf_under(meta: &Metadata, step: &dyn Fn() -> Result<()>) -> Result<Tokenizer> {
        gguf::read(meta, Looks(step))
    }

    /// Does the checks of [`Tokenizer::from_gguf`] except for the texts of the tokens and the merges, in negligible time.
    ///
    /// # Errors
    /// As [`Tokenizer::from_gguf`].
    pub fn check_gguf(meta: &Metadata) -> Result<()> {
        gguf::check(meta)
    }

    /// Builds the tokenizer that a `tokenizer.json` describes. `config`, the `tokenizer_config.json` beside it, names
    /// the tokens with a role and holds the chat template.
    ///
    /// # Errors
    /// `Format` for JSON that is malformed or contradicts itself; `Unsupported` for unknown parts, by name.
    #[cfg(feature = "hf")]
    pub fn from_json(json: &[u8], config: Option<&[u8]>) -> Result<Tokenizer> {
        Tokenizer::from_json_under(json, config, &|| Ok(()))
    }

    /// As [`Tokenizer::from_json`]; `step` is called every few thousand entries, and its error ends the building.
    ///
    /// # Errors
    /// As [`Tokenizer::from_json`], and what `step` gives.
    #[cfg(feature = "hf")]
    pub fn from_json_under(
        json: &[u8],
        config: Option<&[u8]>,
        step: &dyn Fn() -> Result<()>,
    ) -> Result<Tokenizer> {
        Tokenizer::from_files_under(&TokenizerFiles { tokenizer: json, config, ..Default::default() }, step)
    }

    /// As [`Tokenizer::from_json_under`], of all the files that a folder has.
    ///
    /// # Errors
    /// As [`Tokenizer::from_json_under`].
    #[cfg(feature = "hf")]
    pub fn from_files_under(files: &TokenizerFiles<'_>, step: &dyn Fn() -> Result<()>) -> Result<Tokenizer> {
        json::read(files, Looks(step))
    }

    /// Checks the files beside a `tokenizer.json` that [`Tokenizer::from_files_under`] reads.
    ///
    /// # Errors
    /// As [`Tokenizer::from_files_under`].
    #[cfg(feature = "hf")]
    pub fn check_files(files: &TokenizerFiles<'_>) -> Result<()> {
        json::read_configs(files).map(drop)
    }

    /// The same tokenizer, with `name` for errors.
    pub fn called(self, name: &str) -> Tokenizer {
        Tokenizer { name: name.to_owned(), ..self }
    }

    /// The number of tokens; every id is below it.
    pub fn n_vocab(&self) -> usize {
        self.lexicon.len()
    }

    /// Bytes of memory that encoding may take for each byte of a text, unless normalization makes it much longer.
    pub fn memory_per_byte(&self) -> usize {
        match self.pre.stages.iter().any(|stage| matches!(stage, Stage::Other { .. })) {
            true => FOREIGN_MEMORY_PER_BYTE,
            false => MEMORY_PER_BYTE,
        }
    }

    /// The exact bytes of `token`, which need not be whole characters; for a control token, its text as written.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such token.
    pub fn token_bytes(&self, token: u32) -> Result<&[u8]> {
        self.lexicon.get(token).ok_or_else(|| {
            let n = self.n_vocab();
            Error::InvalidArgument(format!("token {token} does not exist: the vocabulary has {n} tokens"))
        })
    }

    /// The bytes that `tokens` stand for; control tokens give their text if `special`, else nothing.
    ///
    /// `tokens` counts as the start of a sequence. Where encoding puts a space before the text, one leading space of the first
    /// token after BOS is removed, unless that is a special token, which has none. Joining [`Tokenizer::token_bytes`] keeps it,
    /// as the continuation of a text needs.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such token; `NoMemory`.
    pub fn decode(&self, tokens: &[u32], special: bool) -> Result<Vec<u8>> {
        let mut n_bytes = 0usize;
        for &token in tokens {
            n_bytes = n_bytes.saturating_add(self.token_bytes(token)?.len());
        }
        let mut out = Vec::new();
        out.try_reserve_exact(n_bytes)
            .map_err(|_| Error::NoMemory(format!("no memory for the text of tokens: {n_bytes} bytes")))?;
        let has_bos = tokens.first().is_some_and(|&t| Some(t) == self.roles.bos);
        let first = usize::from(has_bos);
        for (index, &token) in tokens.iter().enumerate() {
            if special || !self.types[token as usize].is_silent() {
                let bytes = if index == first { self.first_bytes(token) } else { self.token_bytes(token) };
                out.extend_from_slice(bytes?);
            }
        }
        Ok(out)
    }

    /// As [`Tokenizer::token_bytes`] of the first token of a text: without the space that encoding puts before one.
    ///
    /// # Errors
    /// As [`Tokenizer::token_bytes`].
    pub fn first_bytes(&self, token: u32) -> Result<&[u8]> {
        let bytes = self.token_bytes(token)?;
        match self.strips_space && !self.types[token as usize].is_special() {
            true => Ok(bytes.strip_prefix(b" ").unwrap_or(bytes)),
            false => Ok(bytes),
        }
    }
}
