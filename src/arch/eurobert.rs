//! EuroBERT (Boizard et al. 2025): llama's graph as an encoder.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = encoder::info(file)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = encoder::attention(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Silu)?))
    })?;
    Ok((info, decoder))
}
