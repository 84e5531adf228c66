//! Models with recurrent layers: tokens that are in a sequence and not in its state run once more.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{Context, Tokens};
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::nn::head::Output;

impl Context {
    /// Brings the states of the sequences of `tokens` to the end of their tokens. An error leaves a sequence as it was, except
    /// that its state may be nearer to the end.
    pub(super) fn catch_up(&mut self, tokens: &Tokens<'_>, watch: Watch<'_>) -> Result<()> {
        if self.sequences.recurrent().is_none() {
            return Ok(());
        }
        for i in 0..tokens.ids.len() {
            let seq = tokens.seqs.map_or(0, |seqs| seqs[i]);
            // A missing sequence is refused when the call is planned.
            while self.n_past(seq).is_ok()
                && let Some(at) = self.sequences.replay_from(seq)
            {
                self.replay(seq, at, watch)?;
            }
        }
        Ok(())
    }

    /// Runs a micro-batch of the tokens of `seq` from position `at` on.
    fn replay(&mut self, seq: u32, at: usize, watch: Watch<'_>) -> Result<()> {
        let begin = Instant::now();
        let end = self.n_past(seq)?.min(at + self.options.n_batch);
        let states = self.sequences.recurrent().and_then(|states| states.begin_replay(seq as usize));
        let states = states.ok_or_else(|| Error::Internal("no slot is left for a recurrent state".into()))?;
        self.plan.fill_again(seq, at, end - at, states, &self.sequences);
        let ids = &self.sequences.tokens(seq)?[at..end];
        let watch = watch.with(self.cancel.as_ref());
        let outcome =
            self.runner.forward(&self.plan.batch(&Tokens::next(ids), watch), Output::Logits(&mut []));
        if let Some(recurrent) = self.sequences.recurrent() {
            recurrent.end_replay(seq as usize, outcome.is_ok().then_some(end));
        }
        self.timings.add_replay(end - at, begin.elapsed());
        outcome
    }
}
