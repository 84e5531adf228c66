//! Falcon (Almazrouei et al. 2023): attention and feed-forward side by side, on one layer norm or, in the larger models, on one
//! each; rotary positions on halves, GELU in its exact form.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::{GeluForm, RopeStyle};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let norm = file.layer_norm(&name("attn_norm"), n_embd, eps)?;
        // With two norms the first belongs to feed-forward.
        let (attn_norm, ffn_input) = match file.has(&name("attn_norm_2.weight")) {
            true => (file.layer_norm(&name("attn_norm_2"), n_embd, eps)?, FfnInput::ParallelNorm(norm)),
            false => (norm, FfnInput::Shared),
        };
        layers.push(DecoderLayer {
            attn_norm: Some(attn_norm),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input,
            ffn: file.gelu_mlp(i, &info, GeluForm::Erf)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
