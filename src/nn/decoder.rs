//! The decoder-only transformer that most architectures are a variation of: an embedding, layers of attention and feed-forward
//! around a residual stream, and a head. Variations are fields. An architecture's file fills the fields and so has all that is
//! particular to the architecture.
#![forbid(unsafe_code)]

use super::altup::{AltUp, AltUpLayer};
use super::attention::{self, AttentionParams};
use super::head::{Head, Output};
use super::mixer::Mixer;
use super::mlp::Mlp;
use super::norm::{NormKind, NormLayer};
use super::per_layer::{PerLayerEmbd, PerLayerInput};
use super::workspace::Workspace;
use super::{Batch, Cache, Keeps, KvPlace, Shift, Source};
use crate::backend::{AddNorm, Backend, Embed};
use crate::error::Result;

/// A decoder bound to its weights.
pub struct Decoder<B: Backend> {
    /// `[n_vocab, n_embd]`.
    pub token_embd: B::Weight,
    /// Learned positions, `[n_ctx_train, n_embd]`.
    pub position_embd: Option<B::Weight>,
    /// Norm of the token embedding.
    pub embd_norm: Option<NormLayer<B>>,
    /// Factor on the token embedding.
    pub embd_scale: Option<f32>,
    /// Per-layer embeddings.
    pub per_layer: Option<PerLayerEmbd<B>>,
    /// The residual stream of several vectors.
    pub altup: Option<AltUp<B>>,
    /// The kinds of attention that layers choose from.
    pub attention: Vec<AttentionParams>,
    /// The layers, first to last.
    pub layers: Vec<DecoderLayer<B>>,
    /// Factor on the outputs of attention and feed-forward before they are added to the residual stream.
    pub residual_scale: Option<f32>,
    /// Final norm and projection.
    pub head: Head<B>,
}

/// The input of the feed-forward block of a layer.
pub enum FfnInput<B: Backend> {
    /// The norm of the residual stream after attention was added: the usual order.
    Norm(NormLayer<B>),
    /// The residual stream itself after attention was added (norms come after the blocks).
    Residual,
    /// The norm of the layer's input: attention and feed-forward run side by side.
    ParallelNorm(NormLayer<B>),
    /// The input of attention, side by side with it.
    Shared,
}

/// One layer.
pub struct DecoderLayer<B: Backend> {
    /// Norm before the mixer. Without one the mixer reads the residual stream, or the input of the layer before, if that layer
    /// says so.
    pub attn_norm: Option<NormLayer<B>>,
    /// The mixer of tokens: usually attention.
    pub mixer: Mixer<B>,
    /// Norm of the mixer's output, before it is added.
    pub post_attn_norm: Option<NormLayer<B>>,
    /// The input of feed-forward.
    pub ffn_input: FfnInput<B>,
    /// Feed-forward.
    pub ffn: Mlp<B>,
    /// Norm of feed-forward's output, before it is added.
    pub post_ffn_norm: Option<NormLayer<B>>,
    /// Further parts of the layer.
    pub extra: Option<Extra<B>>,
    /// Whether the next layer reads the same input, side by side with it: the two are one layer of the model.
    pub beside: bool,
}

/// The parts of a layer beyond a mixer and feed-forward.
pub enum Extra<B: Backend> {
    /// Operations at its end.
    End {
        /// The layer's use of its per-layer embedding.
        input: Option<PerLayerInput<B>>,
        /// Factor on the residual stream.
        scale: f32,
    },
    /// The layer computes with one of several vectors that make the residual stream.
    AltUp(Box<AltUpLayer<B>>),
}

impl<B: Backend> Extra<B> {
    /// Does the operations at the end of the layer.
    fn end(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let len = n * ws.shape.n_embd;
        match self {
            Extra::End { input, scale } => {
                if let Some(input) = input {
                    input.forward(backend, ws, n);
                    backend.add(&mut ws.x, &ws.norm, len);
                }
                if *scale != 1.0 {
                    backend.scale(&mut ws.x, *scale, len);
                }
            }
            Extra::AltUp(altup) => altup.end(backend, ws, n),
        }
    }
}

