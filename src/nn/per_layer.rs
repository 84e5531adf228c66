//! Per-layer embeddings of Gemma 3n and 4 (Google 2025): each token has a vector for each layer, from a table of its own and from
//! its embedding. It gates what the layer adds after its feed-forward block.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use crate::backend::{Activation, Backend, Columns, Embed};
use crate::error::Result;

/// The weights for the vectors of all layers.
pub struct PerLayerEmbd<B: Backend> {
    /// `[n_rows, n_layer * dim]`.
    pub table: B::Weight,
    /// Rows of it; tokens from there on get the first row.
    pub n_rows: usize,
    /// Factor on its rows.
    pub table_scale: f32,
    /// From the embedding, `[n_layer * dim, n_embd]`.
    pub projection: Linear<B>,
    /// Norm of each layer's part of that, `[dim]`.
    pub norm: NormLayer<B>,
    /// Factor on the sum of both.
    pub scale: f32,
    /// Layers.
    pub n_layer: usize,
    /// Length of a layer's vector.
    pub dim: usize,
}

impl<B: Backend> PerLayerEmbd<B> {
    /// Fills `ws.per_layer` for `tokens`, whose embeddings are in `ws.x`. Errors: as [`Backend::embed`].
    pub fn forward(&self, backend: &mut B, ws: &mut Workspace<B>, tokens: &[u32]) -> Result<()> {
        let (n, [vectors, scratch]) = (tokens.len(), &mut ws.per_layer);
        let row = |&token: &u32| if (token as usize) < self.n_rows { token } else { 0 };
        ws.rows.clear();
        ws.rows.extend(tokens.iter().map(row));
        let len = n * self.n_layer * self.dim;
        self.projection.forward(backend, &ws.x, n, vectors);
        self.norm.forward(backend, vectors, None, n * self.n_layer, scratch);
        backend.embed(Embed { table: &self.table, rows: &ws.rows, out: &mut *vectors })?;
        backend.scale(vectors, self.table_scale, len);
        backend.add(vectors, scratch, len);
        backend.scale(vectors, self.scale, len);
        Ok(())
    }
}

/// A layer's use of its vector.
pub struct PerLayerInput<B: Backend> {
    /// `[dim, n_embd]`.
    pub gate: Linear<B>,
    /// `[n_embd, dim]`.
    pub projection: Linear<B>,
    /// Norm of what is added to the residual stream.
    pub norm: NormLayer<B>,
    /// Where the vector begins among the vectors of a token, and how many elements these have together.
    pub first: (usize, usize),
    /// Length of the vector.
    pub dim: usize,
}

impl<B: Backend> PerLayerInput<B> {
    /// Sets `ws.norm` to its output for the first `n` rows of `ws.x`.
    pub fn forward(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let (first, n_all) = self.first;
        self.gate.forward(backend, &ws.x, n, &mut ws.gate);
        let (n_cols, first) = ((n_all, self.dim), (first, 0));
        let x = &ws.per_layer[0];
        backend.copy_columns(Columns { x, out: &mut ws.up, n, n_cols, first, len: self.dim });
        backend.act_mul(Activation::Gelu, &mut ws.gate, &ws.up, n * self.dim);
        self.projection.forward(backend, &ws.gate, n, &mut ws.proj);
        self.norm.forward(backend, &ws.proj, None, n, &mut ws.norm);
    }
}
