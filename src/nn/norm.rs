//! Normalisation layers.
#![forbid(unsafe_code)]

use crate::backend::{Backend, Norm};

/// Root-mean-square norm with a gain (Zhang & Sennrich 2019).
pub struct RmsNorm<B: Backend> {
    /// `[n_embd]`.
    pub weight: B::Weight,
    /// Added to the mean square before its root.
    pub eps: f32,
}

/// Layer norm with gain and shift (Ba et al. 2016).
pub struct LayerNorm<B: Backend> {
    /// `[n_embd]`.
    pub weight: B::Weight,
    /// `[n_embd]`.
    pub bias: B::Weight,
    /// Added to the variance before its root.
    pub eps: f32,
}

/// A norm that may be restricted to some rows, which is all the output head needs to know of it.
pub trait NormLayer<B: Backend> {
    /// Normalises rows `rows` of `x` (or `0..n`) into the first rows of `out`.
    fn forward(&self, backend: &mut B, x: &B::Buffer, rows: Option<&[u32]>, n: usize, out: &mut B::Buffer);
}

impl<B: Backend> NormLayer<B> for RmsNorm<B> {
    fn forward(&self, backend: &mut B, x: &B::Buffer, rows: Option<&[u32]>, n: usize, out: &mut B::Buffer) {
        backend.rms_norm(Norm { x, rows, n, weight: &self.weight, bias: None, eps: self.eps, out });
    }
}

impl<B: Backend> NormLayer<B> for LayerNorm<B> {
    fn forward(&self, backend: &mut B, x: &B::Buffer, rows: Option<&[u32]>, n: usize, out: &mut B::Buffer) {
        backend.layer_norm(Norm {
            x,
            rows,
            n,
            weight: &self.weight,
            bias: Some(&self.bias),
            eps: self.eps,
            out,
        });
    }
}
