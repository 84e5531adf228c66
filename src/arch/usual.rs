//! Decoders in the usual order: an RMS norm, attention, an RMS norm, feed-forward.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::MoeStyle;
use super::{ModelInfo, deepseek2};
use crate::backend::{Backend, Gating};
use crate::error::{Error, Result};
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Mlp};

/// A decoder of such layers: `attention` are their kinds, `ffn_norm` is the name of the second norm, and `parts` binds the rest
/// of a layer.
pub fn decoder<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    attention: Vec<AttentionParams>,
    ffn_norm: &str,
    mut parts: impl FnMut(&mut Binder<'_, B>, usize) -> Result<(Mixer<B>, Mlp<B>)>,
) -> Result<Decoder<B>> {
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let attn_norm = file.rms_norm(&format!("blk.{i}.attn_norm"), n_embd, eps)?;
        let ffn_norm = file.rms_norm(&format!("blk.{i}.{ffn_norm}"), n_embd, eps)?;
        let (mixer, ffn) = parts(file, i)?;
        layers.push(DecoderLayer {
            attn_norm: Some(attn_norm),
            mixer,
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(ffn_norm),
            ffn,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    file.decoder(info, attention, layers, norm)
}

/// The feed-forward block of layer `i`: experts, except in the first layers, see [`with_dense`].
pub fn mixture<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    info: &ModelInfo,
    style: &MoeStyle,
) -> Result<Mlp<B>> {
    match info.experts {
        Some(experts) if i >= experts.n_dense => file.moe(i, info, style),
        _ => file.gated_mlp(i, info, Activation::Silu),
    }
}

/// `info` with the numbers of experts: the first `leading_dense_block_count` layers have none, and as many experts as
/// `expert_shared_count` says take all tokens, with their width; `style` with the groups of experts.
pub fn with_dense<B: Backend>(
    file: &Binder<'_, B>,
    info: ModelInfo,
    style: &mut MoeStyle,
) -> Result<ModelInfo> {
    let mut info = file.with_experts(info, style)?;
    let n_shared = file.count("expert_shared_count")? as usize;
    let n_dense = file.count("leading_dense_block_count")? as usize;
    let two = match file.count("expert_gating_func")? {
        0 => style.gating == Gating::Sigmoid,
        n => n == 2,
    };
    if let Some(experts) = &mut info.experts {
        experts.n_dense = n_dense.min(info.n_layer);
        let width = if experts.n_ff_shared > 0 { experts.n_ff_shared } else { experts.n_ff };
        experts.n_ff_shared = n_shared.checked_mul(width).filter(|&n| n <= 1 << 24).ok_or_else(|| {
            let called = file.called("expert_shared_count");
            Error::Format(format!("{called} is {n_shared}, too many experts of width {width}"))
        })?;
        style.groups = deepseek2::groups(file, experts.n_expert, experts.n_used, two)?;
    }
    Ok(info)
}
