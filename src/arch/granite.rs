//! Granite 3 (IBM 2024): llama's graph with factors on the embedding, on what blocks add, on attention scores and on the
//! logits.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::head::Head;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
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
    let logit_scale = file.positive("logit_scale")?;
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: None,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let plain = file.decoder(&info, vec![attention], layers, norm)?;
    let decoder = Decoder {
        embd_scale: file.optional_positive("embedding_scale")?,
        residual_scale: file.optional_positive("residual_scale")?,
        head: Head { scale: Some(1.0 / logit_scale), ..plain.head },
        ..plain
    };
    Ok((info, decoder))
}
