//! Self-attention with grouped heads, rotary positions and the paged KV cache.
#![forbid(unsafe_code)]

use super::Batch;
use super::linear::Linear;
use super::workspace::Workspace;
use crate::backend::{Attention, Backend, KvAppend, Rope};
use crate::kernels::RopeStyle;

/// Rotary position parameters of a model.
#[derive(Debug, Clone)]
pub struct RopeParams {
    /// Angle per position of each rotated pair.
    pub inv_freq: Vec<f32>,
    /// Which elements form a pair.
    pub style: RopeStyle,
}

/// Head counts and variations of an attention block; the same for all layers of a model.
#[derive(Debug, Clone)]
pub struct AttentionParams {
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Length of a head.
    pub head_dim: usize,
    /// `None` for models with learned positions.
    pub rope: Option<RopeParams>,
}

/// One attention block: projections and output.
pub struct SelfAttention<B: Backend> {
    /// `[n_head * head_dim, n_embd]`.
    pub q: Linear<B>,
    /// `[n_head_kv * head_dim, n_embd]`.
    pub k: Linear<B>,
    /// `[n_head_kv * head_dim, n_embd]`.
    pub v: Linear<B>,
    /// `[n_embd, n_head * head_dim]`.
    pub output: Linear<B>,
}

impl<B: Backend> SelfAttention<B> {
    /// `ws.proj = attention(ws.norm)`, appending the batch's keys and values to `layer` of `kv` on the way.
    pub fn forward(
        &self,
        params: &AttentionParams,
        layer: usize,
        backend: &mut B,
        ws: &mut Workspace<B>,
        kv: &mut B::Kv,
        batch: &Batch<'_>,
    ) {
        let n = batch.tokens.len();
        let layers = [(&self.q, &mut ws.q), (&self.k, &mut ws.k), (&self.v, &mut ws.v)];
        Linear::forward_many(layers, backend, &ws.norm, n);
        if let Some(rope) = &params.rope {
            for (x, n_head) in [(&mut ws.q, params.n_head), (&mut ws.k, params.n_head_kv)] {
                backend.rope(Rope {
                    x,
                    positions: batch.positions,
                    n_head,
                    head_dim: params.head_dim,
                    inv_freq: &rope.inv_freq,
                    style: rope.style,
                });
            }
        }
        backend.kv_append(KvAppend { kv, layer, k: &ws.k, v: &ws.v, slots: batch.slots });
        let attention = Attention {
            kv,
            layer,
            q: &ws.q,
            n_head: params.n_head,
            runs: batch.runs,
            pages: batch.pages,
            scale: 1.0 / (params.head_dim as f32).sqrt(),
            window: None,
            softcap: None,
        };
        backend.attention(&attention, &mut ws.attn);
        self.output.forward(backend, &ws.attn, n, &mut ws.proj);
    }
}
