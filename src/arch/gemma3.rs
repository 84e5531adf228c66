//! Gemma 3 (Gemma Team 2025, arXiv:2503.19786), text models: Gemma 2 without caps, with norms of every query and key
//! head; five layers with a sliding window and a rotary base of their own to each that sees everything.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::head::Head;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Rotary bases of layers that see everything and of those with a window where the file does not say.
const FREQ_BASE: f32 = 1_000_000.0;
const LOCAL_FREQ_BASE: f32 = 10_000.0;
/// Layers of the 27B model, which scales scores by the width of a head's share of the embedding.
const N_LAYER_27B: usize = 62;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let window = file.window()?;
    bind_with(file, info, window)
}

/// Binds the weights of EmbeddingGemma (Schechter Vera et al. 2025), in which every token sees the whole text, or a window around it.
pub fn bind_embedding<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = encoder::info(file)?;
    let window = encoder::window(file)?;
    bind_with(file, info, window)
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    info: ModelInfo,
    window: Option<usize>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params_from(file, info.head_dim, RopeStyle::Halved, FREQ_BASE)?;
    let local_rope = rope::local_params(file, info.head_dim, RopeStyle::Halved, LOCAL_FREQ_BASE)?;
    let scale = match file.optional_positive("attention.scale")? {
        None if info.n_layer == N_LAYER_27B => 1.0 / ((n_embd / info.n_head) as f32).sqrt(),
        None => 1.0 / (info.head_dim as f32).sqrt(),
        Some(scale) => scale,
    };
    let global = AttentionParams { scale, causal: info.causal, ..parts::causal(&info, Some(rope)) };
    let local = AttentionParams { window, rope: Some(local_rope), ..global.clone() };
    let windowed = match window {
        Some(_) => file.windowed(info.n_layer, 6)?,
        None => vec![false; info.n_layer],
    };
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut attn = file.attention(i, &info)?;
        attn.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: usize::from(windowed), block: attn },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, Activation::Gelu)?,
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let plain = file.decoder(&info, vec![global, local], layers, norm)?;
    let decoder = Decoder {
        embd_scale: Some((n_embd as f32).sqrt()),
        head: Head { softcap: file.softcap("final_logit_softcapping", None)?, ..plain.head },
        ..plain
    };
    Ok((info, decoder))
}
