//! Texts assembled from parts, and pairs of texts.
#![forbid(unsafe_code)]

use super::encode::{Control, Encoder};
use super::special::Fragment;
use super::{Model, Place};
use crate::error::{Error, Result};

/// A pair of texts as an encoder reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// The first token of the second text's type: at its beginning, after the separators, or after all tokens where the model has
    /// no token types.
    pub second: usize,
}

impl Encoder<'_> {
    /// The tokens of `parts`, which form one text. `true` marks a part of a template, whose texts of control tokens become these
    /// tokens; `false` marks text, which spells none.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_parts(&self, parts: &[(&str, bool)]) -> Result<Vec<u32>> {
        let (mut out, mut text, mut place) = (Vec::new(), String::new(), Place::Start);
        let n_bytes = parts.iter().map(|(text, _)| text.len()).sum();
        let mut effort = self.effort(n_bytes);
        let tokenizer = self.tokenizer;
        for &(part, is_template) in parts {
            if !is_template {
                text.push_str(part);
                continue;
            }
            for fragment in tokenizer.specials.split(part, true) {
                match fragment {
                    Fragment::Text(part) => text.push_str(part),
                    Fragment::Token(token) => {
                        if !text.is_empty() {
                            tokenizer.encode_text(&text, place, Control::Nowhere, &mut effort, &mut out)?;
                            text.clear();
                        }
                        out.push(token);
                        place = Place::AfterSpecial;
                    }
                }
            }
        }
        if !text.is_empty() {
            tokenizer.encode_text(&text, place, Control::Nowhere, &mut effort, &mut out)?;
        }
        Ok(out)
    }

    /// The tokens of a pair of texts, as in the training of encoders: BERT's with one separator between the two, RoBERTa's, whose
    /// vocabularies have scores, with two. With `most`, the second text is cut to what fits.
    ///
    /// # Errors
    /// As [`Encoder::encode`]; `Unsupported` for a tokenizer that frames texts in another way.
    pub fn encode_pair(&self, first: &str, second: &str, most: Option<usize>) -> Result<Pair> {
        let tokenizer = self.tokenizer;
        let (prefix, suffix) = (&tokenizer.roles.prefix, &tokenizer.roles.suffix);
        let n_between = match &tokenizer.model {
            Model::WordPiece(_) => 1,
            // T5 has one, and nothing before a text.
            Model::Unigram(_) if prefix.is_empty() => 1,
            Model::Unigram(_) => 2,
            Model::Bpe(_) | Model::Spm(_) | Model::Longest(_) | Model::Plamo(_) => 0,
        };
        if n_between == 0 || suffix.is_empty() {
            return Err(Error::Unsupported(
                "the tokenizer does not say what stands between the texts of a pair: BERT's and XLM-RoBERTa's do".into(),
            ));
        }
        let mut tokens = prefix.clone();
        tokens.extend(self.encode(first, false, false)?);
        (0..n_between).for_each(|_| tokens.extend_from_slice(suffix));
        let begin = tokens.len();
        let mut after = self.encode(second, false, false)?;
        if let Some(most) = most {
            after.truncate(most.saturating_sub(begin + suffix.len()));
        }
        tokens.extend(after);
        tokens.extend_from_slice(suffix);
        let second = if tokenizer.roles.one_type { tokens.len() } else { begin };
        Ok(Pair { tokens, second })
    }
}
