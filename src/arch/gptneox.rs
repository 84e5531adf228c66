//! GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward side by side with a layer norm each, or one after
//! the other; rotary positions on part of each head; biases; GELU in its exact form.
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
    let parallel = file.flag("use_parallel_residual")?.unwrap_or(true);
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let ffn_norm = file.layer_norm(&name("ffn_norm"), n_embd, eps)?;
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: match parallel {
                true => FfnInput::ParallelNorm(ffn_norm),
                false => FfnInput::Norm(ffn_norm),
            },
            ffn: file.gelu_mlp(i, &info, GeluForm::Erf)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
