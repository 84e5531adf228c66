//! Hunyuan (Tencent 2025): norms of every query and key head after the rotation; in A13B experts beside one that every token takes.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::QkNorm;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights of a model without experts.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    bind_with(file, info, None)
}

/// Binds the weights of one with experts.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Plain, ..MoeStyle::PLAIN };
    let mut info = file.info_with_experts(&style)?;
    file.count("expert_shared_count")?;
    if let Some(experts) = &mut info.experts
        && experts.n_ff_shared == 0
    {
        experts.n_ff_shared = info.n_ff;
    }
    bind_with(file, info, Some(&style))
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    mut info: ModelInfo,
    experts: Option<&MoeStyle>,
) -> Result<(ModelInfo, Decoder<B>)> {
    info.norms_rotated_keys = true;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        let norms = file.qk_head_norm(i, &info, eps)?;
        block.qk_norm = Some(QkNorm { after_rope: true, ..norms });
        let ffn = match experts {
            Some(style) => file.moe(i, &info, style)?,
            None => file.gated_mlp(i, &info, Activation::Silu)?,
        };
        Ok((Mixer::Attention { kind: 0, block }, ffn))
    })?;
    Ok((info, decoder))
}
