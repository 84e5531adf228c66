//! Normalisation layers.
#![forbid(unsafe_code)]

use crate::backend::{Backend, Norm};

/// Which mean a norm divides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// Root mean square (Zhang & Sennrich 2019).
    Rms,
    /// Mean and variance (Ba et al. 2016).
    Layer,
}

/// A norm with a gain and, for some layer norms, a shift.
pub struct NormLayer<B: Backend> {
    /// Its kind.
    pub kind: NormKind,
    /// `[n_embd]`, or `[n_groups, n_embd]` where row `i` has the gain of group `i % n_groups` (the heads of a query).
    pub weight: B::Weight,
    /// Shaped like `weight`; layer norm only.
    pub bias: Option<B::Weight>,
    /// Added to the mean square or variance before its root.
    pub eps: f32,
}

impl<B: Backend> NormLayer<B> {
    /// Normalises rows `rows` of `x` (or `0..n`) into the first rows of `out`.
    pub fn forward(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        rows: Option<&[u32]>,
        n: usize,
        out: &mut B::Buffer,
    ) {
        let (weight, bias, eps) = (&self.weight, self.bias.as_ref(), self.eps);
        let args = Norm { x, rows, n, weight, bias, eps, out };
        match self.kind {
            NormKind::Rms => backend.rms_norm(args),
            NormKind::Layer => backend.layer_norm(args),
        }
    }
}
