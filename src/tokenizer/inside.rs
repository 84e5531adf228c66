//! What constraints ask of a tokenizer: the tokens of texts in the midst of others, and which tokens stand in for text.
#![forbid(unsafe_code)]

use super::effort::Effort;
use super::vocab::TokenType;
use super::{Place, Tokenizer};
use crate::error::Result;

impl Tokenizer {
    /// The tokens of `text` in the midst of other text: nothing is put before it, and no text spells a control token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_inside(&self, text: &str) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_text(text, Place::Behind, false, &mut Effort::new(text.len()), &mut out)?;
        Ok(out)
    }

    /// Whether `token` is one byte by its type, which stands in where texts have no token.
    pub fn is_byte(&self, token: u32) -> bool {
        self.types.get(token as usize) == Some(&TokenType::Byte)
    }
}
