//! MiniCPM3 (OpenBMB 2024): latent attention as of DeepSeek V2, whose rotated pairs are halves, and MiniCPM's factors.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::granite;
use super::{ModelInfo, deepseek2, minicpm, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let shape = deepseek2::shape(file)?;
    let info = file.info_with(Some(1), file.dim("feed_forward_length")?)?;
    file.optional_dim("attention.head_count_kv")?;
    let attention = deepseek2::attention(file, &info, shape, RopeStyle::Halved)?;
    let plain = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Latent { kind: 0, block: deepseek2::latent(file, i, info.n_embd, shape)? };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Silu)?))
    })?;
    let decoder = granite::scaled(file, plain, minicpm::factors(&info))?;
    Ok((info, decoder))
}
