//! Self-attention with grouped heads, rotary positions and the paged KV cache.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Cache, KvMoves, KvPlace, Shift, Source};
use crate::backend::{
    Activation, Attention, Backend, Columns, DistanceBias, Growth, HeadDims, KvAppend, KvHeads, KvRows, Rope,
    Rotation, Sees,
};
use crate::kernels::RopeStyle;

/// Rotary position parameters.
#[derive(Debug, Clone)]
pub struct RopeParams {
    /// Angle per position of each rotated pair.
    pub inv_freq: Vec<f32>,
    /// Factor on rotated elements; 1 except for YaRN and LongRoPE.
    pub magnitude: f32,
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// Replaces `inv_freq` in contexts of more than this many positions (LongRoPE).
    pub long: Option<(usize, Vec<f32>)>,
}

impl RopeParams {
    /// The frequencies for contexts of `n_ctx` positions.
    pub fn inv_freq(&self, n_ctx: usize) -> &[f32] {
        match &self.long {
            Some((n_ctx_short, inv_freq)) if n_ctx > *n_ctx_short => inv_freq,
            _ => &self.inv_freq,
        }
    }
}

/// Cosines and sines by which keys are re-rotated when their tokens move.
pub struct BackRotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
    style: RopeStyle,
}

impl BackRotation {
    /// The rotation that moves a key `by` positions earlier, in a context of `n_ctx` positions. The key's length stays: it
    /// already includes [`RopeParams::magnitude`].
    fn new(rope: &RopeParams, by: usize, n_ctx: usize) -> BackRotation {
        let angles = rope.inv_freq(n_ctx).iter().map(|&f| libm::sincos(by as f64 * f64::from(f)));
        let (sin, cos) = angles.map(|(sin, cos)| (-sin as f32, cos as f32)).unzip();
        BackRotation { cos, sin, style: rope.style }
    }
}

/// Head counts and variations of attention; layers of one kind share them.
#[derive(Debug, Clone)]
pub struct AttentionParams {
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Length of a head.
    pub head_dim: usize,
    /// Length of a head's value, where it differs.
    pub v_dim: Option<usize>,
    /// Where a value begins in its key, where it is a part of the key.
    pub v_at: Option<usize>,
    /// `None` for learned positions and layers without any.
    pub rope: Option<RopeParams>,
    /// Factor on q·k.
    pub scale: f32,
    /// The part of its sequence that a token sees.
    pub sees: Sees,
    /// Whether a token sees only those before it.
    pub causal: bool,
    /// A token sees only its last `window` positions, its own included. Where attention is not causal, it sees as many from its
    /// own on.
    pub window: Option<usize>,
    /// Whether it sees only the positions of its own stretch of `window` positions instead.
    pub chunked: bool,
    /// How scores grow with a token's position.
    pub growth: Option<Growth>,
    /// Scores pass through `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
}

impl AttentionParams {
    /// Lengths of a head's vectors.
    pub fn dims(&self) -> HeadDims {
        HeadDims { k: self.head_dim, v: self.v_dim.unwrap_or(self.head_dim), v_at: self.v_at }
    }

    /// The keys and values that such a layer stores.
    pub fn kv_heads(&self) -> KvHeads {
        KvHeads { n: self.n_head_kv, dims: self.dims() }
    }

    /// How `shift` re-rotates the keys of these layers; `None` where they have no rotary positions.
    pub fn back_rotation(&self, shift: &Shift<'_>) -> Option<BackRotation> {
        self.rope.as_ref().map(|rope| BackRotation::new(rope, shift.by, shift.n_ctx))
    }
}

/// Moves keys and values of the layer at `place`, the keys rotated by `rotation`.
pub fn shift<B: Backend>(
    backend: &mut B,
    cache: &mut Cache<B>,
    place: KvPlace,
    shift: &Shift<'_>,
    rotation: Option<&BackRotation>,
) {
    let rotation = rotation.map(|t| Rotation { cos: &t.cos, sin: &t.sin, style: t.style });
    let KvMoves { from, to } = &shift.groups[place.group];
    let (kv, layer) = (&mut cache.kv[place.group], place.layer);
    backend.kv_append(KvAppend { kv, layer, rows: KvRows::Moved { from, to, rotation } });
}

/// The source of a layer's keys and values.
pub enum KvSource<B: Backend> {
    /// Its own.
    Own {
        /// `[n_head_kv * head_dim, n_embd]`.
        k: Linear<B>,
        /// `[n_head_kv * head_dim, n_embd]`; `None`: values are the keys before their norm.
        v: Option<Linear<B>>,
        /// Norm of each head's value.
        v_norm: Option<NormLayer<B>>,
    },
    /// Those of an earlier layer, by its number.
    Shared(usize),
}

/// One attention block: projections, norms of queries and keys, output.
pub struct SelfAttention<B: Backend> {
    /// `[n_head * head_dim, n_embd]`; twice as many rows where it is gated.
    pub q: Linear<B>,
    /// Keys and values.
    pub kv: KvSource<B>,
    /// `[n_embd, n_head * head_dim]`.
    pub output: Linear<B>,
    /// Norms of queries and of keys.
    pub qk_norm: Option<QkNorm<B>>,
    /// Added to the scores, by the distance of the key.
    pub bias: Option<DistanceBias<B::Weight>>,
    /// For each query head a score that enters the softmax and has no value, `[n_head]`.
    pub sinks: Option<B::Weight>,
    /// Whether each head's query is followed by a gate, whose sigmoid multiplies the head's output.
    pub gated: bool,
    /// A gate of each head, whose sigmoid multiplies the head's output, `[n_head, n_embd]`.
    pub head_gate: Option<Linear<B>>,
    /// Norm of the output of all heads of a token.
    pub sub_norm: Option<NormLayer<B>>,
}

