//! Draft tokens, which run before it is known whether they are chosen. They lie ready after their sequence, which does not hold
//! them until then.
#![forbid(unsafe_code)]

use super::{Context, MAX_AHEAD, Tokens};
use crate::cancel::{CancelToken, Watch};
use crate::error::Result;

impl Context {
    /// As [`Context::decode_under`] for the token `id` of sequence `seq`. `ahead`, up to [`MAX_AHEAD`] tokens that may follow it,
    /// run with it and lie ready for [`Context::advance`], until the next call that decodes or that changes the sequence. In
    /// models with recurrent layers they are no more than there are snapshots. With the default types of the KV cache they give
    /// the same bits as when they run one after another.
    pub fn decode_ahead(
        &mut self,
        seq: u32,
        id: u32,
        ahead: &[u32],
        cancel: Option<&CancelToken>,
    ) -> Result<()> {
        let ahead = &ahead[..ahead.len().min(MAX_AHEAD).min(self.sequences.most_ahead(seq)?)];
        let n = 1 + ahead.len();
        let mut ids = [id; 1 + MAX_AHEAD];
        ids[1..n].copy_from_slice(ahead);
        let (seqs, outputs) = ([seq; 1 + MAX_AHEAD], [true; 1 + MAX_AHEAD]);
        let tokens =
            Tokens { ids: &ids[..n], positions: None, seqs: Some(&seqs[..n]), outputs: Some(&outputs[..n]) };
        let watch = Watch::new(None, cancel);
        self.decode_with(tokens, ahead.len(), watch, |context, watch| context.run(&tokens, watch))
    }

    /// Takes token `id` into sequence `seq` without running it, if it is the next that lies ready there and its logits are.
    /// Returns whether that was so. Then [`Context::end_logits`] gives its logits.
    pub fn advance(&mut self, seq: u32, id: u32) -> bool {
        let Ok(len) = self.n_past(seq) else { return false };
        let has_logits = self.place(seq, len + 1).is_some();
        let taken = has_logits && self.sequences.advance(seq, id);
        self.timings.n_decode += u64::from(taken);
        taken
    }

    /// Allocates memory for the logits of `n` tokens, so that decoding them allocates nothing. The last call's may be gone.
    pub fn reserve_logits(&mut self, n: usize) -> Result<()> {
        self.reserve_outputs(n)
    }
}
