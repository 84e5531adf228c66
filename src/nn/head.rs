//! The output head: final norm and vocabulary projection of the requested rows.
#![forbid(unsafe_code)]

use super::Batch;
use super::norm::NormLayer;
use super::workspace::Workspace;
#[cfg(doc)]
use crate::backend::NO_COLUMN;
use crate::backend::{Backend, Product};
use crate::error::Result;

/// The output of a forward pass for each row of [`Batch::outputs`].
pub enum Output<'a> {
    /// `[outputs, n_vocab]`.
    Logits(&'a mut [f32]),
    /// The token of the largest logit, of equal ones the lowest, `[outputs]`; [`NO_COLUMN`] where a logit is NaN or all are `-inf`.
    Best(&'a mut [u32]),
    /// The last hidden state after the final norm, `[outputs, n_embd]`.
    Hidden(&'a mut [f32]),
    /// Logits that are read one time and not kept.
    Each {
        /// Buffer for one row's logits, `[n_vocab]`.
        row: &'a mut [f32],
        /// Gets a row of the batch and its logits.
        look: &'a mut dyn FnMut(usize, &[f32]),
    },
}

/// Final norm, projection and some models' operations on logits.
pub struct Head<B: Backend> {
    /// The final norm.
    pub norm: NormLayer<B>,
    /// `[n_vocab, n_embd]` with a bias in some models; `None`: the token embedding is used.
    pub output: Option<super::linear::Linear<B>>,
    /// Factor on the logits.
    pub scale: Option<f32>,
    /// Logits pass through `softcap · tanh(logit / softcap)`.
    pub softcap: Option<f32>,
}

impl<B: Backend> Head<B> {
    /// Writes `out` for the rows of `ws.x` that the batch names as outputs; no other row is computed.
    pub fn forward(
        &self,
        token_embd: &B::Weight,
        backend: &mut B,
        ws: &mut Workspace<B>,
        batch: &Batch<'_>,
        mut out: Output<'_>,
    ) -> Result<()> {
        let outputs = batch.outputs;
        if let Output::Hidden(out) = out {
            let (n_tokens, n_embd) = (ws.shape.n_tokens, ws.shape.n_embd);
            for (rows, out) in outputs.chunks(n_tokens).zip(out.chunks_mut(n_tokens * n_embd)) {
                self.norm.forward(backend, &ws.x, Some(rows), rows.len(), &mut ws.norm);
                backend.read(&ws.norm, 0, out);
            }
            return Ok(());
        }
        let (n_out, n_vocab) = (ws.n_out, ws.shape.n_vocab);
        for (chunk, rows) in outputs.chunks(n_out).enumerate() {
            batch.watch.check()?;
            self.logits(token_embd, backend, ws, rows);
            match &mut out {
                Output::Logits(out) => {
                    let at = chunk * n_out * n_vocab;
                    backend.read(&ws.logits, 0, &mut out[at..at + rows.len() * n_vocab]);
                }
                Output::Best(best) => {
                    backend.arg_max(&ws.logits, n_vocab, &mut best[chunk * n_out..][..rows.len()]);
                }
                Output::Each { row, look } => {
                    for (i, &of) in rows.iter().enumerate() {
                        backend.read(&ws.logits, i * n_vocab, row);
                        look(of as usize, row);
                    }
                }
                Output::Hidden(_) => {}
            }
        }
        Ok(())
    }

    /// Computes one chunk: `ws.logits` of `rows` of `ws.x`.
    fn logits(&self, token_embd: &B::Weight, backend: &mut B, ws: &mut Workspace<B>, rows: &[u32]) {
        let (n, n_vocab) = (rows.len(), ws.shape.n_vocab);
        self.norm.forward(backend, &ws.x, Some(rows), n, &mut ws.norm);
        match &self.output {
            Some(output) => output.forward(backend, &ws.norm, n, &mut ws.logits),
            None => backend.matmul(&ws.norm, n, Product { weight: token_embd, out: &mut ws.logits }),
        }
        if let Some(factor) = self.scale {
            backend.scale(&mut ws.logits, factor, n * n_vocab);
        }
        if let Some(cap) = self.softcap {
            backend.softcap(&mut ws.logits, cap, n * n_vocab);
        }
    }
}
