//! Self-attention with grouped heads, rotary positions and the paged KV cache.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Shift, Source};
use crate::backend::{Attention, Backend, KvAppend, KvRows, Rope, Turn};
use crate::kernels::RopeStyle;

/// Rotary position parameters.
#[derive(Debug, Clone)]
pub struct RopeParams {
    /// Angle per position of each rotated pair.
    pub inv_freq: Vec<f32>,
    /// Factor on what was rotated; 1 but for YaRN and LongRoPE.
    pub magnitude: f32,
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// What takes the place of `inv_freq` in contexts of more than so many positions (LongRoPE).
    pub long: Option<(usize, Vec<f32>)>,
}

impl RopeParams {
    /// The frequencies for contexts of `n_ctx` positions.
    fn inv_freq(&self, n_ctx: usize) -> &[f32] {
        match &self.long {
            Some((n_ctx_short, inv_freq)) if n_ctx > *n_ctx_short => inv_freq,
            _ => &self.inv_freq,
        }
    }
}

/// Cosines and sines by which keys are turned back when their tokens move.
pub struct TurnBack {
    cos: Vec<f32>,
    sin: Vec<f32>,
    style: RopeStyle,
}

impl TurnBack {
    /// The rotation that makes of a key at some position the same key `by` positions earlier, in a context of `n_ctx`
    /// positions. The key's length is not touched: [`RopeParams::magnitude`] is in it already.
    fn new(rope: &RopeParams, by: usize, n_ctx: usize) -> TurnBack {
        let angles = rope.inv_freq(n_ctx).iter().map(|&f| libm::sincos(by as f64 * f64::from(f)));
        let (sin, cos) = angles.map(|(sin, cos)| (-sin as f32, cos as f32)).unzip();
        TurnBack { cos, sin, style: rope.style }
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
    /// `None` for learned positions and layers without any.
    pub rope: Option<RopeParams>,
    /// Factor on q·k.
    pub scale: f32,
    /// Whether a token sees only those before it.
    pub causal: bool,
    /// A token sees only its last `window` positions, its own included.
    pub window: Option<usize>,
    /// Scores pass through `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
}

impl AttentionParams {
    /// How the keys of these layers are turned by `shift`; `None` where they know no positions.
    pub fn turn_back(&self, shift: &Shift<'_>) -> Option<TurnBack> {
        self.rope.as_ref().map(|rope| TurnBack::new(rope, shift.by, shift.n_ctx))
    }
}

/// Moves keys and values of one layer, the keys turned by `turn`.
pub fn shift<B: Backend>(
    backend: &mut B,
    kv: &mut B::Kv,
    layer: usize,
    shift: &Shift<'_>,
    turn: Option<&TurnBack>,
) {
    let turn = turn.map(|t| Turn { cos: &t.cos, sin: &t.sin, style: t.style });
    let rows = KvRows::Moved { from: shift.from, turn };
    backend.kv_append(KvAppend { kv, layer, rows, slots: shift.to });
}

/// One attention block: projections, norms of queries and keys, output.
pub struct SelfAttention<B: Backend> {
    /// `[n_head * head_dim, n_embd]`.
    pub q: Linear<B>,
    /// `[n_head_kv * head_dim, n_embd]`.
    pub k: Linear<B>,
    /// `[n_head_kv * head_dim, n_embd]`.
    pub v: Linear<B>,
    /// `[n_embd, n_head * head_dim]`.
    pub output: Linear<B>,
    /// Norms of queries and of keys, before they are rotated.
    pub qk_norm: Option<QkNorm<B>>,
}

/// Norms of queries and keys: over each head (Dehghani et al. 2023), or over all heads of a token at once.
pub struct QkNorm<B: Backend> {
    /// Of queries.
    pub q: NormLayer<B>,
    /// Of keys.
    pub k: NormLayer<B>,
    /// Whether a row of the norm is one head and not all of a token.
    pub per_head: bool,
}

impl<B: Backend> SelfAttention<B> {
    /// `ws.proj = attention(input)`, appending the batch's keys and values to `layer` of `kv` on the way.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of a forward pass, and all are needed")]
    pub fn forward(
        &self,
        params: &AttentionParams,
        layer: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        kv: &mut B::Kv,
        batch: &Batch<'_>,
    ) {
        let n = batch.tokens.len();
        let x = match input {
            Source::Norm => &ws.norm,
            Source::Residual => &ws.x,
        };
        Linear::forward_many(
            [(&self.q, &mut ws.q), (&self.k, &mut ws.k), (&self.v, &mut ws.v)],
            backend,
            x,
            n,
        );
        if let Some(norm) = &self.qk_norm {
            norm.forward(params, n, backend, ws);
        }
        if let Some(rope) = &params.rope {
            backend.rope(Rope {
                q: &mut ws.q,
                k: &mut ws.k,
                positions: batch.positions,
                n_head: params.n_head,
                n_head_kv: params.n_head_kv,
                head_dim: params.head_dim,
                inv_freq: rope.inv_freq(batch.n_ctx),
                magnitude: rope.magnitude,
                style: rope.style,
            });
        }
        let rows = KvRows::New { k: &ws.k, v: &ws.v };
        backend.kv_append(KvAppend { kv, layer, rows, slots: batch.slots });
        let attention = Attention {
            kv,
            layer,
            q: &ws.q,
            n_head: params.n_head,
            runs: batch.runs,
            pages: batch.pages,
            scale: params.scale,
            causal: params.causal,
            window: params.window,
            softcap: params.softcap,
        };
        backend.attention(&attention, &mut ws.attn);
        self.output.forward(backend, &ws.attn, n, &mut ws.proj);
    }
}

impl<B: Backend> QkNorm<B> {
    /// Normalises `ws.q` and `ws.k`.
    fn forward(&self, params: &AttentionParams, n: usize, backend: &mut B, ws: &mut Workspace<B>) {
        let rows = |n_head: usize| if self.per_head { n * n_head } else { n };
        self.q.forward(backend, &ws.q, None, rows(params.n_head), &mut ws.attn);
        std::mem::swap(&mut ws.q, &mut ws.attn);
        self.k.forward(backend, &ws.k, None, rows(params.n_head_kv), &mut ws.k_norm);
        std::mem::swap(&mut ws.k, &mut ws.k_norm);
    }
}
