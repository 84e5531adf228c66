//! ERNIE 4.5 (Baidu 2025): llama's graph. Its larger models have experts beside some that every token takes, in layers at regular
//! intervals after the first; a bias shifts their choice.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::{Backend, Gating};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Added to the sum of shares.
const EPSILON: f32 = 1e-12;

/// Binds the weights of a model without experts.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    rope::sections(file)?;
    let info = file.info()?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Silu)?))
    })?;
    Ok((info, decoder))
}

/// Binds the weights of one with experts.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle {
        shared: Shared::Plain,
        sigmoid: Some(EPSILON),
        gating: Gating::Softmax,
        ..MoeStyle::PLAIN
    };
    let mut info = file.info_with_experts(&style)?;
    file.count("expert_shared_count")?;
    let step = file.optional_dim("interleave_moe_layer_step")?.unwrap_or(1);
    let n_dense = (file.count("leading_dense_block_count")? as usize).min(info.n_layer);
    let has_experts = |i: usize| i >= n_dense && (i + 1).is_multiple_of(step);
    if let Some(experts) = &mut info.experts {
        // Layers without experts need buffers too, wherever they are.
        experts.n_dense = (0..info.n_layer).filter(|&i| !has_experts(i)).count();
    }
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        let ffn = match has_experts(i) {
            true => file.moe(i, &info, &style)?,
            false => file.gated_mlp(i, &info, Activation::Silu)?,
        };
        Ok((mixer, ffn))
    })?;
    Ok((info, decoder))
}
