//! Sequences of models with an encoder and a decoder. The encoder reads the tokens before the first `start` token as a whole; the
//! decoder has the rest. So the tokens themselves divide the two parts, in copies and saved states too.
#![forbid(unsafe_code)]

use super::Sequences;
use crate::error::{Error, Result};

impl Sequences {
    /// Has an encoder read the tokens before the first token `start` of each sequence, and a decoder the rest.
    pub fn decode_from(&mut self, start: Option<u32>) {
        self.decoder_start = start;
    }

    /// How many tokens of sequence `seq` the encoder reads, those of the call under way included; 0 in other models.
    pub fn encoded(&self, seq: usize) -> usize {
        self.encoded_of(seq, self.sequences[seq].planned)
    }

    /// The same of its first `n` tokens.
    pub(super) fn encoded_of(&self, seq: usize, n: usize) -> usize {
        let Some(start) = self.decoder_start else { return 0 };
        let ids = &self.sequences[seq].ids[..n];
        ids.iter().position(|&id| id == start).unwrap_or(n)
    }

    /// Whether the decoder's part of `seq` has begun before the call under way.
    pub fn is_decoding(&self, seq: u32) -> Result<bool> {
        let i = self.index(seq)?;
        let len = self.sequences[i].len;
        Ok(self.encoded_of(i, len) < len)
    }

    /// Whether the encoder's part of sequence `i` is that of the text `ids` too, whose first `common` tokens are the same.
    pub(super) fn encodes_alike(&self, i: usize, ids: &[u32], common: usize) -> bool {
        let Some(start) = self.decoder_start else { return true };
        let encoded = self.encoded_of(i, self.sequences[i].len);
        common > encoded || (common == encoded && ids.get(common) == Some(&start))
    }

    /// `InvalidArgument` where the call under way gives the encoder no tokens, or tokens after those that it has read.
    pub(super) fn check_encoded(&self) -> Result<()> {
        let Some(start) = self.decoder_start else { return Ok(()) };
        for (seq, s) in self.sequences.iter().enumerate().filter(|(_, s)| s.planned > s.len) {
            if s.ids.first() == Some(&start) {
                return Err(Error::InvalidArgument(format!(
                    "sequence {seq} would begin with token {start} (decoder_start_token_id), which leaves the encoder no text"
                )));
            }
            if s.len > 0 && self.encoded_of(seq, s.len) == s.len && s.ids[s.len] != start {
                return Err(Error::InvalidArgument(format!(
                    "the encoder has read the {} tokens of sequence {seq} as a whole: token {start} (decoder_start_token_id) \
                     has to follow, not {}",
                    s.len, s.ids[s.len]
                )));
            }
        }
        Ok(())
    }
}
