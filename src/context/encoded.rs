//! Models with an encoder and a decoder: which rows of a call the encoder reads, and where micro-batches are cut. Each
//! micro-batch belongs to one of the two, and has whole texts of the encoder's.
#![forbid(unsafe_code)]

use super::Tokens;
use crate::cache::Sequences;
use crate::error::{Error, Result};

/// The rows of the call under way.
#[derive(Default)]
pub(super) struct Encoded {
    /// For each row the number of the encoder's text it belongs to, from 1 on, or 0 for a row of the decoder's. Empty in models
    /// without an encoder.
    texts: Vec<u32>,
    /// For each sequence, whether its decoder's part has begun.
    decodes: Vec<bool>,
}

impl Encoded {
    /// Plans the rows of `tokens`, in which `start` begins answers. `InvalidArgument` for a text that other tokens interrupt,
    /// that wants logits within the encoder's part, or that has more than `n_batch` tokens.
    pub fn plan(
        &mut self,
        tokens: &Tokens<'_>,
        start: Option<u32>,
        sequences: &Sequences,
        n_batch: usize,
    ) -> Result<()> {
        self.texts.clear();
        let Some(start) = start else { return Ok(()) };
        self.decodes.clear();
        for seq in 0..sequences.n_seq() as u32 {
            self.decodes.push(sequences.is_decoding(seq)?);
        }
        let seq_of = |i: usize| tokens.seqs.map_or(0, |seqs| seqs[i]) as usize;
        let (mut n_texts, mut len) = (0, 0);
        for (i, &id) in tokens.ids.iter().enumerate() {
            let seq = seq_of(i);
            // Missing sequences are refused where pages are taken.
            let Some(decodes) = self.decodes.get_mut(seq) else { continue };
            *decodes |= id == start;
            if *decodes {
                self.texts.push(0);
                continue;
            }
            if tokens.wants(i) {
                return Err(Error::InvalidArgument(format!(
                    "token {i} of the batch asks for logits, but the encoder reads it: there are logits from token {start} \
                     (decoder_start_token_id) on, which has to follow the text"
                )));
            }
            let goes_on = i > 0 && seq_of(i - 1) == seq && self.texts.last().is_some_and(|&text| text > 0);
            if !goes_on {
                if (0..i).any(|j| seq_of(j) == seq) {
                    return Err(Error::InvalidArgument(format!(
                        "token {i} of the batch goes on with the text of sequence {seq} after other sequences' tokens, but an \
                         encoder reads a text in one piece"
                    )));
                }
                (n_texts, len) = (n_texts + 1, 0);
            }
            len += 1;
            if len > n_batch {
                return Err(Error::InvalidArgument(format!(
                    "the text of sequence {seq} has more than {n_batch} tokens (n_batch), but an encoder reads a text in one piece"
                )));
            }
            self.texts.push(n_texts);
        }
        Ok(())
    }

    /// The end of the micro-batch that begins with row `first` and may go up to row `most`.
    pub fn end(&self, first: usize, most: usize) -> usize {
        let Some(rest) = self.texts.get(first..most) else { return most };
        let is_encoded = rest[0] > 0;
        let n = rest.iter().take_while(|&&text| (text > 0) == is_encoded).count();
        let end = first + n;
        match self.texts.get(end) {
            // A text that does not fit as a whole goes into the next micro-batch.
            Some(&next) if is_encoded && next == self.texts[end - 1] => {
                first + rest.iter().take_while(|&&text| text != next).count()
            }
            _ => end,
        }
    }
}
