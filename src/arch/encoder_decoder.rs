//! An encoder and its decoder as one [`Model`]. A pass belongs to one of them. The encoder's pass stores keys and values of a
//! text for the decoder, at the text's positions; the decoder's own follow them.
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

/// The result of an architecture's `bind`.
pub struct EncoderDecoder<B: Backend> {
    /// The encoder's layers, whose kinds of attention are among the decoder's.
    pub encoder: Vec<DecoderLayer<B>>,
    /// Its last norm.
    pub encoder_norm: NormLayer<B>,
    /// The projections from the encoder's output to keys and values of each decoder layer with a store.
    pub cross: Vec<(Linear<B>, Linear<B>)>,
    /// The decoder: for each layer one that attends to the answer, and one without a store that attends to the text.
    pub decoder: Decoder<B>,
}

/// Encoder, decoder and dimensions.
struct EncoderDecoderModel<B: Backend> {
    info: ModelInfo,
    parts: EncoderDecoder<B>,
    /// What the encoder's layers keep: one store is enough; the decoder's first one is free until they are done.
    encoder_keeps: Vec<Keeps>,
}

/// The result of an architecture's `bind`, as a model.
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
