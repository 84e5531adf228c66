//! Feed-forward blocks.
#![forbid(unsafe_code)]

use super::Source;
use super::linear::Linear;
use super::moe::{BesideMoe, Moe};
use super::norm::NormLayer;
use super::workspace::Workspace;
pub use crate::backend::Activation;
use crate::backend::{Backend, GatedMatmul, Pointwise, RowChange};

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
    /// The gate keeps only what lies this many standard deviations above its mean, before the activation (Gemma 3n).
    pub above_mean: Option<f32>,
    /// Applied to the gate.
    pub activation: Activation,
    /// Norm of the hidden layer.
    pub sub_norm: Option<NormLayer<B>>,
}

impl<B: Backend> GatedMlp<B> {
    /// `out = mlp(x)` for the first `n` rows; `gate` and `up` hold `[n, n_ff]` each.
    pub fn forward(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
        (gate, up): (&mut B::Buffer, &mut B::Buffer),
        out: &mut B::Buffer,
    ) {
        if self.gate.is_plain() && self.up.is_plain() && self.above_mean.is_none() {
            backend.gated_matmul(GatedMatmul {
                x,
                n,
                gate: &self.gate.weight,
                up: &self.up.weight,
                n_rows: self.n_ff,
                activation: self.activation,
                out: &mut *gate,
                scratch: up,
            });
        } else {
            Linear::forward_many([(&self.gate, &mut *gate), (&self.up, &mut *up)], backend, x, n);
            if let Some(factor) = self.above_mean {
                backend.change_rows(gate, &RowChange::AboveMean(factor), n, self.n_ff);
            }
            backend.act_mul(self.activation, gate, up, n * self.n_ff);
        }
        match &self.sub_norm {
            Some(norm) => {
                norm.forward(backend, gate, None, n, up);
                self.down.forward(backend, up, n, out);
            }
            None => self.down.forward(backend, gate, n, out),
        }
    }
}

/// `down(activation(up(x)))`.
pub struct PlainMlp<B: Backend> {
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
    /// Width of the hidden layer.
    pub n_ff: usize,
    /// Applied to the hidden layer.
    pub activation: Pointwise,
}

impl<B: Backend> PlainMlp<B> {
    /// `out = mlp(x)` for the first `n` rows; `hidden` holds `[n, n_ff]`.
    pub fn forward(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
        hidden: &mut B::Buffer,
        out: &mut B::Buffer,
    ) {
        self.up.forward(backend, x, n, hidden);
        backend.activate(hidden, self.activation, n * self.n_ff);
        self.down.forward(backend, hidden, n, out);
    }
}

/// A feed-forward block that every token takes.
pub enum Dense<B: Backend> {
    /// With a gate.
    Gated(GatedMlp<B>),
    /// Without.
    Plain(PlainMlp<B>),
}

impl<B: Backend> Dense<B> {
    /// `out = mlp(x)` for the first `n` rows; `gate` and `up` hold `[n, n_ff]` each.
    pub fn forward(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
        (gate, up): (&mut B::Buffer, &mut B::Buffer),
        out: &mut B::Buffer,
    ) {
        match self {
            Dense::Gated(mlp) => mlp.forward(backend, x, n, (gate, up), out),
            Dense::Plain(mlp) => mlp.forward(backend, x, n, gate, out),
        }
    }
}

/// A feed-forward block of any kind.
pub enum Mlp<B: Backend> {
    /// A block that every token takes.
    Dense(Dense<B>),
    /// Experts, of which each token takes a few.
    Moe(Box<Moe<B>>),
    /// A block that every token takes, beside experts.
    Beside(Box<BesideMoe<B>>),
    /// None: the layer mixes tokens and nothing else.
    None,
}

impl<B: Backend> Mlp<B> {
    /// `ws.proj = mlp(input)` for the first `n` rows.
    pub fn forward(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let x = input.of(&ws.norm, &ws.x);
        match self {
            Mlp::Dense(mlp) => mlp.forward(backend, x, n, (&mut ws.gate, &mut ws.up), &mut ws.proj),
            Mlp::Moe(moe) => moe.forward(input, backend, ws, n),
            Mlp::Beside(both) => both.forward(backend, ws, n),
            Mlp::None => {}
        }
    }
}
