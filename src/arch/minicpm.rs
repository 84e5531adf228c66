//! MiniCPM 1 and 2 (Hu et al. 2024): llama's graph with factors on the embedding, on the blocks' outputs and on the logits.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::granite::{self, Factors};
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Width of the model whose logits are not divided.
pub const BASE_WIDTH: f32 = 256.0;

/// The default factors.
pub fn factors(info: &ModelInfo) -> Factors {
    Factors {
        embd: Some(12.0),
        residual: Some(1.4 / (info.n_layer as f32).sqrt()),
        logits: info.n_embd as f32 / BASE_WIDTH,
    }
}

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Plain, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = parts::causal(&info, Some(rope));
    let plain = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        let ffn = match info.experts {
            Some(_) => file.moe(i, &info, &style)?,
            None => file.gated_mlp(i, &info, Activation::Silu)?,
        };
        Ok((mixer, ffn))
    })?;
    let decoder = granite::scaled(file, plain, factors(&info))?;
    Ok((info, decoder))
}