/// Norms of queries and keys: over each head (Dehghani et al. 2023), or over all heads of a token together.
pub struct QkNorm<B: Backend> {
    /// Norm of queries.
    pub q: NormLayer<B>,
    /// Norm of keys, where the layer has its own.
    pub k: Option<NormLayer<B>>,
    /// Whether a row of the norm is one head and not all of a token.
    pub per_head: bool,
    /// Whether they come after the rotation.
    pub after_rope: bool,
}

impl<B: Backend> SelfAttention<B> {
    /// The earlier layer whose keys and values it reads, if it has none of its own.
    pub fn shares(&self) -> Option<usize> {
        match self.kv {
            KvSource::Own { .. } => None,
            KvSource::Shared(of) => Some(of),
        }
    }

    /// `ws.proj = attention(input)`. Appends the batch's keys and values to the cache at `place`, if the layer has its own.
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
        let n = batch.tokens.len();
        let x = input.of(&ws.norm, &ws.x);
        let (n_heads, head_dim) = (n * params.n_head, params.head_dim);
        let halves = (2 * head_dim, head_dim);
        let q = if self.gated { &mut ws.q_gate } else { &mut ws.q };
        match &self.kv {
            KvSource::Own { k, v: Some(v), .. } => {
                Linear::forward_many([(&self.q, q), (k, &mut ws.k), (v, &mut ws.v)], backend, x, n);
            }
            KvSource::Own { k, v: None, .. } => {
                Linear::forward_many([(&self.q, q), (k, &mut ws.k)], backend, x, n);
                let len = params.n_head_kv * head_dim;
                let (n_cols, first) = ((len, len), (0, 0));
                backend.copy_columns(Columns { x: &ws.k, out: &mut ws.v, n, n_cols, first, len });
            }
            KvSource::Shared(_) => self.q.forward(backend, x, n, q),
        }
        if let KvSource::Own { v_norm: Some(norm), .. } = &self.kv {
            norm.forward(backend, &ws.v, None, n * params.n_head_kv, &mut ws.k_norm);
            std::mem::swap(&mut ws.v, &mut ws.k_norm);
        }
        if self.gated {
            let (x, out) = (&ws.q_gate, &mut ws.q);
            backend.copy_columns(Columns {
                x,
                out,
                n: n_heads,
                n_cols: halves,
                first: (0, 0),
                len: head_dim,
            });
        }
        if let Some(norm) = self.qk_norm.as_ref().filter(|norm| !norm.after_rope) {
            norm.forward(params, n, backend, ws);
        }
        if let Some(rope) = &params.rope {
            backend.rope(Rope {
                q: &mut ws.q,
                k: &mut ws.k,
                n_head: params.n_head,
                n_head_kv: if self.shares().is_some() { 0 } else { params.n_head_kv },
                head_dim: params.head_dim,
                inv_freq: rope.inv_freq(batch.n_ctx),
                magnitude: rope.magnitude,
                style: rope.style,
            });
        }
        if let Some(norm) = self.qk_norm.as_ref().filter(|norm| norm.after_rope) {
            norm.forward(params, n, backend, ws);
        }
        if self.shares().is_none() {
            let rows = KvRows::New { group: place.group, k: &ws.k, v: &ws.v };
            backend.kv_append(KvAppend { kv, layer, rows });
        }
        let attention = Attention {
            kv,
            group: place.group,
            layer,
            q: &ws.q,
            n_head: params.n_head,
            scale: params.scale,
            sees: params.sees,
            causal: params.causal,
            window: params.window,
            chunked: params.chunked,
            growth: params.growth,
            softcap: params.softcap,
            bias: self.bias.as_ref(),
            sinks: self.sinks.as_ref(),
        };
        backend.attention(&attention, &mut ws.attn);
        if self.gated {
            let (x, out, first) = (&ws.q_gate, &mut ws.q, (head_dim, 0));
            backend.copy_columns(Columns { x, out, n: n_heads, n_cols: halves, first, len: head_dim });
            backend.act_mul(Activation::Sigmoid, &mut ws.q, &ws.attn, n_heads * head_dim);
            std::mem::swap(&mut ws.q, &mut ws.attn);
        }
        if let Some(gate) = &self.head_gate {
            // Queries are used up: their buffer takes a number for each head.
            gate.forward(backend, input.of(&ws.norm, &ws.x), n, &mut ws.q);
            backend.sigmoid_gate(&mut ws.attn, &ws.q, n_heads, params.dims().v);
        }
        if let Some(norm) = &self.sub_norm {
            norm.forward(backend, &ws.attn, None, n, &mut ws.q);
            std::mem::swap(&mut ws.q, &mut ws.attn);
        }
        self.output.forward(backend, &ws.attn, n, &mut ws.proj);
    }
}

impl<B: Backend> QkNorm<B> {
    /// Normalises `ws.q` and `ws.k`.
    fn forward(&self, params: &AttentionParams, n: usize, backend: &mut B, ws: &mut Workspace<B>) {
        let rows = |n_head: usize| if self.per_head { n * n_head } else { n };
        self.q.forward(backend, &ws.q, None, rows(params.n_head), &mut ws.attn);
        std::mem::swap(&mut ws.q, &mut ws.attn);
        if let Some(k) = &self.k {
            k.forward(backend, &ws.k, None, rows(params.n_head_kv), &mut ws.k_norm);
            std::mem::swap(&mut ws.k, &mut ws.k_norm);
        }
    }
}
