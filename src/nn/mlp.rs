//! Feed-forward blocks.
#![forbid(unsafe_code)]

use super::Source;
use super::linear::Linear;
use super::moe::Moe;
use super::workspace::Workspace;
pub use crate::backend::Activation;
use crate::backend::{Backend, GatedMatmul};
use crate::kernels::GeluForm;

/// `down(act(gate(x)) · up(x))` (Shazeer 2020).
pub struct GatedMlp<B: Backend> {
    /// `[n_ff, n_embd]`.
    pub gate: Linear<B>,
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
    /// Width of the hidden layer.
    pub n_ff: usize,
    /// On the gate.
    pub activation: Activation,
}

impl<B: Backend> GatedMlp<B> {
    /// `out = mlp(x)` for the first `n` rows; `gate` and `up` are room for `[n, n_ff]` each.
    pub fn forward(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
        (gate, up): (&mut B::Buffer, &mut B::Buffer),
        out: &mut B::Buffer,
    ) {
        if self.gate.is_plain() && self.up.is_plain() {
            backend.gated_matmul(GatedMatmul {
                x,
                n,
                gate: &self.gate.weight,
                up: &self.up.weight,
                n_rows: self.n_ff,
                activation: self.activation,
                out: &mut *gate,
                room: up,
            });
        } else {
            Linear::forward_many([(&self.gate, &mut *gate), (&self.up, &mut *up)], backend, x, n);
            backend.act_mul(self.activation, gate, up, n * self.n_ff);
        }
        self.down.forward(backend, gate, n, out);
    }
}

/// `down(gelu(up(x)))`.
pub struct GeluMlp<B: Backend> {
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
    /// Width of the hidden layer.
    pub n_ff: usize,
    /// Which GELU.
    pub form: GeluForm,
}

/// A feed-forward block of any kind.
pub enum Mlp<B: Backend> {
    /// With a gate.
    Gated(GatedMlp<B>),
    /// Without.
    Gelu(GeluMlp<B>),
    /// Experts, of which each token takes a few.
    Moe(Box<Moe<B>>),
}

impl<B: Backend> Mlp<B> {
    /// `ws.proj = mlp(input)` for the first `n` rows.
    pub fn forward(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let x = match input {
            Source::Norm => &ws.norm,
            Source::Residual => &ws.x,
        };
        match self {
            Mlp::Gated(mlp) => mlp.forward(backend, x, n, (&mut ws.gate, &mut ws.up), &mut ws.proj),
            Mlp::Gelu(mlp) => {
                mlp.up.forward(backend, x, n, &mut ws.gate);
                backend.gelu(&mut ws.gate, mlp.form, n * mlp.n_ff);
                mlp.down.forward(backend, &ws.gate, n, &mut ws.proj);
            }
            Mlp::Moe(moe) => moe.forward(input, backend, ws, n),
        }
    }
}
