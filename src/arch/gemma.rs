//! Gemma (Gemma Team 2024): llama's graph with rotary positions on halves, GELU gates, and an embedding scaled by √n_embd that is
//! also the output projection. Norm gains are stored with their 1 added.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Gelu)?))
    })?;
    let decoder = Decoder { embd_scale: Some((info.n_embd as f32).sqrt()), ..decoder };
    Ok((info, decoder))
}
