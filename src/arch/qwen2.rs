//! Qwen2 and Qwen2.5 (Yang et al. 2024): llama's graph with rotary positions on halves and biases on queries, keys and
//! values.
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
        Ok((mixer, file.gated_mlp(i, &info, Activation::Silu)?))
    })?;
    Ok((info, decoder))
}

/// Binds the weights of the language model of Qwen2-VL and Qwen2.5-VL: in a text all sections of the rotary positions are equal.
pub fn bind_vl<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    rope::sections(file)?;
    bind(file)
}
