//! The vocabulary as a GGUF file writes it down: texts and types of tokens, and the tokens that play a role.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// The key of the token texts.
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
/// The key of the token types.
const TYPES: &str = "tokenizer.ggml.token_type";

/// What kind of token it is; the numbers are those of `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    /// 0, or a number without a meaning: treated as normal text.
    Undefined,
    /// 1: text.
    Normal,
    /// 2: stands for what the vocabulary cannot express.
    Unknown,
    /// 3: steers the model (`<|im_end|>`); never spelled by plain text.
    Control,
    /// 4: a text that is always kept whole.
    UserDefined,
    /// 5: a spare; treated as normal text.
    Unused,
    /// 6: one byte, written `<0xNN>`.
    Byte,
}

impl TokenType {
    fn from_number(number: i32) -> TokenType {
        match number {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Undefined,
        }
    }

    /// Kept whole, and written in the file as it is in text.
    pub(super) fn is_special(self) -> bool {
        self.is_hidden() || self == TokenType::UserDefined
    }

    /// Rendered only when special tokens are asked for.
    pub(super) fn is_hidden(self) -> bool {
        matches!(self, TokenType::Control | TokenType::Unknown)
    }
}

/// Token texts (borrowed from the file's metadata) and types; the index is the token.
pub(super) struct Vocab<'m> {
    texts: Vec<&'m str>,
    /// As many as there are texts.
    pub(super) types: Vec<TokenType>,
}

impl<'m> Vocab<'m> {
    /// Reads and checks the arrays of texts and types; without types, all tokens are normal.
    pub(super) fn from_gguf(meta: &'m Metadata) -> Result<Vocab<'m>> {
        let tokens = meta.require_strings(TOKENS)?;
        if tokens.is_empty() {
            return Err(Error::Format(format!(
                "the array {TOKENS:?} is empty; a vocabulary has at least one token"
            )));
        }
        if u32::try_from(tokens.len()).is_err() {
            return Err(Error::Format(format!("the array {TOKENS:?} has {} tokens, too many", tokens.len())));
        }
        let text = |(id, bytes): (usize, &'m [u8])| {
            std::str::from_utf8(bytes)
                .map_err(|e| Error::Format(format!("the text of token {id} in {TOKENS:?} is not UTF-8: {e}")))
        };
        let texts = tokens.iter().enumerate().map(text).collect::<Result<Vec<_>>>()?;
        let types = match meta.i32s(TYPES)? {
            Some(numbers) => numbers.iter().map(|&n| TokenType::from_number(n)).collect(),
            None => vec![TokenType::Normal; texts.len()],
        };
        let vocab = Vocab { texts, types };
        vocab.check_len(TYPES, vocab.types.len())?;
        Ok(vocab)
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Checks that the array `key` of `len` elements has one for each token.
    pub(super) fn check_len(&self, key: &str, len: usize) -> Result<()> {
        if len == self.len() {
            return Ok(());
        }
        Err(Error::Format(format!("the array {key:?} has {len} elements, but {TOKENS:?} has {}", self.len())))
    }

    /// Each token with its text and type, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &'m str, TokenType)> {
        (0..).zip(&self.texts).zip(&self.types).map(|((id, &text), &ty)| (id, text, ty))
    }
}

/// The exact bytes of every token, in one block.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each token's bytes end; they start where the token's before end.
    ends: Vec<usize>,
}

impl Pieces {
    /// Room for `n` tokens.
    pub(super) fn with_capacity(n: usize) -> Pieces {
        Pieces { bytes: Vec::new(), ends: Vec::with_capacity(n) }
    }

    /// Adds the bytes of the next token.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of `token`, or None if there is no such token.
    pub(super) fn get(&self, token: u32) -> Option<&[u8]> {
        let index = token as usize;
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.bytes.get(start..end)
    }
}