impl<B: Backend> DecoderLayer<B> {
    fn altup(&self) -> Option<&AltUpLayer<B>> {
        match &self.extra {
            Some(Extra::AltUp(altup)) => Some(altup),
            _ => None,
        }
    }
}

impl<B: Backend> Decoder<B> {
    /// Runs a batch and writes `out` for its outputs; `keeps` are [`Decoder::keeps`]. Errors: as [`Decoder::run`].
    pub fn forward(
        &self,
        keeps: &[Keeps],
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        self.run((&self.layers, keeps), backend, ws, cache, batch)?;
        self.head.forward(&self.token_embd, backend, ws, batch, out)
    }

    /// Runs a batch through `layers`, which keep `keeps`; the result is `ws.x`. Errors: `Cancelled` by the batch's `watch`; `Io`
    /// as [`Backend::embed`].
    pub fn run(
        &self,
        (layers, keeps): (&[DecoderLayer<B>], &[Keeps]),
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
    ) -> Result<()> {
        let n = batch.tokens.len();
        let len = n * ws.shape.n_embd;
        backend.embed(Embed { table: &self.token_embd, rows: batch.tokens, out: &mut ws.x })?;
        if let Some(norm) = &self.embd_norm {
            norm.forward(backend, &ws.x, None, n, &mut ws.norm);
            std::mem::swap(&mut ws.x, &mut ws.norm);
        }
        if let Some(factor) = self.embd_scale {
            backend.scale(&mut ws.x, factor, len);
        }
        if let Some(per_layer) = &self.per_layer {
            per_layer.forward(backend, ws, batch.tokens)?;
        }
        if let Some(table) = &self.position_embd {
            backend.embed(Embed { table, rows: batch.positions, out: &mut ws.proj })?;
            backend.add(&mut ws.x, &ws.proj, len);
        }
        if let Some(altup) = &self.altup {
            altup.spread(backend, ws, n);
        } else if let Some(norm) = layers.first().and_then(|layer| layer.attn_norm.as_ref()) {
            norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        }
        for (i, (layer, keeps)) in layers.iter().zip(keeps).enumerate() {
            batch.watch.check()?;
            if let Some(altup) = layer.altup() {
                altup.begin(layer.attn_norm.as_ref(), backend, ws, n);
            }
            let next = layers.get(i + 1).and_then(|layer| layer.attn_norm.as_ref());
            let is_second = i > 0 && layers[i - 1].beside;
            let input = if layer.attn_norm.is_some() || is_second { Source::Norm } else { Source::Residual };
            if let Mixer::None = layer.mixer {
                layer.ffn.forward(input, backend, ws, n);
                self.add(layer.post_ffn_norm.as_ref(), next, backend, ws, n);
                continue;
            }
            if let Mlp::Moe(moe) = &layer.ffn
                && moe.early
            {
                moe.route(Source::Residual, backend, ws, n);
            }
            layer.mixer.forward(&self.attention, keeps, input, backend, ws, cache, batch);
            if let Mlp::None = layer.ffn {
                self.add(layer.post_attn_norm.as_ref(), next, backend, ws, n);
                continue;
            }
            let input = match &layer.ffn_input {
                FfnInput::Norm(norm) => {
                    match layer.altup() {
                        None => self.add(layer.post_attn_norm.as_ref(), Some(norm), backend, ws, n),
                        Some(altup) => {
                            self.add(layer.post_attn_norm.as_ref(), None, backend, ws, n);
                            altup.add_laurel(backend, ws, n);
                            norm.forward(backend, &ws.x, None, n, &mut ws.norm);
                        }
                    }
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
            match &layer.extra {
                None => self.add(layer.post_ffn_norm.as_ref(), next, backend, ws, n),
                Some(extra) => {
                    self.add(layer.post_ffn_norm.as_ref(), None, backend, ws, n);
                    extra.end(backend, ws, n);
                    if let (Some(next), None) = (next, &self.altup) {
                        next.forward(backend, &ws.x, None, n, &mut ws.norm);
                    }
                }
            }
        }
        if let Some(altup) = &self.altup {
            altup.gather(backend, ws, n);
        }
        Ok(())
    }

    /// The window of each group of layers, and what each layer keeps of a sequence. There is at least one group.
    pub fn keeps(&self) -> (Vec<Option<usize>>, Vec<Keeps>) {
        let (mut groups, mut keeps) = (Vec::<(Option<usize>, usize)>::new(), Vec::<Keeps>::new());
        let mut n_recurrent = 0;
        for layer in &self.layers {
            let shares = match &layer.mixer {
                Mixer::Attention { block, .. } => block.shares(),
                _ => None,
            };
            let kept = match (&layer.mixer, layer.mixer.state_lens()) {
                (_, Some((conv, scan))) => {
                    n_recurrent += 1;
                    Keeps::States { conv, scan, before: n_recurrent - 1 }
                }
                _ if shares.is_some() => match shares.and_then(|of| keeps.get(of)) {
                    Some(Keeps::Kv(_, place)) => Keeps::Shared(*place),
                    _ => Keeps::Nothing,
                },
                (Mixer::Attention { kind, .. } | Mixer::Latent { kind, .. }, _) => {
                    let params = &self.attention[*kind];
                    let known = groups.iter().position(|(window, _)| *window == params.window);
                    let group = known.unwrap_or_else(|| {
                        groups.push((params.window, 0));
                        groups.len() - 1
                    });
                    let layer = groups[group].1;
                    groups[group].1 += 1;
                    Keeps::Kv(params.kv_heads(), KvPlace { group, layer })
                }
                _ => Keeps::Nothing,
            };
            keeps.push(kept);
        }
        let windows = groups.into_iter().map(|(window, _)| window).collect::<Vec<_>>();
        (if windows.is_empty() { vec![None] } else { windows }, keeps)
    }

    /// Width of the further buffers of recurrences that unlearn.
    pub fn time_mix_width(&self) -> usize {
        self.layers.iter().map(|layer| layer.mixer.time_mix_width()).max().unwrap_or(0)
    }

    /// The largest of each of [`Mixer::width`].
    pub fn mix_width(&self) -> (usize, usize) {
        let widths = self.layers.iter().map(|layer| layer.mixer.width());
        widths.fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)))
    }

    /// The largest width of the buffers of latent attention, and its heads.
    pub fn latent_width(&self) -> (usize, usize) {
        let shapes = self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::Latent { block, .. } => Some(block.shape),
            _ => None,
        });
        shapes.fold((0, 0), |(width, n_head), shape| (width.max(shape.width()), n_head.max(shape.n_head)))
    }

    /// Whether layers have attention with an output gate.
    pub fn is_gated(&self) -> bool {
        self.layers.iter().any(|layer| matches!(&layer.mixer, Mixer::Attention { block, .. } if block.gated))
    }

    /// The kinds of the layers that have attention.
    fn kinds(&self) -> impl Iterator<Item = usize> + '_ {
        self.layers.iter().filter_map(|layer| match layer.mixer {
            Mixer::Attention { kind, .. } | Mixer::Latent { kind, .. } => Some(kind),
            _ => None,
        })
    }

    /// The widest queries and keys or values of a token, and the longest vector of a head, in layers with attention.
    pub fn attention_width(&self) -> (usize, usize, usize) {
        let widths = self.kinds().map(|kind| {
            let params = &self.attention[kind];
            let longest = params.dims().longest();
            (params.n_head * longest, params.n_head_kv * longest, longest)
        });
        widths.fold((0, 0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2)))
    }

    /// In contexts of more positions than this, keys are rotated by other frequencies (LongRoPE).
    pub fn n_ctx_short(&self) -> Option<usize> {
        self.attention.iter().find_map(|params| Some(params.rope.as_ref()?.long.as_ref()?.0))
    }

    /// Moves keys and values of all layers, each kind's rotated by its own frequencies.
    pub fn shift(&self, keeps: &[Keeps], backend: &mut B, cache: &mut Cache<B>, shift: &Shift<'_>) {
        let rotations: Vec<_> = self.attention.iter().map(|params| params.back_rotation(shift)).collect();
        for (layer, keeps) in self.layers.iter().zip(keeps) {
            if let Mixer::Attention { kind, .. } | Mixer::Latent { kind, .. } = layer.mixer
                && let Keeps::Kv(_, place) = *keeps
            {
                attention::shift(backend, cache, place, shift, rotations[kind].as_ref());
            }
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
