//! The decoder-only transformer that most architectures are a variation of: an embedding, layers of attention and
//! feed-forward around a residual stream, and a head. What varies is a field; an architecture's file fills the
//! fields and so says all that is particular to it.
#![forbid(unsafe_code)]

use super::attention::{self, AttentionParams};
use super::head::{Head, Output};
use super::mixer::Mixer;
use super::mlp::Mlp;
use super::norm::{NormKind, NormLayer};
use super::workspace::Workspace;
use super::{Batch, Cache, Keeps, Shift, Source};
use crate::backend::{AddNorm, Backend, Embed};
use crate::error::Result;

/// A decoder bound to its weights.
pub struct Decoder<B: Backend> {
    /// `[n_vocab, n_embd]`.
    pub token_embd: B::Weight,
    /// Learned positions, `[n_ctx_train, n_embd]`.
    pub position_embd: Option<B::Weight>,
    /// Factor on the token embedding.
    pub embd_scale: Option<f32>,
    /// The kinds of attention that layers choose from.
    pub attention: Vec<AttentionParams>,
    /// The layers, first to last.
    pub layers: Vec<DecoderLayer<B>>,
    /// Factor on what attention and feed-forward add to the residual stream.
    pub residual_scale: Option<f32>,
    /// Final norm and projection.
    pub head: Head<B>,
}

/// What the feed-forward block of a layer reads.
pub enum FfnInput<B: Backend> {
    /// The norm of the residual stream after attention was added: the usual order.
    Norm(NormLayer<B>),
    /// The residual stream itself after attention was added (norms come after the blocks).
    Residual,
    /// The norm of the layer's input: attention and feed-forward run side by side.
    ParallelNorm(NormLayer<B>),
    /// What attention reads too, side by side with it.
    Shared,
}

/// One layer.
pub struct DecoderLayer<B: Backend> {
    /// Before the mixer; without one it reads the residual stream.
    pub attn_norm: Option<NormLayer<B>>,
    /// What mixes the tokens: attention, as a rule.
    pub mixer: Mixer<B>,
    /// On what the mixer gives, before it is added.
    pub post_attn_norm: Option<NormLayer<B>>,
    /// What feed-forward reads.
    pub ffn_input: FfnInput<B>,
    /// Feed-forward.
    pub ffn: Mlp<B>,
    /// On what feed-forward gives, before it is added.
    pub post_ffn_norm: Option<NormLayer<B>>,
}

impl<B: Backend> Decoder<B> {
    /// Runs a batch and writes `out` for its outputs. Errors: `Cancelled` by the batch's `watch`; `Io` as [`Backend::embed`].
    pub fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        let n = batch.tokens.len();
        let len = n * ws.shape.n_embd;
        backend.embed(Embed { table: &self.token_embd, rows: batch.tokens, out: &mut ws.x })?;
        if let Some(factor) = self.embd_scale {
            backend.scale(&mut ws.x, factor, len);
        }
        if let Some(table) = &self.position_embd {
            backend.embed(Embed { table, rows: batch.positions, out: &mut ws.proj })?;
            backend.add(&mut ws.x, &ws.proj, len);
        }
        if let Some(norm) = self.layers.first().and_then(|layer| layer.attn_norm.as_ref()) {
            norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        }
        // Layers so far that keep keys and values, and that keep a state.
        let (mut n_kv, mut n_states) = (0, 0);
        for (i, layer) in self.layers.iter().enumerate() {
            batch.watch.check()?;
            let kept = match layer.mixer.keeps() {
                Keeps::Kv => &mut n_kv,
                Keeps::State(_) => &mut n_states,
            };
            let input = if layer.attn_norm.is_some() { Source::Norm } else { Source::Residual };
            layer.mixer.forward(&self.attention, *kept, input, backend, ws, cache, batch);
            *kept += 1;
            let input = match &layer.ffn_input {
                FfnInput::Norm(norm) => {
                    self.add(layer.post_attn_norm.as_ref(), Some(norm), backend, ws, n);
                    Source::Norm
                }
                FfnInput::Residual => {
                    self.add(layer.post_attn_norm.as_ref(), None, backend, ws, n);
                    Source::Residual
                }
                FfnInput::ParallelNorm(norm) => {
                    norm.forward(backend, &ws.x, None, n, &mut ws.norm);
                    self.add(None, None, backend, ws, n);
                    Source::Norm
                }
                FfnInput::Shared => {
                    self.add(None, None, backend, ws, n);
                    Source::Norm
                }
            };
            layer.ffn.forward(input, backend, ws, n);
            let next = self.layers.get(i + 1).and_then(|layer| layer.attn_norm.as_ref());
            self.add(layer.post_ffn_norm.as_ref(), next, backend, ws, n);
        }
        self.head.forward(&self.token_embd, backend, ws, batch, out)
    }

    /// What each layer keeps of a sequence.
    pub fn keeps(&self) -> Vec<Keeps> {
        self.layers.iter().map(|layer| layer.mixer.keeps()).collect()
    }

    /// The kinds of the layers that have attention.
    fn kinds(&self) -> impl Iterator<Item = usize> + '_ {
        self.layers.iter().filter_map(|layer| match layer.mixer {
            Mixer::Attention { kind, .. } => Some(kind),
            Mixer::ShortConv(_) => None,
        })
    }

    /// The widest window, if every layer with attention has one.
    pub fn window(&self) -> Option<usize> {
        let windows = self.kinds().map(|kind| self.attention[kind].window);
        windows.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// In contexts of more positions than these keys are rotated by other frequencies (LongRoPE).
    pub fn n_ctx_short(&self) -> Option<usize> {
        self.attention.iter().find_map(|params| Some(params.rope.as_ref()?.long.as_ref()?.0))
    }

    /// Moves keys and values of all layers, each kind's turned by its own frequencies.
    pub fn shift(&self, backend: &mut B, kv: &mut B::Kv, shift: &Shift<'_>) {
        let turns: Vec<_> = self.attention.iter().map(|params| params.turn_back(shift)).collect();
        for (i, kind) in self.kinds().enumerate() {
            attention::shift(backend, kv, i, shift, turns[kind].as_ref());
        }
    }

    /// Adds `ws.proj`, normalised by `post`, to the residual stream, whose norm `next` then goes to `ws.norm`.
    fn add(
        &self,
        post: Option<&NormLayer<B>>,
        next: Option<&NormLayer<B>>,
        backend: &mut B,
        ws: &mut Workspace<B>,
        n: usize,
    ) {
        let n_embd = ws.shape.n_embd;
        if let Some(post) = post {
            post.forward(backend, &ws.proj, None, n, &mut ws.norm);
            std::mem::swap(&mut ws.proj, &mut ws.norm);
        }
        if let Some(factor) = self.residual_scale {
            backend.scale(&mut ws.proj, factor, n * n_embd);
        }
        match next {
            Some(next) if next.kind == NormKind::Rms => backend.add_rms_norm(AddNorm {
                x: &mut ws.x,
                y: &ws.proj,
                n,
                n_embd,
                weight: &next.weight,
                eps: next.eps,
                out: &mut ws.norm,
            }),
            _ => {
                backend.add(&mut ws.x, &ws.proj, n * n_embd);
                if let Some(next) = next {
                    next.forward(backend, &ws.x, None, n, &mut ws.norm);
                }
            }
        }
    }
}
