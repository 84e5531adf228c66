//! Gemma (Gemma Team 2024): llama's graph with rotary positions on halves, GELU gates, and an embedding scaled by √n_embd that is
//! also the output projection. Norm gains are stored with their 1 added.
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
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, Activation::Gelu)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let decoder = Decoder {
        embd_scale: Some((n_embd as f32).sqrt()),
        ..file.decoder(&info, vec![attention], layers, norm)?
    };
    Ok((info, decoder))
}
