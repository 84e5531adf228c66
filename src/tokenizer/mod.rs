//! Text to tokens and back, by the vocabulary that a GGUF file carries or a `tokenizer.json`.
//!
//! A text goes through one pipeline, whatever its source: special tokens are cut out (`special`), what is between them
//! is normalized (`normalize`) and cut into words (`pre`, with the names of `pre_registry`), and a model turns each
//! word into tokens: BPE (`bpe`, `merges`), SentencePiece's scores (`spm`), WordPiece (`wordpiece`) or Unigram
//! (`unigram`). `gguf` and `json` put the pipeline together. All of them look words up in one table of each token's
//! exact bytes (`vocab`), from which decoding is done as well. Expressions that a file brings (`expression`, `oniguruma`) and all that
//! is done to a text (`effort`) have bounds.
#![forbid(unsafe_code)]

mod bpe;
mod charsmap;
mod effort;
mod expression;
#[cfg_attr(not(feature = "tokenizers"), path = "foreign_off.rs")]
mod foreign;
mod gguf;
mod gguf_keys;
#[cfg(all(test, feature = "hf"))]
mod hostile_tests;
mod inside;
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
mod looks;
mod merges;
mod normalize;
#[cfg(feature = "hf")]
mod oniguruma;
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
use effort::Effort;
use looks::Looks;
use normalize::Normalizer;
use pre::{PreTokenizer, Stage};
use roles::Roles;
use special::{Fragment, SpecialTokens};
use spm::Spm;
use unigram::Unigram;
use vocab::{Lexicon, SPACE, TokenType};
use wordpiece::WordPiece;

/// The tokenizer of one model. It does not change once built, and many threads may use it at once.
pub struct Tokenizer {
    /// Found in the text as it is.
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
    /// Names and texts; one without a name is called `default`.
    chat_templates: Vec<(String, String)>,
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
    /// `added_tokens.json`, which counts there, too.
    pub added_tokens: Option<&'a [u8]>,
    /// `model_type` of `config.json`, which may stand for a class of tokenizers.
    pub model_type: Option<&'a str>,
}

/// Bytes of memory that encoding may take for each byte of a text. Texts of 4 MB took 4 to 32 with byte-level BPE, the most where each
/// digit is a word, and 28 to 56 with the scores of SentencePiece.
const ROOM_PER_BYTE: usize = 64;
/// The same where the `tokenizers` crate cuts text into words, which are texts of their own there: 290 where each letter is one.
const FOREIGN_ROOM_PER_BYTE: usize = 320;

/// What turns a word into tokens.
enum Model {
    Bpe(Bpe),
    Spm(Spm),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Model {
    /// The token for what it cannot express.
    fn unk(&self) -> Option<u32> {
        match self {
            Model::Bpe(Bpe { units: Units::Chars { unk, .. }, .. }) => *unk,
            Model::Bpe(_) => None,
            Model::Spm(model) => model.unk,
            Model::WordPiece(model) => model.unk,
            Model::Unigram(model) => Some(model.unk),
        }
    }
}

/// Where in the sequence a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    AfterSpecial,
    /// Behind a token that was found in the normalized text, or bytes that are no text.
    Inside,
    /// It goes on where the text of another call ends.
    Behind,
}

impl Tokenizer {
    /// Builds the tokenizer that the keys `tokenizer.ggml.*` describe.
    ///
    /// # Errors
    /// `Unsupported` for a kind of vocabulary or a pre-tokenizer that is not known, by name; `Format` for keys that
    /// are missing, of the wrong type, or contradict each other.
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

    /// Looks at all that [`Tokenizer::from_gguf`] looks at but the texts of the tokens and the merges, in no time that counts.
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
    /// `Format` for JSON that is malformed or contradicts itself; `Unsupported` for parts that are not known, by name.
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

    /// Looks at all that [`Tokenizer::from_files_under`] takes of the files beside a `tokenizer.json`.
    ///
    /// # Errors
    /// As [`Tokenizer::from_files_under`].
    #[cfg(feature = "hf")]
    pub fn check_files(files: &TokenizerFiles<'_>) -> Result<()> {
        json::read_configs(files).map(drop)
    }

    /// The number of tokens; every id is below it.
    pub fn n_vocab(&self) -> usize {
        self.lexicon.len()
    }

