//! Stands in for `foreign` in builds without the feature `tokenizers`: loading refuses tokenizers that need it.
#![forbid(unsafe_code)]

use super::effort::Effort;
use crate::error::{Error, Result};

fn off(what: &str) -> String {
    format!("{what} needs the feature \"tokenizers\", which this build of Ember is without")
}

/// A normalizer; there is none.
pub(super) enum ForeignNormalizer {}

impl ForeignNormalizer {
    pub(super) fn bert(_: Option<bool>, _: bool) -> Result<ForeignNormalizer> {
        Err(Error::Unsupported(off("BERT's normalization of text")))
    }

    pub(super) fn nfc() -> Result<ForeignNormalizer> {
        Err(Error::Unsupported(off("the tokenizer's normalization of text to composed characters (NFC)")))
    }

    pub(super) fn apply(&self, _: &str, _: &mut Effort) -> Result<String> {
        match *self {}
    }
}

/// A pre-tokenizer; there is none.
pub(super) enum ForeignPreTokenizer {}

impl ForeignPreTokenizer {
    pub(super) fn bert() -> Result<ForeignPreTokenizer> {
        Err(Error::Unsupported(off("cutting text into BERT's words")))
    }

    pub(super) fn words(&self, _: &str, _: &mut Effort, _: impl FnMut(String)) -> Result<()> {
        match *self {}
    }
}

/// An expression that is not regular; there is none.
#[derive(Clone)]
pub(super) enum Backtracking {}

impl Backtracking {
    pub(super) fn new(_: &str, _: usize, _: usize) -> std::result::Result<Backtracking, String> {
        Err(off("it is not regular, which"))
    }

    pub(super) fn match_at(&self, _: &str, _: usize) -> Result<Option<(usize, usize)>> {
        match *self {}
    }
}
