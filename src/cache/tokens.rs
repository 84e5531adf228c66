//! The tokens of a call.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};

/// Tokens to run, as flat arrays of the same length.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    /// Token ids.
    pub ids: &'a [u32],
    /// Position of each token; `None`: each goes to the end of its sequence. Given positions must be the same.
    pub positions: Option<&'a [u32]>,
    /// Sequence of each token; `None`: all belong to sequence 0.
    pub seqs: Option<&'a [u32]>,
    /// Whether each token's logits are wanted; `None`: the last token's only.
    pub outputs: Option<&'a [bool]>,
}

impl<'a> Tokens<'a> {
    /// Tokens at the end of sequence 0, with logits for the last.
    pub fn next(ids: &'a [u32]) -> Tokens<'a> {
        Tokens { ids, positions: None, seqs: None, outputs: None }
    }

    /// Whether the logits of token `i` are wanted.
    pub fn wants(&self, i: usize) -> bool {
        self.outputs.map_or(i + 1 == self.ids.len(), |w| w[i])
    }

    /// `InvalidArgument` where there is no token, or arrays differ in length.
    pub fn check_lengths(&self) -> Result<()> {
        let n = self.ids.len();
        if n == 0 {
            return Err(Error::InvalidArgument("there is no token to decode".into()));
        }
        let lengths = [
            ("positions", self.positions.map(<[u32]>::len)),
            ("sequence ids", self.seqs.map(<[u32]>::len)),
            ("output flags", self.outputs.map(<[bool]>::len)),
        ];
        for (what, len) in lengths {
            if let Some(len) = len
                && len != n
            {
                return Err(Error::InvalidArgument(format!("there are {len} {what} for {n} tokens")));
            }
        }
        Ok(())
    }
}
