//! What is done to text before it is cut into words.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use tokenizers::{NormalizedString, Normalizer as _, NormalizerWrapper};

use super::Place;
use super::charsmap::Charsmap;
use crate::error::{Error, Result};

/// The steps, in order.
#[derive(Default)]
pub(super) struct Normalizer {
    pub(super) steps: Vec<Step>,
}

/// One step.
pub(super) enum Step {
    /// A text is put before text that starts the sequence or follows a special token.
    Prefix {
        text: String,
        /// Only if the text does not begin with it already.
        if_absent: bool,
    },
    /// Every occurrence of a text becomes another.
    Replace(String, String),
    /// Runs of spaces become one; those at the ends go.
    CollapseSpaces,
    /// Replacements by SentencePiece's table, as it does it, or by grapheme clusters.
    Charsmap { map: Box<Charsmap>, graphemes: bool },
    /// Anything else, by the `tokenizers` crate.
    Other {
        normalizer: Box<NormalizerWrapper>,
        /// Whether ASCII text is left as it is.
        keeps_ascii: bool,
    },
}

impl Normalizer {
    /// Applies the steps to text at `place`.
    pub(super) fn apply<'t>(&self, text: &'t str, place: Place) -> Result<Cow<'t, str>> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            if let Some(changed) = step.apply(&text, place)? {
                text = Cow::Owned(changed);
            }
        }
        Ok(text)
    }
}

impl Step {
    /// BERT's normalization: no control characters, space around Chinese characters and, if `lowercase`, lower case;
    /// without `strip_accents` accents go when the case goes.
    pub(super) fn bert(strip_accents: Option<bool>, lowercase: bool) -> Step {
        let bert = tokenizers::normalizers::BertNormalizer::new(true, true, strip_accents, lowercase);
        Step::Other { normalizer: Box::new(NormalizerWrapper::BertNormalizer(bert)), keeps_ascii: false }
    }

    /// Normalization to composed characters (NFC).
    pub(super) fn nfc() -> Step {
        let normalizer = Box::new(NormalizerWrapper::NFC(tokenizers::normalizers::NFC));
        Step::Other { normalizer, keeps_ascii: true }
    }

    /// The changed text, or None if nothing changes.
    fn apply(&self, text: &str, place: Place) -> Result<Option<String>> {
        Ok(match self {
            Step::Prefix { text: prefix, if_absent } => {
                let wanted = place != Place::Inside
                    && !text.is_empty()
                    && !(*if_absent && text.starts_with(&**prefix));
                wanted.then(|| [prefix, text].concat())
            }
            Step::Replace(from, to) => text.contains(&**from).then(|| text.replace(&**from, to)),
            Step::CollapseSpaces => {
                let words = text.split(' ').filter(|word| !word.is_empty());
                Some(words.collect::<Vec<_>>().join(" "))
            }
            Step::Charsmap { map, graphemes: false } => Some(map.replace(text)),
            Step::Charsmap { map, graphemes: true } => Some(map.replace_graphemes(text)),

            Step::Other { keeps_ascii: true, .. } if text.is_ascii() => None,
            Step::Other { normalizer, .. } => {
                let mut changed = NormalizedString::from(text);
                normalizer
                    .normalize(&mut changed)
                    .map_err(|e| Error::Unsupported(format!("the text could not be normalized: {e}")))?;
                Some(changed.get().to_owned())
            }
        })
    }
}
