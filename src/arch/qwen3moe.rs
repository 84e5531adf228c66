//! Qwen3-MoE (Yang et al. 2025): Qwen3 with experts whose shares are normalised.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { divided: true, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut attn = file.attention(i, &info)?;
        attn.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: attn },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.moe(i, &info, &style)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}

/// Binds the weights of the language model of Qwen3-VL with experts, as [`bind_vl`](super::qwen3::bind_vl).
pub fn bind_vl<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    rope::sections(file)?;
    file.count("n_deepstack_layers")?;
    bind(file)
}
