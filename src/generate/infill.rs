//! The sampler's stage for filling a gap, for a tokenizer.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::Result;
use crate::sampler::{Infill, Stage, Vocabulary};
use crate::tokenizer::Tokenizer;

impl Vocabulary for Tokenizer {
    fn is_end(&self, token: u32) -> bool {
        self.is_eog(token)
    }

    fn text(&self, token: u32) -> &[u8] {
        let is_text = !self.is_hidden(token);
        self.token_bytes(token).ok().filter(|_| is_text).unwrap_or_default()
    }

    fn end(&self) -> Option<u32> {
        self.eot().or(self.eos())
    }
}

/// The stage that leaves only the end of a generation unless the model is sure of something else.
///
/// # Errors
/// `Unsupported` for a tokenizer without an end of turn or of text.
pub fn infill(tokenizer: Arc<Tokenizer>) -> Result<Stage> {
    Infill::new(tokenizer).map(Stage::Infill)
}
