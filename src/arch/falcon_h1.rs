//! Falcon-H1 (TII 2025): a Mamba-2 mixer and attention side by side in each layer, then feed-forward. Its factors are in the
//! weights.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, mamba2, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Mlp};
use crate::nn::norm::{NormKind, NormLayer};

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let (n_embd, shape) = (info.n_embd, mamba2::shape(file)?);
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let plain = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Shared,
            ffn: Mlp::None,
            post_ffn_norm: None,
            extra: None,
            beside: true,
        });
        let has_norm = file.has(&name("ssm_norm.weight"));
        // Converters write this name without a suffix.
        let bare = name("ffn_norm");
        let ffn_norm = if file.has(&bare) { bare } else { name("ffn_norm.weight") };
        let weight = file.vector(&ffn_norm, n_embd)?;
        layers.push(DecoderLayer {
            attn_norm: None,
            mixer: Mixer::Mamba2(mamba2::mixer_with(file, i, n_embd, shape, eps, has_norm)?),
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(NormLayer { kind: NormKind::Rms, weight, bias: None, eps }),
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![plain], layers, norm)?;
    Ok((info, decoder))
}
