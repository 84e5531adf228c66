//! Phi-3.5-MoE (Abdin et al. 2024): Phi-3's attention with layer norms and biases, and two experts for each token, chosen one
//! after the other.
//!
//! llama.cpp normalises by the root mean square alone. The model's authors, like `transformers`, subtract the mean first.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::MoeStyle;
use super::{ModelInfo, parts, rope};
use crate::backend::{Backend, Gating};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Mlp;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info_with_experts(&MoeStyle::PLAIN)?;
    if let Some(experts) = info.experts
        && (experts.n_used != 2 || experts.n_expert < 2)
    {
        return Err(Error::Unsupported(format!(
            "{} is {}, which is not supported; a router of this architecture chooses 2 of several experts",
            file.called("expert_used_count"),
            experts.n_used
        )));
    }
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = AttentionParams { window: file.window()?, ..parts::causal(&info, Some(rope)) };
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut moe = file.experts_of(i, &info, &MoeStyle::PLAIN)?;
        (moe.gating, moe.normalize) = (Gating::SparseMixer, None);
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.layer_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: Mlp::Moe(Box::new(moe)),
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
