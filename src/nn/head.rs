//! The output head: final norm and vocabulary projection of the rows that asked.
#![forbid(unsafe_code)]

use super::norm::NormLayer;
use super::workspace::Workspace;
use crate::backend::{Backend, Product};

/// What a forward pass writes for each row of [`Batch::outputs`](super::Batch::outputs).
pub enum Output<'a> {
    /// `[outputs, n_vocab]`.
    Logits(&'a mut [f32]),
    /// The last hidden state after the final norm, `[outputs, n_embd]`.
    Hidden(&'a mut [f32]),
}

/// Final norm, projection and what some models do to logits.
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
    /// Writes `out` for rows `outputs` of `ws.x`; no other row is computed.
    pub fn forward(
        &self,
        token_embd: &B::Weight,
        backend: &mut B,
        ws: &mut Workspace<B>,
        outputs: &[u32],
        out: Output<'_>,
    ) {
        let (n_embd, n_vocab) = (ws.shape.n_embd, ws.shape.n_vocab);
        let (out, width) = match out {
            Output::Logits(out) => (out, n_vocab),
            Output::Hidden(out) => {
                for (rows, out) in
                    outputs.chunks(ws.shape.n_tokens).zip(out.chunks_mut(ws.shape.n_tokens * n_embd))
                {
                    self.norm.forward(backend, &ws.x, Some(rows), rows.len(), &mut ws.norm);
                    backend.read(&ws.norm, 0, out);
                }
                return;
            }
        };
        for (rows, out) in outputs.chunks(ws.n_out).zip(out.chunks_mut(ws.n_out * width)) {
            let n = rows.len();
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
            backend.read(&ws.logits, 0, out);
        }
    }
}
