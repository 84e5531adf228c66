//! OLMoE (Muennighoff et al. 2024): experts whose shares are not divided by their sum; RMS norms over all queries and all keys of
//! a token.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::QkNorm;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { normalize: false, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    file.refuse(
        "attention.clamp_kqv",
        file.optional_number("attention.clamp_kqv")?.is_some_and(|most| most != 0.0),
        "clamped queries, keys and values",
    )?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        block.qk_norm = Some(QkNorm {
            q: file.rms_norm(&format!("blk.{i}.attn_q_norm"), info.n_head * info.head_dim, eps)?,
            k: Some(file.rms_norm(&format!("blk.{i}.attn_k_norm"), info.n_head_kv * info.head_dim, eps)?),
            per_head: false,
            after_rope: false,
        });
        Ok((Mixer::Attention { kind: 0, block }, file.moe(i, &info, &style)?))
    })?;
    Ok((info, decoder))
}
