//! The output head: final norm and vocabulary projection of the rows that asked for logits.
#![forbid(unsafe_code)]

use super::norm::NormLayer;
use super::workspace::Workspace;
use crate::backend::{Backend, Product};

/// Writes the logits of rows `outputs` of `ws.x` to `logits`, `[outputs.len(), n_vocab]`; no other row is computed.
pub fn logits<B: Backend>(
    norm: &impl NormLayer<B>,
    output: &B::Weight,
    backend: &mut B,
    ws: &mut Workspace<B>,
    outputs: &[u32],
    logits: &mut [f32],
) {
    let n_vocab = ws.shape.n_vocab;
    for (rows, logits) in outputs.chunks(ws.n_out).zip(logits.chunks_mut(ws.n_out * n_vocab)) {
        norm.forward(backend, &ws.x, Some(rows), rows.len(), &mut ws.norm);
        backend.matmul(&ws.norm, rows.len(), Product { weight: output, out: &mut ws.logits });
        backend.read(&ws.logits, 0, logits);
    }
}
