//! EXAONE 4 (LG AI Research 2025): norms after attention and feed-forward and of every query and key head. The 32B model has
//! windows in three of four layers, and no positions in the fourth.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers of a period, of which the last sees everything, where the file does not say.
const PERIOD: usize = 4;
/// Layers of the 32B model, and its window where the file does not say.
const LARGE: (usize, usize) = (64, 4096);

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let rotated = parts::causal(&info, Some(rope));
    let window = file.window()?.or((info.n_layer == LARGE.0).then_some(LARGE.1));
    let (attention, windowed) = match window {
        Some(_) => {
            let whole = AttentionParams { rope: None, ..rotated.clone() };
            (vec![whole, AttentionParams { window, ..rotated }], file.windowed(info.n_layer, PERIOD)?)
        }
        None => (vec![rotated], vec![false; info.n_layer]),
    };
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut block = file.attention(i, &info)?;
        block.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
        layers.push(DecoderLayer {
            attn_norm: None,
            mixer: Mixer::Attention { kind: usize::from(windowed), block },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Residual,
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, attention, layers, norm)?;
    Ok((info, decoder))
}
