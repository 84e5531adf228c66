//! What the `tokenizers` crate does here: the rarer normalizers and pre-tokenizers, exactly as their authors run them, and
//! expressions that are not regular. Without the feature of the same name `foreign_off` stands in its place.
#![forbid(unsafe_code)]

use tokenizers::normalizers::{BertNormalizer, NFC};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::tokenizer::{OffsetReferential, OffsetType};
use tokenizers::utils::SysRegex;
use tokenizers::{NormalizedString, Normalizer as _, NormalizerWrapper};
use tokenizers::{PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper};

use crate::error::{Error, Result};

/// A normalizer.
pub(super) struct ForeignNormalizer(pub(super) Box<NormalizerWrapper>);

impl ForeignNormalizer {
    /// BERT's: no control characters, space around Chinese characters and, if `lowercase`, lower case; without
    /// `strip_accents` accents go when the case goes.
    pub(super) fn bert(strip_accents: Option<bool>, lowercase: bool) -> Result<ForeignNormalizer> {
        let bert = BertNormalizer::new(true, true, strip_accents, lowercase);
        Ok(ForeignNormalizer(Box::new(NormalizerWrapper::BertNormalizer(bert))))
    }

    /// Composed characters.
    pub(super) fn nfc() -> Result<ForeignNormalizer> {
        Ok(ForeignNormalizer(Box::new(NormalizerWrapper::NFC(NFC))))
    }

    /// The normalized text.
    ///
    /// # Errors
    /// `Unsupported` if it fails.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let mut changed = NormalizedString::from(text);
        self.0
            .normalize(&mut changed)
            .map_err(|e| Error::Unsupported(format!("the text could not be normalized: {e}")))?;
        Ok(changed.get().to_owned())
    }
}

/// A pre-tokenizer.
pub(super) struct ForeignPreTokenizer(pub(super) Box<PreTokenizerWrapper>);

impl ForeignPreTokenizer {
    /// BERT's words: cut at white space and around each mark of punctuation.
    pub(super) fn bert() -> Result<ForeignPreTokenizer> {
        Ok(ForeignPreTokenizer(Box::new(PreTokenizerWrapper::BertPreTokenizer(BertPreTokenizer))))
    }

    /// Calls `found` with the words of `piece`, in order.
    ///
    /// # Errors
    /// `Unsupported` if it fails.
    pub(super) fn words(&self, piece: String, found: impl FnMut(String)) -> Result<()> {
        let mut split = PreTokenizedString::from(piece);
        self.0
            .pre_tokenize(&mut split)
            .map_err(|e| Error::Unsupported(format!("the text could not be cut into words: {e}")))?;
        let words = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
        words.into_iter().map(|(word, ..)| word.to_owned()).for_each(found);
        Ok(())
    }
}

/// An expression that is not regular. It gives up, and leaves the rest of a text whole, where one match would take long.
pub(super) struct Backtracking(SysRegex);

impl Backtracking {
    /// Compiles an expression, or says what is wrong with it.
    pub(super) fn new(expression: &str) -> std::result::Result<Backtracking, String> {
        SysRegex::new(expression).map(Backtracking).map_err(|e| e.to_string())
    }

    /// All matches in `text`.
    pub(super) fn find_iter<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, usize)> + 't {
        self.0.find_iter(text)
    }
}
