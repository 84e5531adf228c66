//! Feed-forward blocks.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::workspace::Workspace;
use crate::backend::Backend;

/// `down(silu(gate(x)) · up(x))` (Shazeer 2020).
pub struct SwiGlu<B: Backend> {
    /// `[n_ff, n_embd]`.
    pub gate: Linear<B>,
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
}

impl<B: Backend> SwiGlu<B> {
    /// `ws.proj = mlp(ws.norm)` for the first `n` rows.
    pub fn forward(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let layers = [(&self.gate, &mut ws.gate), (&self.up, &mut ws.up)];
        Linear::forward_many(layers, backend, &ws.norm, n);
        backend.silu_mul(&mut ws.gate, &ws.up, n * ws.shape.n_ff);
        self.down.forward(backend, &ws.gate, n, &mut ws.proj);
    }
}

/// `down(gelu(up(x)))`.
pub struct GeluMlp<B: Backend> {
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
}

impl<B: Backend> GeluMlp<B> {
    /// `ws.proj = mlp(ws.norm)` for the first `n` rows.
    pub fn forward(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        self.up.forward(backend, &ws.norm, n, &mut ws.gate);
        backend.gelu(&mut ws.gate, n * ws.shape.n_ff);
        self.down.forward(backend, &ws.gate, n, &mut ws.proj);
    }
}
