//! [`Decoder`] as a [`Model`]: most architectures, once their weights are bound.
#![forbid(unsafe_code)]

use super::{Model, ModelInfo};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::nn::decoder::Decoder;
use crate::nn::head::Output;
use crate::nn::workspace::Workspace;
use crate::nn::{Batch, Cache, Shift};

/// A decoder and its dimensions.
struct DecoderModel<B: Backend> {
    info: ModelInfo,
    decoder: Decoder<B>,
}

/// The result of an architecture's `bind`, as a model.
pub fn boxed<B: Backend>((info, decoder): (ModelInfo, Decoder<B>)) -> Box<dyn Model<B>> {
    let (windows, keeps) = decoder.keeps();
    let info = ModelInfo {
        windows,
        keeps,
        attention_width: decoder.attention_width(),
        mix_width: decoder.mix_width(),
        time_mix_width: decoder.time_mix_width(),
        is_gated: decoder.is_gated(),
        latent_width: decoder.latent_width(),
        n_streams: decoder.altup.as_ref().map_or(0, |altup| 1 + altup.spread.len()),
        n_embd_per_layer: decoder.per_layer.as_ref().map_or(0, |per_layer| per_layer.dim),
        ..info
    };
    Box::new(DecoderModel { info, decoder })
}

impl<B: Backend> Model<B> for DecoderModel<B> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn n_ctx_short(&self) -> Option<usize> {
        self.decoder.n_ctx_short()
    }

    fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        let outcome = self.decoder.forward(&self.info.keeps, backend, ws, cache, batch, out);
        backend.finish().and(outcome)
    }

    fn shift(&self, backend: &mut B, cache: &mut Cache<B>, shift: &Shift<'_>) -> Result<()> {
        if let Some(sentence) = self.info.no_shift() {
            return Err(Error::Unsupported(sentence));
        }
        self.decoder.shift(&self.info.keeps, backend, cache, shift);
        backend.finish()
    }
}
