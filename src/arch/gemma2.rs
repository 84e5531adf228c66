//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with norms after the blocks too, caps on attention scores and
//! logits, and a sliding window in every other layer.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::head::Head;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// The window where the file does not say.
const DEFAULT_WINDOW: usize = 4096;
/// The caps on scores and on logits where the file does not say, as early files do not.
const DEFAULT_SCORE_CAP: f32 = 50.0;
const DEFAULT_LOGIT_CAP: f32 = 30.0;
/// Layers of the 27B model, which scales scores by the width of a head's share of the embedding.
const N_LAYER_27B: usize = 46;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let local_base = file.optional_positive("rope.freq_base_swa")?;
    let has_own = local_base.is_some() && local_base != file.optional_positive("rope.freq_base")?;
    file.refuse("rope.freq_base_swa", has_own, "layers with a window and a rotary base of their own")?;
    let scale = match file.optional_positive("attention.scale")? {
        None if info.n_layer == N_LAYER_27B => 1.0 / ((n_embd / info.n_head) as f32).sqrt(),
        None => 1.0 / (info.head_dim as f32).sqrt(),
        Some(scale) => scale,
    };
    let global = AttentionParams {
        scale,
        softcap: file.softcap("attn_logit_softcapping", Some(DEFAULT_SCORE_CAP))?,
        ..parts::causal(&info, Some(rope))
    };
    let window = match file.has_key("attention.sliding_window") {
        true => file.window()?,
        false => Some(DEFAULT_WINDOW),
    };
    let local = AttentionParams { window, ..global.clone() };
    let windowed = file.windowed(info.n_layer, 2)?;
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: usize::from(windowed), block: file.attention(i, &info)? },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, Activation::Gelu)?,
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: None,
            beside: false,
        });
    }
    let softcap = file.softcap("final_logit_softcapping", Some(DEFAULT_LOGIT_CAP))?;
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let plain = file.decoder(&info, vec![global, local], layers, norm)?;
    let decoder =
        Decoder { embd_scale: Some((n_embd as f32).sqrt()), head: Head { softcap, ..plain.head }, ..plain };
    Ok((info, decoder))
}