    /// Bytes of memory that encoding may take for each byte of a text, unless normalization makes it much longer.
    pub fn room_per_byte(&self) -> usize {
        match self.pre.stages.iter().any(|stage| matches!(stage, Stage::Other { .. })) {
            true => FOREIGN_ROOM_PER_BYTE,
            false => ROOM_PER_BYTE,
        }
    }

    /// The tokens of `text`.
    ///
    /// With `add_special`, BOS and EOS (or what the model has in their place) frame them as the source asks. With
    /// `parse_special`, the text of a control token (`<|im_end|>`) becomes that token; otherwise no text can spell
    /// one. User-defined tokens are recognised either way.
    ///
    /// A SentencePiece-style vocabulary may put a space before the text at the start of the sequence and after each
    /// special token; empty text gives no such space. Some tokenizers change the text before they read it: Qwen's
    /// compose characters (NFC), BERT's fold the case. A byte that a vocabulary cannot express is left out.
    ///
    /// Takes O(n log n) time in the length of the text, whatever the text is; where an expression of a `tokenizer.json`
    /// takes much longer than that, encoding ends with an error.
    ///
    /// # Errors
    /// `Unsupported` if a normalizer or pre-tokenizer of a `tokenizer.json` fails on this text.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.encode_bytes(text.as_bytes(), add_special, parse_special)
    }

    /// The tokens of `text` behind the tokens `past`, which are all of its sequence: none is added, and a space only where the whole text
    /// would have had one: behind a special token, and at the start, which is behind what is put before a text. The token for
    /// what the vocabulary cannot express stands for text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_behind(&self, past: &[u32], text: &str, parse_special: bool) -> Result<Vec<u32>> {
        let place = match past.last() {
            _ if past == self.roles.prefix => Place::Start,
            Some(&last) if self.ends_text(last) => Place::AfterSpecial,
            Some(_) => Place::Behind,
            None => Place::Start,
        };
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_text(text, place, parse_special, &mut Effort::new(text.len()), &mut out)?;
        Ok(out)
    }

    /// Whether what is behind `token` is a text of its own: it is found in the text as it is, and stands for none.
    fn ends_text(&self, token: u32) -> bool {
        self.specials.has(token) && !self.normalized_specials.has(token) && self.model.unk() != Some(token)
    }

    /// As [`Tokenizer::encode`] for text that need not be UTF-8.
    ///
    /// Each longest stretch of valid UTF-8 is encoded as text. What is between them is encoded byte by byte: a
    /// byte-level vocabulary merges the bytes of one such gap as it merges a word's, one with byte tokens gives those,
    /// any other its unknown token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_bytes(&self, text: &[u8], add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        if add_special {
            out.extend_from_slice(&self.roles.prefix);
        }
        let mut place = Place::Start;
        let mut effort = Effort::new(text.len());
        let mut gap = Vec::new();
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                self.encode_gap(&mut gap, &mut out);
                place = self.encode_text(chunk.valid(), place, parse_special, &mut effort, &mut out)?;
            }
            if !chunk.invalid().is_empty() {
                gap.extend_from_slice(chunk.invalid());
                place = Place::Inside;
            }
        }
        self.encode_gap(&mut gap, &mut out);
        if add_special {
            out.extend_from_slice(&self.roles.suffix);
        }
        Ok(out)
    }

    /// Appends the tokens of a stretch of text; gives the place behind it.
    fn encode_text(
        &self,
        text: &str,
        mut place: Place,
        control: bool,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<Place> {
        for fragment in self.specials.split(text, control) {
            match fragment {
                Fragment::Token(token) => {
                    out.push(token);
                    place = Place::AfterSpecial;
                }
                Fragment::Text(text) => {
                    let normal = self.normalizer.apply(text, place, effort)?;
                    for fragment in self.normalized_specials.split(&normal, control) {
                        match fragment {
                            Fragment::Token(token) => out.push(token),
                            Fragment::Text(text) => {
                                let found = |word: &str, effort: &mut _| self.encode_word(word, effort, out);
                                self.pre.words(text, place, effort, found)?;
                            }
                        }
                        place = Place::Inside;
                    }
                }
            }
        }
        Ok(place)
    }

    fn encode_word(&self, word: &str, effort: &mut Effort, out: &mut Vec<u32>) -> Result<()> {
        let spaced;
        let word = if self.escapes_space && word.contains(SPACE) {
            spaced = word.replace(SPACE, " ");
            &spaced
        } else {
            word
        };
        match &self.model {
            Model::Bpe(model) => model.encode(&self.lexicon, word, out),
            Model::Spm(model) => model.encode(&self.lexicon, word, out),
            Model::WordPiece(model) => model.encode(&self.lexicon, word, effort, out)?,
            Model::Unigram(model) => model.encode(&self.lexicon, word, effort, out)?,
        }
        Ok(())
    }

    /// Appends the tokens of bytes that are no text, and empties `gap`.
    fn encode_gap(&self, gap: &mut Vec<u8>, out: &mut Vec<u32>) {
        if gap.is_empty() {
            return;
        }
        match &self.model {
            Model::Bpe(model) => model.encode_bytes(&self.lexicon, gap, out),
            Model::Spm(model) => self.lexicon.fall_back(gap, model.unk, out),
            Model::WordPiece(model) => out.extend(model.unk),
            Model::Unigram(model) => model.encode_bytes(&self.lexicon, gap, out),
        }
        gap.clear();
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
    /// `tokens` is taken as the start of a sequence: where encoding puts a space before the text, one leading space
    /// of the first token after BOS is removed, unless that is a special token, which has none. Joining
    /// [`Tokenizer::token_bytes`] keeps it, as the continuation of a text wants.
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
            let mut bytes = self.token_bytes(token)?;
            let ty = self.types[token as usize];
            if !special && ty.is_hidden() {
                continue;
            }
            if index == first && self.strips_space && !ty.is_special() {
                bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
            out.extend_from_slice(bytes);
        }
        Ok(out)
    }

    /// Whether `token` ends a generation: end of text, turn or message, or one of the tokens that models are known
    /// to stop with.
    pub fn is_eog(&self, token: u32) -> bool {
        self.roles.eog.contains(&token)
    }

    /// Makes further tokens end a generation; those that do not exist are left out.
    pub fn add_ends(&mut self, tokens: &[u32]) {
        let n_vocab = self.n_vocab();
        self.roles.eog.extend(tokens.iter().filter(|&&token| (token as usize) < n_vocab));
    }

    /// Whether `token` is a control token, such as BOS, which stands for no text.
    pub fn is_control(&self, token: u32) -> bool {
        self.types.get(token as usize) == Some(&TokenType::Control)
    }

    /// Whether [`Tokenizer::decode`] leaves `token` out unless special tokens are asked for.
    pub fn is_hidden(&self, token: u32) -> bool {
        self.types.get(token as usize).is_some_and(|ty| ty.is_hidden())
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    /// The token that ends a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.roles.eot
    }

    /// The token that fills up a batch.
    pub fn pad(&self) -> Option<u32> {
        self.roles.pad
    }

    /// The token for what the vocabulary cannot express.
    pub fn unk(&self) -> Option<u32> {
        self.roles.unk
    }

    /// Whether [`Tokenizer::encode`] with `add_special` puts a token, BOS as a rule, first.
    pub fn add_bos(&self) -> bool {
        !self.roles.prefix.is_empty()
    }

    /// The special tokens that encoding puts behind a text.
    pub fn suffix(&self) -> &[u32] {
        &self.roles.suffix
    }

    /// Whether [`Tokenizer::encode`] with `add_special` puts a token, EOS as a rule, last.
    pub fn add_eos(&self) -> bool {
        !self.roles.suffix.is_empty()
    }

    /// The source's template for conversations, in the Jinja language.
    pub fn chat_template(&self) -> Option<&str> {
        self.named_chat_template("default")
    }

    /// A template by its name: some sources have one for tools (`tool_use`) or for documents (`rag`).
    pub fn named_chat_template(&self, name: &str) -> Option<&str> {
        self.chat_templates.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }

    /// The names of the source's templates for conversations.
    pub fn chat_template_names(&self) -> impl Iterator<Item = &str> {
        self.chat_templates.iter().map(|(name, _)| name.as_str())
    }

    /// Replaces the chat templates by these, which have names; the one called `default` stays where there is no other.
    #[cfg(feature = "hf")]
    pub fn set_chat_templates(&mut self, templates: Vec<(String, String)>) {
        if templates.is_empty() {
            return;
        }
        let has_default = templates.iter().any(|(name, _)| name == "default");
        self.chat_templates.retain(|(name, _)| name == "default" && !has_default);
        self.chat_templates.extend(templates);
    }
}
