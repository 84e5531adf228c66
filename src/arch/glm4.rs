//! GLM-4 0414 and GLM-Z1 (Zhipu AI 2025): norms before and after attention and feed-forward, rotary positions on part of each head.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    rope::sections(file)?;
    // Files of multimodal models have the two of a pair apart.
    let sections = file.has_key("rope.dimension_sections");
    let style = if sections { RopeStyle::Halved } else { RopeStyle::Interleaved };
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, style)?;
    let attention = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
