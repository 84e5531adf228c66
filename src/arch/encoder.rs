//! [`Encoder`] as a [`Model`], and what the files of encoders have in common.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{Model, ModelInfo, parts};
use crate::backend::{Backend, HeadDims, KvHeads};
use crate::error::{Error, Result};
use crate::nn::attention::{AttentionParams, RopeParams};
use crate::nn::encoder::{ENCODER_KV, Encoder, EncoderLayer};
use crate::nn::head::Output;
use crate::nn::mlp::Mlp;
use crate::nn::workspace::Workspace;
use crate::nn::{Batch, Cache, Keeps, Shift};

/// An encoder and its dimensions.
struct EncoderModel<B: Backend> {
    info: ModelInfo,
    encoder: Encoder<B>,
}

/// What an architecture's `bind` returns, as a model.
pub fn boxed<B: Backend>((info, encoder): (ModelInfo, Encoder<B>)) -> Box<dyn Model<B>> {
    Box::new(EncoderModel { info, encoder })
}

impl<B: Backend> Model<B> for EncoderModel<B> {
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
        let outcome = match out {
            Output::Hidden(out) => self.encoder.forward(backend, ws, cache, batch, out),
            Output::Logits(_) | Output::Best(_) | Output::Each { .. } => {
                Err(Error::Unsupported(self.info.no_logits()))
            }
        };
        backend.finish().and(outcome)
    }

    fn shift(&self, _: &mut B, _: &mut Cache<B>, _: &Shift<'_>) -> Result<()> {
        Err(Error::Unsupported(self.info.no_logits()))
    }
}

/// The dimensions of an encoder, whose file must not ask for a causal mask.
pub fn info<B: Backend>(file: &Binder<'_, B>) -> Result<ModelInfo> {
    let causal = file.flag("attention.causal")? == Some(true);
    file.refuse("attention.causal", causal, "causal masks in this architecture")?;
    // A layer's keys and values are of no use behind the layer: one store is enough.
    let info = file.info()?;
    let keeps =
        vec![Keeps::Kv(KvHeads { n: info.n_head_kv, dims: HeadDims::all(info.head_dim) }, ENCODER_KV)];
    Ok(ModelInfo { causal: false, has_logits: false, keeps, ..info })
}

/// Binds the embeddings, their norm, and the layers, whose feed-forward blocks are bound by `ffn`.
pub fn bind<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    rope: Option<RopeParams>,
    ffn: impl Fn(&mut Binder<'_, B>, usize) -> Result<Mlp<B>>,
) -> Result<Encoder<B>> {
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let n_embd = info.n_embd;
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        layers.push(EncoderLayer {
            attn: file.attention(i, info)?,
            attn_norm: file.layer_norm(&format!("blk.{i}.attn_output_norm"), n_embd, eps)?,
            ffn: ffn(file, i)?,
            ffn_norm: file.layer_norm(&format!("blk.{i}.layer_output_norm"), n_embd, eps)?,
        });
    }
    Ok(Encoder {
        token_embd: file.matrix("token_embd.weight", info.n_vocab, n_embd)?,
        position_embd: match info.n_ctx_max {
            Some(n) => Some(file.matrix("position_embd.weight", n, n_embd)?),
            None => None,
        },
        token_type: file.token_type(n_embd)?,
        token_types: file.token_types(n_embd)?,
        embd_norm: file.layer_norm("token_embd_norm", n_embd, eps)?,
        attention: AttentionParams { causal: false, ..parts::causal(info, rope) },
        layers,
    })
}
