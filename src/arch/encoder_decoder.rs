//! An encoder and its decoder as one [`Model`]. A pass is one part's. The encoder's leaves of a text keys and values for the decoder, in
//! the places of the text's positions; the decoder's own are after them.
#![forbid(unsafe_code)]

use super::{Model, ModelInfo};
use crate::backend::{Backend, KvAppend, KvRows};
use crate::error::{Error, Result};
use crate::nn::decoder::{Decoder, DecoderLayer};
use crate::nn::head::Output;
use crate::nn::linear::Linear;
use crate::nn::norm::NormLayer;
use crate::nn::workspace::Workspace;
use crate::nn::{Batch, Cache, Keeps, Shift};

/// What an architecture's `bind` makes.
pub struct EncoderDecoder<B: Backend> {
    /// The encoder's layers, whose kinds of attention are among the decoder's.
    pub encoder: Vec<DecoderLayer<B>>,
    /// Its last norm.
    pub encoder_norm: NormLayer<B>,
    /// Keys and values that each of the decoder's layers with a store makes of what the encoder gives.
    pub cross: Vec<(Linear<B>, Linear<B>)>,
    /// The decoder: of each layer one that attends to the answer, and one without a store that attends to the text.
    pub decoder: Decoder<B>,
}

/// The same and its dimensions.
struct EncoderDecoderModel<B: Backend> {
    info: ModelInfo,
    parts: EncoderDecoder<B>,
    /// What the encoder's layers keep: one store is enough, and the first of the decoder's is free until they are done.
    encoder_keeps: Vec<Keeps>,
}

/// What an architecture's `bind` returns, as a model.
pub fn boxed<B: Backend>((info, parts): (ModelInfo, EncoderDecoder<B>)) -> Box<dyn Model<B>> {
    let (windows, keeps) = parts.decoder.keeps();
    let encoder_keeps = keeps.first().into_iter().cycle().take(parts.encoder.len()).copied().collect();
    let info = ModelInfo { windows, keeps, attention_width: parts.decoder.attention_width(), ..info };
    Box::new(EncoderDecoderModel { info, parts, encoder_keeps })
}

impl<B: Backend> EncoderDecoderModel<B> {
    /// Reads whole texts.
    fn encode(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
    ) -> Result<()> {
        let EncoderDecoder { encoder, encoder_norm, cross, decoder } = &self.parts;
        let n = batch.tokens.len();
        decoder.run((encoder, &self.encoder_keeps), backend, ws, cache, batch)?;
        encoder_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        let places = self.info.keeps.iter().filter_map(|keeps| match keeps {
            Keeps::Kv(_, place) => Some(*place),
            _ => None,
        });
        for ((k, v), place) in cross.iter().zip(places) {
            batch.watch.check()?;
            Linear::forward_many([(k, &mut ws.k), (v, &mut ws.v)], backend, &ws.norm, n);
            let rows = KvRows::New { group: place.group, k: &ws.k, v: &ws.v };
            backend.kv_append(KvAppend { kv: &mut cache.kv[place.group], layer: place.layer, rows });
        }
        Ok(())
    }
}

impl<B: Backend> Model<B> for EncoderDecoderModel<B> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        let outcome = match batch.runs.first() {
            Some(run) if run.position < run.encoded => self.encode(backend, ws, cache, batch),
            _ => self.parts.decoder.forward(&self.info.keeps, backend, ws, cache, batch, out),
        };
        backend.finish().and(outcome)
    }

    fn shift(&self, _: &mut B, _: &mut Cache<B>, _: &Shift<'_>) -> Result<()> {
        Err(Error::Unsupported(self.info.no_shift().unwrap_or_default()))
    }
}
