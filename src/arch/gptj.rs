//! GPT-J (Wang and Komatsuzaki 2021): attention and feed-forward side by side on one layer norm, rotary positions on adjacent
//! pairs of part of each head, biases of feed-forward and of the output, GELU in its tanh form.
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
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = parts::causal(&info, Some(rope));
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&format!("blk.{i}.attn_norm"), info.n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Shared,
            ffn: file.gelu_mlp(i, &info, GeluForm::Tanh)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
