//! GLM-4.5 to 4.7 (Zhipu AI 2025), dots.llm1 (rednote 2025) and Ling 2 (inclusionAI 2025): experts beside some that every token
//! takes, except in the first layers, with a sigmoid router and a bias that shifts its choice. Most have norms of every query and
//! key head.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;

/// Added to the sum of shares.
const EPSILON: f32 = 1e-20;

/// Binds the weights of GLM-4.5 to 4.7.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    rope::sections(file)?;
    bind_with(file, "post_attention_norm")
}

/// Binds the weights of dots.llm1 and Ling 2.
pub fn bind_usual<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    bind_with(file, "ffn_norm")
}

fn bind_with<B: Backend>(file: &mut Binder<'_, B>, ffn_norm: &str) -> Result<(ModelInfo, Decoder<B>)> {
    let mut style =
        MoeStyle { normalize: false, shared: Shared::Plain, sigmoid: Some(EPSILON), ..MoeStyle::PLAIN };
    let info = usual::with_dense(file, file.info()?, &mut style)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], ffn_norm, |file, i| {
        let mut block = file.attention(i, &info)?;
        if file.has(&format!("blk.{i}.attn_q_norm.weight")) {
            block.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
        }
        Ok((Mixer::Attention { kind: 0, block }, usual::mixture(file, i, &info, &style)?))
    })?;
    Ok((info, decoder))
}
