//! Changes to a text before it is cut into words.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::Place;
use super::charsmap::Charsmap;
use super::effort::Effort;
use super::expression::Matcher;
use super::foreign::ForeignNormalizer;
use crate::error::{Error, Result};

/// The steps, in order.
#[derive(Default)]
pub(super) struct Normalizer {
    pub(super) steps: Vec<Step>,
}

/// One step.
pub(super) enum Step {
    /// A text is put before text that starts the sequence or follows a special token.
    Prefix(String),
    /// Every occurrence of a text becomes another.
    Replace(String, String),
    /// Every match of an expression becomes a text.
    ReplaceMatches(Matcher, String),
    /// Letters become small ones.
    Lowercase,
    /// Runs of spaces become one; those at the ends are removed.
    CollapseSpaces,
    /// Replacements by SentencePiece's table, in its way or by grapheme clusters.
    Charsmap { map: Box<Charsmap>, graphemes: bool },
    /// Anything else, by the `tokenizers` crate.
    Other {
        normalizer: ForeignNormalizer,
        /// Whether ASCII text is left as it is.
        keeps_ascii: bool,
    },
}

/// Refuses a text that has grown to `len` bytes, more than `most`.
fn check_len(len: usize, most: usize) -> Result<()> {
    match len <= most {
        true => Ok(()),
        false => Err(Error::Unsupported(format!(
            "the normalizer makes {len} bytes of a text that may become {most} bytes at most"
        ))),
    }
}

impl Normalizer {
    /// Applies the steps to text at `place`, within what is left of `effort`.
    ///
    /// # Errors
    /// `Unsupported` if a step fails, takes too long, or makes the text longer than any real tokenizer does.
    pub(super) fn apply<'t>(&self, text: &'t str, place: Place, effort: &mut Effort) -> Result<Cow<'t, str>> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            effort.check_now()?;
            if let Some(changed) = step.apply(&text, place, effort)? {
                check_len(changed.len(), effort.n_left())?;
                text = Cow::Owned(changed);
            }
        }
        effort.spend(text.len());
        Ok(text)
    }
}

impl Step {
    /// BERT's normalization; see [`ForeignNormalizer::bert`].
    pub(super) fn bert(strip_accents: Option<bool>, lowercase: bool) -> Result<Step> {
        Ok(Step::Other { normalizer: ForeignNormalizer::bert(strip_accents, lowercase)?, keeps_ascii: false })
    }

    /// Normalization to composed characters (NFC).
    pub(super) fn nfc() -> Result<Step> {
        Ok(Step::Other { normalizer: ForeignNormalizer::nfc()?, keeps_ascii: true })
    }

    /// The changed text, or None if nothing changes. A text that would exceed its limit is refused before it is
    /// made, unless the step cannot make it much longer.
    fn apply(&self, text: &str, place: Place, effort: &mut Effort) -> Result<Option<String>> {
        let most = effort.n_left();
        Ok(match self {
            Step::Prefix(prefix) => {
                let wanted = matches!(place, Place::Start | Place::AfterSpecial) && !text.is_empty();
                wanted.then(|| [prefix, text].concat())
            }
            Step::Replace(from, to) => match text.matches(&**from).count() {
                0 => None,
                n => {
                    check_len(
                        (text.len() - n * from.len()).saturating_add(n.saturating_mul(to.len())),
                        most,
                    )?;
                    Some(text.replace(&**from, to))
                }
            },
            Step::ReplaceMatches(matcher, to) => Some(matcher.replace_all(text, to, most, effort)?),
            Step::Lowercase => Some(text.to_lowercase()),
            Step::CollapseSpaces => {
                let words = text.split(' ').filter(|word| !word.is_empty());
                Some(words.collect::<Vec<_>>().join(" "))
            }
            Step::Charsmap { map, graphemes: false } => Some(map.replace(text, most)),
            Step::Charsmap { map, graphemes: true } => Some(map.replace_graphemes(text, most)),
            Step::Other { keeps_ascii: true, .. } if text.is_ascii() => None,
            Step::Other { normalizer, .. } => Some(normalizer.apply(text, effort)?),
        })
    }
}
