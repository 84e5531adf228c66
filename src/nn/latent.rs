//! Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434), absorbed: all heads read one key of a token, a rotated part
//! followed by its latent vector, and one value, the latent vector itself. The matrices that would make keys and values of each
//! head are multiplied with the queries and with the output of attention instead.
#![forbid(unsafe_code)]

use super::attention::AttentionParams;
use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Cache, KvPlace, Source};
use crate::backend::{Attention, Backend, Columns, KvAppend, KvRows, MoeMatmul, Rope};

/// The sizes of latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentShape {
    /// Heads.
    pub n_head: usize,
    /// Length of the part of a head's query that is not rotated.
    pub nope_dim: usize,
    /// Length of the rotated part.
    pub rope_dim: usize,
    /// Length of the latent vector.
    pub latent_dim: usize,
    /// Length of a head's value.
    pub v_dim: usize,
    /// Length of the latent vector of queries; 0: queries are made from the input.
    pub q_latent_dim: usize,
}

impl LatentShape {
    /// The largest width of its buffers.
    pub fn width(&self) -> usize {
        let head = (self.nope_dim + self.rope_dim).max(self.latent_dim).max(self.v_dim);
        (self.n_head * head).max(self.latent_dim + self.rope_dim).max(self.q_latent_dim)
    }
}

/// The projection to queries.
pub enum Queries<B: Backend> {
    /// One projection, `[n_head * (nope_dim + rope_dim), n_embd]`.
    Direct(Linear<B>),
    /// Two with a norm between them.
    Latent {
        /// `[q_latent_dim, n_embd]`.
        down: Linear<B>,
        /// `[q_latent_dim]`.
        norm: NormLayer<B>,
        /// `[n_head * (nope_dim + rope_dim), q_latent_dim]`.
        up: Linear<B>,
    },
}

/// Latent attention bound to its weights.
pub struct Latent<B: Backend> {
    /// For each head the part that is not rotated, then the rotated part.
    pub queries: Queries<B>,
    /// Latent vector, then the rotated part of the key, `[latent_dim + rope_dim, n_embd]`.
    pub kv: Linear<B>,
    /// Norm of the latent vector.
    pub norm: NormLayer<B>,
    /// The matrices of the heads' keys, transposed: for each head `[latent_dim, nope_dim]`.
    pub k: B::Weight,
    /// The matrices of the heads' values: for each head `[v_dim, latent_dim]`.
    pub v: B::Weight,
    /// `[n_embd, n_head * v_dim]`.
    pub output: Linear<B>,
    /// The number of each head, and 1: the matrix that a row is multiplied with.
    pub heads: Vec<f32>,
    /// Sizes.
    pub shape: LatentShape,
}

impl<B: Backend> Latent<B> {
    /// `ws.proj = latent(input)`. Appends the batch's keys and values to the cache at `place`.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of a forward pass, and all are needed")]
    pub fn forward(
        &self,
        params: &AttentionParams,
        place: KvPlace,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
    ) {
        let (kv, layer) = (&mut cache.kv[place.group], place.layer);
        let (n, s) = (batch.tokens.len(), self.shape);
        let x = input.of(&ws.norm, &ws.x);
        let [a, b, c] = &mut ws.latent;
        let key_dim = s.rope_dim + s.latent_dim;
        let copy = |backend: &mut B, x: &B::Buffer, out: &mut B::Buffer, n, n_cols, first, len| {
            backend.copy_columns(Columns { x, out, n, n_cols, first, len });
        };
        self.kv.forward(backend, x, n, c);
        copy(backend, c, b, n, (key_dim, s.latent_dim), (0, 0), s.latent_dim);
        self.norm.forward(backend, b, None, n, &mut ws.v);
        copy(backend, c, &mut ws.k, n, (key_dim, key_dim), (s.latent_dim, 0), s.rope_dim);
        copy(backend, &ws.v, &mut ws.k, n, (s.latent_dim, key_dim), (0, s.rope_dim), s.latent_dim);
        match &self.queries {
            Queries::Direct(queries) => queries.forward(backend, x, n, a),
            Queries::Latent { down, norm, up } => {
                down.forward(backend, x, n, b);
                norm.forward(backend, b, None, n, c);
                up.forward(backend, c, n, a);
            }
        }
        for token in 0..n {
            backend.write(&mut ws.heads, token * self.heads.len(), &self.heads);
        }
        let (rows, q_dim) = (n * s.n_head, s.nope_dim + s.rope_dim);
        copy(backend, a, b, rows, (q_dim, s.nope_dim), (0, 0), s.nope_dim);
        self.by_heads(backend, b, rows, &self.k, &ws.heads, c);
        copy(backend, a, &mut ws.q, rows, (q_dim, key_dim), (s.nope_dim, 0), s.rope_dim);
        copy(backend, c, &mut ws.q, rows, (s.latent_dim, key_dim), (0, s.rope_dim), s.latent_dim);
        if let Some(rope) = &params.rope {
            backend.rope(Rope {
                q: &mut ws.q,
                k: &mut ws.k,
                n_head: s.n_head,
                n_head_kv: 1,
                head_dim: key_dim,
                inv_freq: rope.inv_freq(batch.n_ctx),
                magnitude: rope.magnitude,
                style: rope.style,
            });
        }
        let new = KvRows::New { group: place.group, k: &ws.k, v: &ws.v };
        backend.kv_append(KvAppend { kv, layer, rows: new });
        let attention = Attention {
            kv,
            group: place.group,
            layer,
            q: &ws.q,
            n_head: s.n_head,
            scale: params.scale,
            sees: params.sees,
            causal: params.causal,
            window: params.window,
            chunked: params.chunked,
            growth: params.growth,
            softcap: params.softcap,
            bias: None,
            sinks: None,
        };
        backend.attention(&attention, &mut ws.attn);
        self.by_heads(backend, &ws.attn, rows, &self.v, &ws.heads, b);
        self.output.forward(backend, b, n, &mut ws.proj);
    }

    /// Multiplies each row of a head with the head's matrix of `weight`.
    fn by_heads(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
        weight: &B::Weight,
        route: &B::Buffer,
        out: &mut B::Buffer,
    ) {
        let (n_expert, n_used, bias, reduce) = (self.shape.n_head, 1, None, false);
        backend.moe_matmul(MoeMatmul { x, n, weight, bias, n_expert, n_used, route, reduce, out });
    }
}
