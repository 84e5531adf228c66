//! Nomic's BERT (Nussbaum et al. 2024): rotary positions on the halves of a head, SwiGLU, no biases except those of the norms.
//! And its model with experts (Nussbaum & Duderstadt 2025): biases, and feed-forward without gates, which in every second layer
//! is experts.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::MoeStyle;
use super::{ExpertInfo, ModelInfo, encoder, rope};
use crate::backend::{Backend, Pointwise};
use crate::error::Result;
use crate::kernels::{GeluForm, RopeStyle};
use crate::nn::encoder::Encoder;
use crate::nn::mlp::{Activation, Mlp};

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let info = encoder::info(file)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let encoder =
        encoder::bind(file, &info, Some(rope), |file, i| file.gated_mlp(i, &info, Activation::Silu))?;
    Ok((info, encoder))
}

/// Experts without gates, whose shares are a softmax.
const STYLE: MoeStyle =
    MoeStyle { normalize: false, ungated: Some(Pointwise::Gelu(GeluForm::Erf)), ..MoeStyle::PLAIN };

/// Binds the weights of the model with experts.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let period = file.count("moe_every_n_layers")? as usize;
    let info = file.with_experts(encoder::info(file)?, &STYLE)?;
    // The first layer has no experts.
    let experts = info.experts.map(|experts| ExpertInfo { n_dense: 1, ..experts });
    let info = ModelInfo { experts, ..info };
    let scale = file.optional_positive("expert_weights_scale")?.unwrap_or(1.0);
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let mut encoder = encoder::bind(file, &info, Some(rope), |file, i| {
        if period == 0 || i % period != 1 {
            return file.gelu_mlp(i, &info, GeluForm::Erf);
        }
        let mut moe = file.experts_of(i, &info, &STYLE)?;
        moe.scale = scale;
        Ok(Mlp::Moe(Box::new(moe)))
    })?;
    // The bias of all experts together; files of llama.cpp's converter do not have it.
    for (i, layer) in encoder.layers.iter_mut().enumerate() {
        layer.ffn_bias = file.bias(&format!("blk.{i}.ffn_exps_out"), 0..info.n_embd, info.n_embd)?;
    }
    Ok((info, encoder))
}
