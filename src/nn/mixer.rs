//! The mixers of tokens in the layers of a decoder.
//!
//! A mixer says what its layer keeps of a sequence ([`Keeps`]). Layers without keys and values take no part of a page.
//!
//! | mixer | keeps | file |
//! |---|---|---|
//! | attention | keys and values, of the layer's own number and length of heads | `nn::attention` |
//! | attention that shares (Gemma 3n, Gemma 4) | nothing; it reads those of an earlier layer | `nn::attention` |
//! | latent attention (DeepSeek, GLM-4.7-Flash) | one key for all heads, of which the value is a part | `nn::latent` |
//! | short convolution (LFM2) | the last rows that it saw | `nn::short_conv` |
//! | gated delta net (Qwen 3.5) | the last rows of its convolution, and a matrix for each head | `nn::gated_delta` |
//! | Mamba-2 (Granite 4, Nemotron-H) | the same | `nn::mamba2` |
//! | Mamba (FalconMamba) | the same, a vector for each channel | `nn::mamba` |
//! | time mix of RWKV-7 | the last row, and a matrix for each head | `nn::time_mix` |
//! | channel mix of RWKV-7, which is its feed-forward block | the last row | `nn::time_mix` |
//! | none (blocks of Nemotron-H) | nothing | |
//!
//! A new kind is a variant of [`Mixer`], a file in `nn`, and perhaps an operation of the backend.
//! Recurrent operations go through a text token by token and share work between threads by channels. So bits depend neither on the number
//! of threads nor on where a text is cut.
#![forbid(unsafe_code)]

use super::attention::{AttentionParams, SelfAttention};
use super::gated_delta::GatedDelta;
use super::latent::Latent;
use super::mamba::Mamba;
use super::mamba2::Mamba2;
use super::short_conv::ShortConv;
use super::time_mix::{ChannelMix, TimeMix};
use super::workspace::Workspace;
use super::{Batch, Cache, Keeps, Source};
use crate::backend::Backend;

/// A mixer of one of the kinds.
pub enum Mixer<B: Backend> {
    /// Attention over keys and values.
    Attention {
        /// Index into [`Decoder::attention`](super::decoder::Decoder::attention).
        kind: usize,
        /// The weights.
        block: SelfAttention<B>,
    },
    /// Attention over a latent vector of each token.
    Latent {
        /// Index as of attention.
        kind: usize,
        /// The weights.
        block: Latent<B>,
    },
    /// A short convolution between two gates.
    ShortConv(ShortConv<B>),
    /// A recurrence by the gated delta rule.
    GatedDelta(GatedDelta<B>),
    /// The recurrence of Mamba-2.
    Mamba2(Mamba2<B>),
    /// The recurrence of Mamba.
    Mamba(Mamba<B>),
    /// The recurrence of RWKV-7.
    TimeMix(Box<TimeMix<B>>),
    /// The feed-forward block of RWKV-7, which sees the token before.
    ChannelMix(ChannelMix<B>),
    /// None: the layer is a feed-forward block and nothing else.
    None,
}

impl<B: Backend> Mixer<B> {
    /// Elements of the states that a recurrent layer keeps of a sequence: of a convolution, and of a recurrence.
    pub fn state_lens(&self) -> Option<(usize, usize)> {
        match self {
            Mixer::Attention { .. } | Mixer::Latent { .. } | Mixer::None => None,
            Mixer::ShortConv(conv) => Some(((conv.len - 1) * conv.n_embd, 0)),
            Mixer::GatedDelta(GatedDelta { shape, .. }) => {
                Some(((shape.conv_len - 1) * shape.n_channels(), shape.n_head * shape.k_dim * shape.v_dim))
            }
            Mixer::Mamba2(Mamba2 { shape, .. }) => Some((
                (shape.conv_len - 1) * shape.n_channels(),
                shape.n_head * shape.state_len * shape.head_dim,
            )),
            Mixer::TimeMix(mix) => Some((mix.n_embd(), mix.n_embd() * mix.head_dim)),
            Mixer::ChannelMix(mix) => Some((mix.n_embd, 0)),
            Mixer::Mamba(Mamba { shape, .. }) => {
                Some(((shape.conv_len - 1) * shape.n_channels, shape.n_channels * shape.state_len))
            }
        }
    }

    /// Width of the buffers that a recurrent layer works in, and of those with a number for each of its heads.
    pub fn width(&self) -> (usize, usize) {
        match self {
            Mixer::Attention { .. } | Mixer::Latent { .. } | Mixer::None => (0, 0),
            Mixer::ShortConv(conv) => (conv.n_embd, 0),
            Mixer::GatedDelta(delta) => (delta.shape.width(), delta.shape.n_head),
            Mixer::Mamba2(mamba) => (mamba.shape.n_channels(), mamba.shape.n_head),
            Mixer::Mamba(mamba) => mamba.shape.width(),
            Mixer::TimeMix(mix) => (mix.width(), 0),
            Mixer::ChannelMix(mix) => (mix.n_embd.max(mix.n_ff), 0),
        }
    }

    /// Width of the further buffers of a recurrence that unlearns.
    pub fn time_mix_width(&self) -> usize {
        match self {
            Mixer::TimeMix(mix) => mix.n_embd(),
            _ => 0,
        }
    }

    /// `ws.proj = mixer(input)` of a layer that keeps `keeps`.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of a forward pass, and all are needed")]
    pub fn forward(
        &self,
        kinds: &[AttentionParams],
        keeps: &Keeps,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
    ) {
        match (self, *keeps) {
            (Mixer::Attention { kind, block }, Keeps::Kv(_, place) | Keeps::Shared(place)) => {
                block.forward(&kinds[*kind], place, input, backend, ws, cache, batch);
            }
            (Mixer::Latent { kind, block }, Keeps::Kv(_, place)) => {
                block.forward(&kinds[*kind], place, input, backend, ws, cache, batch);
            }
            (Mixer::ShortConv(conv), Keeps::States { before, .. }) => {
                conv.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            (Mixer::GatedDelta(delta), Keeps::States { before, .. }) => {
                delta.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            (Mixer::Mamba2(mamba), Keeps::States { before, .. }) => {
                mamba.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            (Mixer::TimeMix(mix), Keeps::States { before, .. }) => {
                mix.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            (Mixer::ChannelMix(mix), Keeps::States { before, .. }) => {
                mix.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            (Mixer::Mamba(mamba), Keeps::States { before, .. }) => {
                mamba.forward(before, input, backend, ws, &mut cache.states, batch);
            }
            _ => {}
        }
    }
}
