//! The graphs of encoders as a [`Model`], and their common keys and tensors.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{Model, ModelInfo, parts};
use crate::backend::{Backend, HeadDims, KvHeads};
use crate::error::{Error, Result};
use crate::nn::attention::{AttentionParams, RopeParams};
use crate::nn::decoder::Decoder;
use crate::nn::encoder::{ENCODER_KV, Encoder, EncoderLayer};
use crate::nn::head::Output;
use crate::nn::mlp::Mlp;
use crate::nn::workspace::Workspace;
use crate::nn::{Batch, Cache, Keeps, Shift};

/// An encoder and its dimensions.
struct EncoderModel<B: Backend> {
    info: ModelInfo,
    graph: Graph<B>,
}

/// The two graphs of encoders.
enum Graph<B: Backend> {
    /// Norms come after the sums.
    After(Encoder<B>),
    /// Norms come before the blocks, as in a decoder; and what its layers keep.
    Before(Decoder<B>, Vec<Keeps>),
}

/// The result of an architecture's `bind`, as a model.
pub fn boxed<B: Backend>((info, encoder): (ModelInfo, Encoder<B>)) -> Box<dyn Model<B>> {
    Box::new(EncoderModel { info, graph: Graph::After(encoder) })
}

/// The same of architectures whose norms come before the blocks.
pub fn boxed_before<B: Backend>((info, decoder): (ModelInfo, Decoder<B>)) -> Box<dyn Model<B>> {
    let keeps = info.keeps.iter().cycle().take(info.n_layer).copied().collect();
    Box::new(EncoderModel { info, graph: Graph::Before(decoder, keeps) })
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
        let outcome = match (out, &self.graph) {
            (Output::Hidden(out), Graph::After(encoder)) => encoder.forward(backend, ws, cache, batch, out),
            (out @ Output::Hidden(_), Graph::Before(decoder, keeps)) => {
                decoder.forward(keeps, backend, ws, cache, batch, out)
            }
            (Output::Logits(_) | Output::Best(_) | Output::Each { .. }, _) => {
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
    // A layer's keys and values are not needed after it: one store is enough.
    let info = file.info()?;
    let keeps =
        vec![Keeps::Kv(KvHeads { n: info.n_head_kv, dims: HeadDims::all(info.head_dim) }, ENCODER_KV)];
    Ok(ModelInfo { causal: false, has_logits: false, keeps, ..info })
}

/// Attention that sees the whole text.
pub fn attention(info: &ModelInfo, rope: Option<RopeParams>) -> AttentionParams {
    AttentionParams { causal: false, ..parts::causal(info, rope) }
}

/// The window of layers that see `attention.sliding_window` positions around their own; 0 and absent mean none.
pub fn window<B: Backend>(file: &Binder<'_, B>) -> Result<Option<usize>> {
    Ok(file.window()?.map(|width| width / 2 + 1))
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
            second_norm: None,
            ffn: ffn(file, i)?,
            ffn_bias: None,
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
        attention: attention(info, rope),
        layers,
    })
}
