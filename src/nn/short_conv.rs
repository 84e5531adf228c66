//! The short convolution of LFM2 (Liquid AI 2025): a causal convolution of a few tokens between two gates that depend on the
//! token.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::workspace::Workspace;
use super::{Batch, Source};
use crate::backend::{Backend, CausalConv};

/// `out(c · conv(b · x))`, where `b`, `c` and `x` are projections of the input.
pub struct ShortConv<B: Backend> {
    /// For the gate before the convolution, `[n_embd, n_embd]`.
    pub b: Linear<B>,
    /// For the gate after it, `[n_embd, n_embd]`.
    pub c: Linear<B>,
    /// For the input of the convolution, `[n_embd, n_embd]`.
    pub x: Linear<B>,
    /// `[n_embd, len]`.
    pub conv: B::Weight,
    /// `[n_embd]`.
    pub conv_bias: Option<B::Weight>,
    /// `[n_embd, n_embd]`.
    pub output: Linear<B>,
    /// Channels.
    pub n_embd: usize,
    /// Tokens that the convolution sees.
    pub len: usize,
}

impl<B: Backend> ShortConv<B> {
    /// `ws.proj = short_conv(input)`. The recurrent layers before this one are `n_before`.
    pub fn forward(
        &self,
        n_before: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        states: &mut B::States,
        batch: &Batch<'_>,
    ) {
        let n = batch.tokens.len();
        let input = input.of(&ws.norm, &ws.x);
        let [b, c, x] = &mut ws.mix;
        Linear::forward_many([(&self.b, &mut *b), (&self.c, &mut *c), (&self.x, &mut *x)], backend, input, n);
        backend.mul(x, b, n * self.n_embd);
        backend.causal_conv(CausalConv {
            states,
            state: 2 * n_before,
            x,
            n_channels: self.n_embd,
            len: self.len,
            weight: &self.conv,
            bias: self.conv_bias.as_ref(),
            out: &mut *b,
        });
        backend.mul(b, c, n * self.n_embd);
        self.output.forward(backend, b, n, &mut ws.proj);
    }
}
