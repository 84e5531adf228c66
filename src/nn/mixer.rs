//! What mixes the tokens of a sequence in a layer of a decoder.
#![forbid(unsafe_code)]

use super::attention::{AttentionParams, SelfAttention};
use super::short_conv::ShortConv;
use super::workspace::Workspace;
use super::{Batch, Cache, Keeps, Source};
use crate::backend::Backend;

/// One of the kinds.
pub enum Mixer<B: Backend> {
    /// Attention over keys and values.
    Attention {
        /// Index into [`Decoder::attention`](super::decoder::Decoder::attention).
        kind: usize,
        /// The weights.
        block: SelfAttention<B>,
    },
    /// A short convolution between two gates.
    ShortConv(ShortConv<B>),
}

impl<B: Backend> Mixer<B> {
    /// What the layer keeps of a sequence.
    pub fn keeps(&self) -> Keeps {
        match self {
            Mixer::Attention { .. } => Keeps::Kv,
            Mixer::ShortConv(conv) => Keeps::State(conv.state_len()),
        }
    }

    /// `ws.proj = mixer(input)`. `kept` is the number of layers before this one that keep the same kind of thing.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of a forward pass, and all are needed")]
    pub fn forward(
        &self,
        kinds: &[AttentionParams],
        kept: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
    ) {
        match self {
            Mixer::Attention { kind, block } => {
                block.forward(&kinds[*kind], kept, input, backend, ws, &mut cache.kv, batch);
            }
            Mixer::ShortConv(conv) => conv.forward(kept, input, backend, ws, &mut cache.states, batch),
        }
    }
}
