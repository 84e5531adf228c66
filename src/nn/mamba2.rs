//! The mixer of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): a linear recurrence in each head, after a short convolution of its
//! values, keys and queries, with an output gate.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Source};
use crate::backend::{Activation, Backend, CausalConv, Pace, Pointwise, Scan, ScanRule};

/// The sizes of a mixer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MambaShape {
    /// Heads.
    pub n_head: usize,
    /// Length of a head's value.
    pub head_dim: usize,
    /// Groups of neighbouring heads that share a key and a query; `n_head` is a multiple of it.
    pub n_group: usize,
    /// Length of these vectors.
    pub state_len: usize,
    /// Tokens that the convolution sees.
    pub conv_len: usize,
}

impl MambaShape {
    /// Values of a token.
    pub fn n_values(&self) -> usize {
        self.n_head * self.head_dim
    }

    /// Channels of the convolution: values, and the keys and queries of the groups.
    pub fn n_channels(&self) -> usize {
        self.n_values() + 2 * self.n_group * self.state_len
    }
}

/// A mixer bound to its weights.
pub struct Mamba2<B: Backend> {
    /// Output gates, `[n_values, n_embd]`.
    pub z: Linear<B>,
    /// Values, then the keys of groups, then their queries, `[n_channels, n_embd]`.
    pub xbc: Linear<B>,
    /// Time steps, `[n_head, n_embd]`.
    pub step: Linear<B>,
    /// `[n_channels, conv_len]`.
    pub conv: B::Weight,
    /// `[n_channels]`.
    pub conv_bias: Option<B::Weight>,
    /// Added to the time step, `[n_head]`.
    pub step_bias: B::Weight,
    /// The shortest time step.
    pub least_step: f32,
    /// Logarithm of the decay per time, below 0, `[n_head]`.
    pub a: B::Weight,
    /// The share of its value that is added to a head's output, `[n_head]`.
    pub skip: B::Weight,
    /// Norm of the gated output, over the heads of a group, `[n_norm, n_values / n_norm]`.
    pub norm: Option<NormLayer<B>>,
    /// Groups of the norm.
    pub n_norm: usize,
    /// `[n_embd, n_values]`.
    pub output: Linear<B>,
    /// Sizes.
    pub shape: MambaShape,
}

impl<B: Backend> Mamba2<B> {
    /// `ws.proj = mamba2(input)`. The recurrent layers before this one are `n_before`.
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
        let x = input.of(&ws.norm, &ws.x);
        let ([xbc, mixed, z], [step, _]) = (&mut ws.mix, &mut ws.mix_heads);
        let projections = [(&self.z, &mut *z), (&self.xbc, &mut *xbc), (&self.step, &mut *step)];
        Linear::forward_many(projections, backend, x, n);
        let (n_values, n_channels) = (s.n_values(), s.n_channels());
        backend.causal_conv(CausalConv {
            states,
            state: 2 * n_before,
            x: xbc,
            n_channels,
            len: s.conv_len,
            weight: &self.conv,
            bias: self.conv_bias.as_ref(),
            out: &mut *mixed,
        });
        backend.activate(mixed, Pointwise::Silu, n * n_channels);
        let pace = Pace { step, bias: &self.step_bias, least: self.least_step, a: &self.a };
        backend.scan(Scan {
            states,
            state: 2 * n_before + 1,
            qkv: &mut *mixed,
            first: [n_values + s.n_group * s.state_len, n_values, 0],
            rule: ScanRule::TimeStep { pace, skip: &self.skip },
            n_head: s.n_head,
            n_head_k: s.n_group,
            k_dim: s.state_len,
            v_dim: s.head_dim,
            grouped: true,
            out: &mut *xbc,
        });
        backend.act_mul(Activation::Silu, z, xbc, n * n_values);
        match &self.norm {
            Some(norm) => {
                norm.forward(backend, z, None, n * self.n_norm, mixed);
                self.output.forward(backend, mixed, n, &mut ws.proj);
            }
            None => self.output.forward(backend, z, n, &mut ws.proj),
        }
    }
}
