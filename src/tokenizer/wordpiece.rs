//! WordPiece (`tokenizer.ggml.model` = `bert`): the longest token that the rest of a word begins with, repeatedly (J. Devlin et
//! al., "BERT", 2018). Tokens that begin a word are spelled with a space before it, however the source marks them.
#![forbid(unsafe_code)]

use super::effort::Effort;
use super::vocab::Lexicon;
use crate::error::Result;

/// The encoder of a WordPiece vocabulary.
pub(super) struct WordPiece {
    /// The token of a word that cannot be expressed; without it the word is left out.
    pub(super) unk: Option<u32>,
    /// A word of more characters cannot be expressed.
    pub(super) max_chars: usize,
}

/// `max_chars` where the source does not say: BERT's own.
pub(super) const MAX_CHARS: usize = 100;

impl WordPiece {
    /// Appends the tokens of `word`.
    ///
    /// # Errors
    /// `Unsupported` when that takes too long.
    pub(super) fn encode(
        &self,
        lexicon: &Lexicon,
        word: &str,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let before = out.len();
        if !self.try_encode(lexicon, word, effort, out)? {
            out.truncate(before);
            out.extend(self.unk);
        }
        Ok(())
    }

    /// False if the word cannot be expressed.
    fn try_encode(
        &self,
        lexicon: &Lexicon,
        word: &str,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        if word.chars().nth(self.max_chars).is_some() {
            return Ok(false);
        }
        let spaced = [" ", word].concat();
        let mut rest = &spaced[..];
        let mut n_marks = 1; // bytes of `rest` that are no part of the word
        while rest.len() > n_marks {
            effort.check()?;
            let longest = rest.floor_char_boundary(lexicon.max_len);
            let mut ends = (n_marks + 1..=longest).rev().filter(|&end| rest.is_char_boundary(end));
            let found = ends.find_map(|end| Some((end, lexicon.find(&rest.as_bytes()[..end])?)));
            let Some((end, token)) = found else { return Ok(false) };
            out.push(token);
            rest = &rest[end..];
            n_marks = 0;
        }
        Ok(true)
    }
}
