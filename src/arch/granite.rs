//! Granite 3 and 4 (IBM 2024 and 2025): llama's graph with factors on the embedding, on the blocks' outputs, on attention scores
//! and on the logits. Some of its models have experts, perhaps beside one that every token takes, and Mamba-2 mixers in most
//! layers.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, mamba2, rope};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::head::Head;
use crate::nn::mamba2::MambaShape;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Dense, Mlp};

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    bind_with(file, info, None, None)
}

/// Binds the weights of a model with experts.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Plain, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    bind_with(file, info, Some(&style), None)
}

/// Binds the weights of a model with Mamba-2 mixers in layers without key/value heads, and perhaps with experts.
pub fn bind_hybrid<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Plain, ..MoeStyle::PLAIN };
    let n_head_kv = file.layer_counts("attention.head_count_kv")?;
    let info = file.info_of(Some(file.one_head_count(&n_head_kv)?))?;
    let info = file.with_experts(info, &style)?;
    // Files without experts have it too.
    file.count("expert_shared_feed_forward_length")?;
    let shape = mamba2::shape(file)?;
    let experts = info.experts.is_some().then_some(&style);
    bind_with(file, info, experts, Some((&n_head_kv, shape)))
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    info: ModelInfo,
    experts: Option<&MoeStyle>,
    recurrent: Option<(&[u32], MambaShape)>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    // In files of this architecture the key says whether there are rotary positions at all.
    let rope = match file.flag("rope.scaling.finetuned")? {
        Some(false) => None,
        _ => Some(rope::params(file, info.head_dim, RopeStyle::Interleaved)?),
    };
    let has_images = file.has_key("deepstack_mapping");
    file.refuse("deepstack_mapping", has_images, "layers that take in images")?;
    let plain = parts::causal(&info, rope);
    let scale = file.optional_positive("attention.scale")?.unwrap_or(plain.scale);
    let attention = AttentionParams { scale, ..plain };
    let has_logit_scale = file.has_key("logit_scale");
    let factors = match recurrent {
        None if !has_logit_scale => {
            return Err(Error::Format(format!("the required key {} is missing", file.called("logit_scale"))));
        }
        _ => Factors { embd: None, residual: None, logits: 1.0 },
    };
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: match recurrent {
                Some((n_head_kv, shape)) if n_head_kv[i] == 0 => {
                    Mixer::Mamba2(mamba2::mixer(file, i, n_embd, shape, eps)?)
                }
                _ => Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: match experts {
                Some(style) => file.moe(i, &info, style)?,
                // In a folder the expert of all tokens may be the only one.
                None if file.has(&name("ffn_up_shexp.weight")) => {
                    let sizes = (info.n_ff, n_embd);
                    Mlp::Dense(Dense::Gated(file.gated(i, "_shexp", sizes, Activation::Silu)?))
                }
                None => file.gated_mlp(i, &info, Activation::Silu)?,
            },
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let plain = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, scaled(file, plain, factors)?))
}

/// Factors where the file does not say.
pub struct Factors {
    /// Factor on the embedding.
    pub embd: Option<f32>,
    /// Factor on the blocks' outputs.
    pub residual: Option<f32>,
    /// The divisor of logits.
    pub logits: f32,
}

/// The decoder with the factors of the file.
pub fn scaled<B: Backend>(file: &Binder<'_, B>, plain: Decoder<B>, default: Factors) -> Result<Decoder<B>> {
    let logits = file.optional_positive("logit_scale")?.unwrap_or(default.logits);
    Ok(Decoder {
        embd_scale: file.optional_positive("embedding_scale")?.or(default.embd),
        residual_scale: file.optional_positive("residual_scale")?.or(default.residual),
        head: Head { scale: Some(1.0 / logits), ..plain.head },
        ..plain
    })
}
