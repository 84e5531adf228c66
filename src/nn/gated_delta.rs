//! The gated delta net of Qwen3-Next (Yang et al. 2024, arXiv:2412.06464): a linear recurrence in each head, after a short
//! convolution of queries, keys and values, with an output gate.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Source};
use crate::backend::{Activation, Backend, CausalConv, Columns, Pace, Pointwise, Scan, ScanRule};

/// The sizes of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Heads of values, and of states.
    pub n_head: usize,
    /// Heads of queries and keys, of which `n_head` is a multiple.
    pub n_head_k: usize,
    /// Length of a query and of a key.
    pub k_dim: usize,
    /// Length of a value.
    pub v_dim: usize,
    /// Tokens that the convolution sees.
    pub conv_len: usize,
    /// Whether heads that share a query and a key are neighbours.
    pub grouped: bool,
}

impl DeltaShape {
    /// Queries, keys and values of a token.
    pub fn n_channels(&self) -> usize {
        2 * self.n_head_k * self.k_dim + self.n_values()
    }

    /// Values of a token.
    pub fn n_values(&self) -> usize {
        self.n_head * self.v_dim
    }

    /// Width of the buffers it works in, beside the gates of the heads.
    pub fn width(&self) -> usize {
        self.n_channels() + self.n_values()
    }
}

/// Two projections of a token.
pub enum TwoOf<B: Backend> {
    /// Each by itself.
    Apart(Linear<B>, Linear<B>),
    /// One matrix, ordered by query head: for each its part of the first, then that of the second.
    ByHead(Linear<B>),
}

/// A gated delta net bound to its weights.
pub struct GatedDelta<B: Backend> {
    /// All queries, all keys and all values; and the output gates, `[n_head * v_dim, n_embd]`.
    pub qkv_z: TwoOf<B>,
    /// The rates and the time steps, `[n_head, n_embd]` each.
    pub rate_step: TwoOf<B>,
    /// `[n_channels, conv_len]`.
    pub conv: B::Weight,
    /// Added to the time step, `[n_head]`.
    pub step_bias: B::Weight,
    /// Logarithm of the decay per time, below 0, `[n_head]`.
    pub a: B::Weight,
    /// Norm of a head's output.
    pub norm: NormLayer<B>,
    /// `[n_embd, n_head * v_dim]`.
    pub output: Linear<B>,
    /// Sizes.
    pub shape: DeltaShape,
}

impl<B: Backend> GatedDelta<B> {
    /// `ws.proj = gated_delta(input)`. The recurrent layers before this one are `n_before`.
    pub fn forward(
        &self,
        n_before: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        states: &mut B::States,
        batch: &Batch<'_>,
    ) {
        let (n, s) = (batch.tokens.len(), self.shape);
        self.project(input, backend, ws, n);
        let [qkv, mixed, z] = &mut ws.mix;
        let [rate, step] = &ws.mix_heads;
        let (n_keys, n_channels) = (s.n_head_k * s.k_dim, s.n_channels());
        backend.causal_conv(CausalConv {
            states,
            state: 2 * n_before,
            x: qkv,
            n_channels,
            len: s.conv_len,
            weight: &self.conv,
            bias: None,
            out: &mut *mixed,
        });
        backend.activate(mixed, Pointwise::Silu, n * n_channels);
        let pace = Pace { step, bias: &self.step_bias, least: 0.0, a: &self.a };
        backend.scan(Scan {
            states,
            state: 2 * n_before + 1,
            qkv: &mut *mixed,
            first: [0, n_keys, 2 * n_keys],
            rule: ScanRule::Delta { pace, rate },
            n_head: s.n_head,
            n_head_k: s.n_head_k,
            k_dim: s.k_dim,
            v_dim: s.v_dim,
            grouped: s.grouped,
            out: &mut *qkv,
        });
        self.norm.forward(backend, qkv, None, n * s.n_head, mixed);
        backend.act_mul(Activation::Silu, z, mixed, n * s.n_values());
        self.output.forward(backend, z, n, &mut ws.proj);
    }

    /// Queries, keys and values to the first buffer, output gates to the third, rates and time steps to theirs.
    fn project(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let x = input.of(&ws.norm, &ws.x);
        let ([qkv, joint, z], [rate, step]) = (&mut ws.mix, &mut ws.mix_heads);
        let DeltaShape { n_head, n_head_k, k_dim, v_dim, .. } = self.shape;
        let shared = n_head / n_head_k;
        match &self.rate_step {
            TwoOf::Apart(first, second) => {
                Linear::forward_many([(first, rate), (second, step)], backend, x, n);
            }
            TwoOf::ByHead(both) => {
                both.forward(backend, x, n, joint);
                for (first, out) in [(0, rate), (shared, step)] {
                    let (n_cols, first) = ((2 * shared, shared), (first, 0));
                    backend.copy_columns(Columns {
                        x: joint,
                        out,
                        n: n * n_head_k,
                        n_cols,
                        first,
                        len: shared,
                    });
                }
            }
        }
        let by_head = match &self.qkv_z {
            TwoOf::Apart(first, second) => {
                return Linear::forward_many([(first, qkv), (second, z)], backend, x, n);
            }
            TwoOf::ByHead(by_head) => by_head,
        };
        by_head.forward(backend, x, n, joint);
        let (n_keys, n_values) = (n_head_k * k_dim, shared * v_dim);
        let (from, to) = (self.shape.width(), self.shape.n_channels());
        for head in 0..n_head_k {
            let at = head * (2 * k_dim + 2 * n_values);
            let parts = [
                (at, head * k_dim, k_dim),
                (at + k_dim, n_keys + head * k_dim, k_dim),
                (at + 2 * k_dim, 2 * n_keys + head * n_values, n_values),
            ];
            for (first, second, len) in parts {
                let (n_cols, first) = ((from, to), (first, second));
                backend.copy_columns(Columns { x: joint, out: qkv, n, n_cols, first, len });
            }
            let (n_cols, first) = ((from, n_head * v_dim), (at + 2 * k_dim + n_values, head * n_values));
            backend.copy_columns(Columns { x: joint, out: z, n, n_cols, first, len: n_values });
        }
    }
}
