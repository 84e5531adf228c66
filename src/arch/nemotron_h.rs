//! Nemotron-H and Nemotron 3 (NVIDIA 2025): layers of one block each: a Mamba-2 mixer, attention without positions, or
//! feed-forward with squared ReLUs; some models have experts.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, mamba2};
use crate::backend::{Backend, Pointwise};
use crate::error::{Error, Result};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Dense, Mlp};

/// Added to the sum of shares.
const EPSILON: f32 = 1e-20;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    // Layers without key/value heads and without a width are recurrent.
    let n_head_kv = file.layer_counts("attention.head_count_kv")?;
    let n_ff = file.layer_counts("feed_forward_length")?;
    let mut widths = n_ff.iter().filter(|&&n| n > 0);
    let width = widths.next().copied().unwrap_or(0) as usize;
    if widths.any(|&n| n as usize != width) {
        return Err(Error::Unsupported(format!(
            "layers with different numbers in {} are not supported",
            file.called("feed_forward_length")
        )));
    }
    let info = file.info_with(Some(file.one_head_count(&n_head_kv)?), width)?;
    let n_latent = file.count("moe_latent_size")? as usize;
    file.refuse(
        "moe_latent_size",
        n_latent > info.n_embd,
        "experts that work on more than the width of the model",
    )?;
    let style = MoeStyle {
        shared: Shared::Plain,
        divided: true,
        sigmoid: Some(EPSILON),
        ungated: Some(Pointwise::ReluSquared),
        n_latent,
        ..MoeStyle::PLAIN
    };
    let info = file.with_experts(info, &style)?;
    file.count("expert_shared_count")?;
    let eps = match file.optional_positive("attention.layer_norm_rms_epsilon")? {
        Some(eps) => eps,
        None => file.positive("attention.layer_norm_epsilon")?,
    };
    let (n_embd, shape) = (info.n_embd, mamba2::shape(file)?);
    let mut layers = Vec::new();
    for (i, (&n_head_kv, &n_ff)) in n_head_kv.iter().zip(&n_ff).enumerate().take(info.n_layer) {
        let mixer = match (n_head_kv, n_ff) {
            (0, 0) => Mixer::Mamba2(mamba2::mixer(file, i, n_embd, shape, eps)?),
            (_, 0) => Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            _ => Mixer::None,
        };
        let ffn = match (n_ff, info.experts) {
            (0, _) => Mlp::None,
            (_, Some(_)) => file.moe(i, &info, &style)?,
            (_, None) => {
                Mlp::Dense(Dense::Plain(file.plain(i, "", (width, n_embd), Pointwise::ReluSquared)?))
            }
        };
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&format!("blk.{i}.attn_norm"), n_embd, eps)?),
            mixer,
            post_attn_norm: None,
            ffn_input: FfnInput::Shared,
            ffn,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![parts::causal(&info, None)], layers, norm)?;
    Ok((info, decoder))
}
