//! Llama (Touvron et al. 2023; Llama 3: Grattafiori et al. 2024) and the many models with its graph, among them Mistral with its
//! sliding window and Mixtral with its experts (Jiang et al. 2023, 2024): RMS norm, rotary positions on adjacent pairs, grouped
//! key/value heads, SwiGLU, optional biases.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope};
use crate::backend::{Backend, Growth};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    bind_with(file, None)
}

/// Binds the weights of Mistral 3 and Ministral 3, whose scores may grow with the position: by the key
/// `attention.temperature_scale`, in steps of the context that the model was first trained on.
pub fn bind_mistral3<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    const FACTOR: &str = "attention.temperature_scale";
    let growth = match file.optional_number(FACTOR)? {
        None | Some(0.0) => None,
        Some(factor) if factor.is_finite() => {
            Some(Growth { len: rope::original_n_ctx(file)?, factor, ahead: 0 })
        }
        Some(factor) => {
            let key = file.called(FACTOR);
            return Err(Error::Format(format!("the key {key} is {factor}, expected a finite number")));
        }
    };
    bind_with(file, growth)
}

/// Binds the weights of Baichuan and Baichuan 2 7B; the 13B models have no rotary positions, but scores that
/// fall with the distance.
pub fn bind_baichuan<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    const LARGE: usize = 40;
    let (info, mut decoder) = bind_with(file, None)?;
    if info.n_layer == LARGE {
        decoder.attention.iter_mut().for_each(|params| params.rope = None);
        for layer in &mut decoder.layers {
            if let Mixer::Attention { block, .. } = &mut layer.mixer {
                block.bias = Some(file.slopes(info.n_head, parts::MAX_SLOPE)?);
            }
        }
    }
    Ok((info, decoder))
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    growth: Option<Growth>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle::PLAIN;
    let info = file.info_with_experts(&style)?;
    file.refuse(
        "attention.causal",
        file.flag("attention.causal")? == Some(false),
        "attention masks that are not causal",
    )?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = AttentionParams { growth, window: file.window()?, ..parts::causal(&info, Some(rope)) };
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: match info.experts {
                Some(_) => file.moe(i, &info, &style)?,
                None => file.gated_mlp(i, &info, Activation::Silu)?,
            },
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
