//! What the `tokenizers` crate does here: the rarer normalizers and pre-tokenizers, exactly as their authors run them, and
//! expressions that are not regular. Without the feature of the same name `foreign_off` stands in its place.
#![forbid(unsafe_code)]

use fancy_regex::{Regex, RegexBuilder};
use tokenizers::normalizers::{BertNormalizer, NFC};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::tokenizer::{OffsetReferential, OffsetType};
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

/// An expression that is not regular.
#[derive(Clone)]
pub(super) struct Backtracking(Regex);

/// How often one attempt to match may go back. What real expressions try is over after a few times; at some microseconds each,
/// this is a fraction of a second.
const MOST_BACKTRACKS: usize = 100_000;

impl Backtracking {
    /// Compiles an expression, or says what is wrong with it. Each of its regular parts may take `program_bytes`, and its states
    /// `state_bytes`.
    pub(super) fn new(
        expression: &str,
        program_bytes: usize,
        state_bytes: usize,
    ) -> std::result::Result<Backtracking, String> {
        let compile = |expression: &str| {
            RegexBuilder::new(expression)
                .backtrack_limit(MOST_BACKTRACKS)
                .delegate_size_limit(program_bytes)
                .delegate_dfa_size_limit(state_bytes)
                .build()
                .map_err(|e| e.to_string())
        };
        // What is wrong with it is said of the expression itself.
        compile(expression)?;
        compile(&[r"\G(?:", expression, ")"].concat()).map(Backtracking)
    }

    /// The match in `text` that begins at `at`, if there is one; what is before `at` is seen by assertions.
    ///
    /// # Errors
    /// `Unsupported` when it takes too long.
    pub(super) fn match_at(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>> {
        match self.0.find_from_pos(text, at) {
            Ok(found) => Ok(found.map(|found| (found.start(), found.end()))),
            Err(e) => Err(Error::Unsupported(format!(
                "the tokenizer takes too long on this text: an expression gives up at byte {at}: {e}"
            ))),
        }
    }
}
