//! The mixer of Mamba (Gu and Dao 2023, arXiv:2312.00752): a linear recurrence in each channel, after a short convolution, with
//! an output gate. What it learns, reads and forgets depends on the convolved values.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Source};
use crate::backend::{Activation, Backend, CausalConv, Columns, Pace, Pointwise, Scan, ScanRule};

/// The sizes of a mixer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectiveShape {
    /// Channels.
    pub n_channels: usize,
    /// Length of a channel's state.
    pub state_len: usize,
    /// Length of the vector that time steps are computed from.
    pub rank: usize,
    /// Tokens that the convolution sees.
    pub conv_len: usize,
}

impl SelectiveShape {
    /// Values of a token, its key and its query.
    pub fn row_len(&self) -> usize {
        self.n_channels + 2 * self.state_len
    }

    /// Width of the buffers that a mixer works in, and of those of time steps.
    pub fn width(&self) -> (usize, usize) {
        (self.row_len().max(self.rank), self.n_channels.max(self.state_len).max(self.rank))
    }
}

/// Norms after the projection of the convolved values.
pub struct SelectiveNorms<B: Backend> {
    /// Norm of the vector that time steps are computed from, `[rank]`.
    pub step: NormLayer<B>,
    /// Norm of the key, `[state_len]`.
    pub key: NormLayer<B>,
    /// Norm of the query, `[state_len]`.
    pub query: NormLayer<B>,
}

/// A mixer bound to its weights.
pub struct Mamba<B: Backend> {
    /// Values, `[n_channels, n_embd]`.
    pub x: Linear<B>,
    /// Output gates, `[n_channels, n_embd]`.
    pub z: Linear<B>,
    /// `[n_channels, conv_len]`.
    pub conv: B::Weight,
    /// `[n_channels]`.
    pub conv_bias: Option<B::Weight>,
    /// The vector that time steps are computed from, `[rank, n_channels]`.
    pub low: Linear<B>,
    /// Keys, `[state_len, n_channels]`.
    pub key: Linear<B>,
    /// Queries, `[state_len, n_channels]`.
    pub query: Linear<B>,
    /// Norms of these three, in some models.
    pub norms: Option<SelectiveNorms<B>>,
    /// Time steps, `[n_channels, rank]`.
    pub step: Linear<B>,
    /// Added to the time step, `[n_channels]`.
    pub step_bias: B::Weight,
    /// Logarithm of the decay per time, below 0, `[n_channels, state_len]`.
    pub a: B::Weight,
    /// The share of its value that is added to a channel's output, `[n_channels]`.
    pub skip: B::Weight,
    /// `[n_embd, n_channels]`.
    pub output: Linear<B>,
    /// Sizes.
    pub shape: SelectiveShape,
}

impl<B: Backend> Mamba<B> {
    /// `ws.proj = mamba(input)`. The recurrent layers before this one are `n_before`.
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
        let (n_channels, row_len) = (s.n_channels, s.row_len());
        let x = input.of(&ws.norm, &ws.x);
        let ([a, b, row], [low, step]) = (&mut ws.mix, &mut ws.mix_heads);
        self.x.forward(backend, x, n, a);
        backend.causal_conv(CausalConv {
            states,
            state: 2 * n_before,
            x: a,
            n_channels,
            len: s.conv_len,
            weight: &self.conv,
            bias: self.conv_bias.as_ref(),
            out: &mut *b,
        });
        backend.activate(b, Pointwise::Silu, n * n_channels);
        let mut put = |backend: &mut B, x: &B::Buffer, len: usize, first: usize| {
            let (n_cols, first) = ((len, row_len), (0, first));
            backend.copy_columns(Columns { x, out: &mut *row, n, n_cols, first, len });
        };
        put(backend, b, n_channels, 0);
        Linear::forward_many([(&self.low, &mut *low), (&self.key, &mut *a)], backend, b, n);
        if let Some(norms) = &self.norms {
            norms.key.forward(backend, a, None, n, step);
            put(backend, step, s.state_len, n_channels);
        } else {
            put(backend, a, s.state_len, n_channels);
        }
        self.query.forward(backend, b, n, a);
        if let Some(norms) = &self.norms {
            norms.query.forward(backend, a, None, n, step);
            put(backend, step, s.state_len, n_channels + s.state_len);
            norms.step.forward(backend, low, None, n, a);
            self.step.forward(backend, a, n, step);
        } else {
            put(backend, a, s.state_len, n_channels + s.state_len);
            self.step.forward(backend, low, n, step);
        }
        let pace = Pace { step, bias: &self.step_bias, least: 0.0, a: &self.a };
        backend.scan(Scan {
            states,
            state: 2 * n_before + 1,
            qkv: row,
            first: [n_channels + s.state_len, n_channels, 0],
            rule: ScanRule::Selective { pace, skip: &self.skip },
            n_head: n_channels,
            n_head_k: 1,
            k_dim: s.state_len,
            v_dim: 1,
            grouped: true,
            out: &mut *b,
        });
        self.z.forward(backend, x, n, a);
        backend.act_mul(Activation::Silu, a, b, n * n_channels);
        self.output.forward(backend, a, n, &mut ws.proj);
    }
}
