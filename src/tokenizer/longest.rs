//! RWKV's tokenizer (`tokenizer.ggml.model` = `rwkv`): the longest token at each place of a text (B. Peng et al., "Eagle and
//! Finch", 2024, section 5).
#![forbid(unsafe_code)]

use super::effort::Effort;
use super::vocab::Lexicon;
use crate::error::Result;
use crate::gguf::with_capacity;

/// The encoder of such a vocabulary.
pub(super) struct Longest {
    /// The tokens that text may spell, by their bytes.
    sorted: Vec<u32>,
    /// The token of a byte that no token begins with; without it the byte is left out.
    pub(super) unk: Option<u32>,
}

impl Longest {
    /// Sorts the tokens.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(super) fn new(lexicon: &Lexicon, unk: Option<u32>) -> Result<Longest> {
        let mut sorted = with_capacity(lexicon.len(), "the vocabulary's tokens in order")?;
        sorted.extend(lexicon.spelled());
        sorted.sort_unstable_by_key(|&id| lexicon.get(id).unwrap_or_default());
        Ok(Longest { sorted, unk })
    }

    /// Appends the tokens of `bytes`.
    ///
    /// # Errors
    /// `Unsupported` when that takes too long.
    pub(super) fn encode(
        &self,
        lexicon: &Lexicon,
        bytes: &[u8],
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let found = self.longest(lexicon, rest, effort)?;
            out.extend(found.map(|(token, _)| token).or(self.unk));
            rest = &rest[found.map_or(1, |(_, len)| len)..];
        }
        Ok(())
    }

    /// The longest token that `text` begins with, and its length.
    fn longest(&self, lexicon: &Lexicon, text: &[u8], effort: &mut Effort) -> Result<Option<(u32, usize)>> {
        let mut left = &self.sorted[..];
        let mut found = None;
        for (at, &byte) in text.iter().enumerate() {
            effort.check()?;
            // Of the tokens that begin with the text so far, those that continue with this byte.
            let next = |id: &u32| lexicon.get(*id).and_then(|bytes| bytes.get(at)).copied();
            let begin = left.partition_point(|id| next(id) < Some(byte));
            let end = left.partition_point(|id| next(id) <= Some(byte));
            left = &left[begin..end];
            match left {
                [] => break,
                [first, ..] if lexicon.get(*first).map(<[u8]>::len) == Some(at + 1) => {
                    found = Some((*first, at + 1))
                }
                _ => {}
            }
        }
        Ok(found)
    }
}
