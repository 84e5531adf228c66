//! gpt-oss (OpenAI 2025): a mixture of experts with biases and clamped gates; every other layer sees a window, and each head's
//! softmax has a sink.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope};
use crate::backend::{Backend, WeightRole};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers after which the pattern of windows repeats, where the file does not say.
const PERIOD: usize = 2;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { activation: Activation::SwigluClamped, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params_untruncated(file, info.head_dim, RopeStyle::Halved)?;
    let has_own_base = file.has_key("rope.freq_base_swa");
    file.refuse("rope.freq_base_swa", has_own_base, "other rotary positions in layers with a window")?;
    let whole = parts::causal(&info, Some(rope));
    let windowed = file.windowed(info.n_layer, PERIOD)?;
    let attention = vec![whole.clone(), AttentionParams { window: file.window()?, ..whole }];
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut block = file.attention(i, &info)?;
        let sinks = name("attn_sinks.weight");
        block.sinks = Some(file.bind(&sinks, &[info.n_head], 0..info.n_head, WeightRole::Vector)?);
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: usize::from(windowed), block },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn: file.moe(i, &info, &style)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, attention, layers, norm)?;
    Ok((info, decoder))
}
