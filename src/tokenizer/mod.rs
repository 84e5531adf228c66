//! Text to tokens and back, by the vocabulary that a GGUF file carries.
//!
//! Two kinds of vocabulary are read: byte-level BPE (`gpt2`, see `bpe`) and SentencePiece-style (`llama`, see
//! `spm`). What they share is here: special tokens, BOS and EOS, and the table of each token's exact bytes, from
//! which all decoding is done.
#![forbid(unsafe_code)]

mod bpe;
mod pre;
mod special;
mod spm;
#[cfg(test)]
mod tests;
mod vocab;

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use bpe::Bpe;
use pre::PreTokenizer;
use special::{Defaults, Fragment, Roles, SpecialTokens};
use spm::Spm;
use vocab::{Pieces, TokenType, Vocab};

/// The tokenizer of one model. It does not change once built, and many threads may use it at once.
pub struct Tokenizer {
    engine: Engine,
    pieces: Pieces,
    /// One for each token.
    types: Vec<TokenType>,
    roles: Roles,
    specials: SpecialTokens,
}

/// The kind of vocabulary.
enum Engine {
    Bpe(Box<Bpe>),
    Spm(Box<Spm>),
}

impl Tokenizer {
    /// Builds the tokenizer that the keys `tokenizer.ggml.*` describe.
    ///
    /// # Errors
    /// `Unsupported` for a kind of vocabulary or a pre-tokenizer that is not known, by name; `Format` for keys that
    /// are missing, of the wrong type, or contradict each other.
    pub fn from_gguf(meta: &Metadata) -> Result<Tokenizer> {
        let mut vocab = Vocab::from_gguf(meta)?;
        match meta.require_str("tokenizer.ggml.model")? {
            "gpt2" => {
                let pre = PreTokenizer::named(meta.str("tokenizer.ggml.pre")?.unwrap_or("default"))?;
                let defaults = Defaults { bos: None, eos: None, unk: None, add_bos: pre.add_bos };
                let roles = Roles::from_gguf(meta, &mut vocab, &defaults)?;
                let engine = Engine::Bpe(Box::new(Bpe::from_gguf(meta, &vocab, pre)?));
                Ok(Tokenizer::new(engine, Bpe::token_bytes(&vocab), roles, vocab))
            }
            "llama" => {
                let defaults = Defaults { bos: Some(1), eos: Some(2), unk: Some(0), add_bos: true };
                let roles = Roles::from_gguf(meta, &mut vocab, &defaults)?;
                let engine = Engine::Spm(Box::new(Spm::from_gguf(meta, &vocab, roles.unk)?));
                Ok(Tokenizer::new(engine, Spm::token_bytes(&vocab)?, roles, vocab))
            }
            other => Err(Error::Unsupported(format!(
                "the kind of vocabulary {other:?} (key \"tokenizer.ggml.model\") is not supported; known are gpt2, llama"
            ))),
        }
    }

    fn new(engine: Engine, pieces: Pieces, roles: Roles, vocab: Vocab<'_>) -> Tokenizer {
        let specials = SpecialTokens::new(&vocab);
        Tokenizer { engine, pieces, types: vocab.types, roles, specials }
    }

    /// The number of tokens; every id is below it.
    pub fn n_vocab(&self) -> usize {
        self.pieces.len()
    }

    /// The tokens of `text`.
    ///
    /// With `add_special`, BOS and EOS frame them as the file asks ([`Tokenizer::add_bos`], [`Tokenizer::add_eos`]).
    /// With `parse_special`, the text of a control token (`<|im_end|>`) becomes that token; otherwise no text can
    /// spell one. User-defined tokens are recognised either way.
    ///
    /// A SentencePiece-style vocabulary may put a space before the text at the start of the sequence and after each
    /// special token; empty text gives no such space. A byte that a vocabulary cannot express is left out.
    ///
    /// Takes O(n log n) time in the length of the text, whatever the text is.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        if add_special && self.roles.add_bos {
            out.extend(self.roles.bos);
        }
        let mut after_special = true;
        for fragment in self.specials.split(text, parse_special) {
            after_special = match fragment {
                Fragment::Text(text) => {
                    match &self.engine {
                        Engine::Bpe(bpe) => bpe.encode(text, &mut out)?,
                        Engine::Spm(spm) => spm.encode(text, after_special, &mut out),
                    }
                    false
                }
                Fragment::Token(token) => {
                    out.push(token);
                    true
                }
            };
        }
        if add_special && self.roles.add_eos {
            out.extend(self.roles.eos);
        }
        Ok(out)
    }

    /// The exact bytes of `token`, which need not be whole characters; for a control token, its text as written.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such token.
    pub fn token_bytes(&self, token: u32) -> Result<&[u8]> {
        self.pieces.get(token).ok_or_else(|| {
            let n = self.n_vocab();
            Error::InvalidArgument(format!("token {token} does not exist: the vocabulary has {n} tokens"))
        })
    }

    /// The bytes that `tokens` stand for; control tokens give their text if `special`, else nothing.
    ///
    /// `tokens` is taken as the start of a sequence: where encoding puts a space before the text, one leading space
    /// of the first token after BOS is removed, unless that is a special token, which has none. Joining
    /// [`Tokenizer::token_bytes`] keeps it, as the continuation of a text wants.
    pub fn decode(&self, tokens: &[u32], special: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let has_bos = tokens.first().is_some_and(|&t| Some(t) == self.roles.bos);
        let first = usize::from(has_bos);
        for (index, &token) in tokens.iter().enumerate() {
            let mut bytes = self.token_bytes(token)?;
            let ty = self.types[token as usize];
            if !special && ty.is_hidden() {
                continue;
            }
            if index == first && self.prefixes_space() && !ty.is_special() {
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

    /// Whether [`Tokenizer::encode`] with `add_special` puts BOS first.
    pub fn add_bos(&self) -> bool {
        self.roles.add_bos
    }

    /// Whether [`Tokenizer::encode`] with `add_special` puts EOS last.
    pub fn add_eos(&self) -> bool {
        self.roles.add_eos
    }

    /// Whether encoding puts a space before a text.
    fn prefixes_space(&self) -> bool {
        matches!(&self.engine, Engine::Spm(spm) if spm.add_space_prefix)
    }
}
