//! ModernBERT (Warner et al. 2024): norms before the blocks and one of the embeddings, gated feed-forward, rotary positions. Two
//! of three layers see a window around each token, with a rotary base of their own.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder, rope};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Rotary bases of layers that see everything and of those with a window where the file does not say, and the period of the
/// former.
const FREQ_BASE: f32 = 160_000.0;
const LOCAL_FREQ_BASE: f32 = 10_000.0;
const PERIOD: usize = 3;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = encoder::info(file)?;
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params_from(file, info.head_dim, RopeStyle::Halved, FREQ_BASE)?;
    let local_rope = rope::local_params(file, info.head_dim, RopeStyle::Halved, LOCAL_FREQ_BASE)?;
    let global = encoder::attention(&info, Some(rope));
    let window = encoder::window(file)?;
    let local = AttentionParams { window, rope: Some(local_rope), ..global.clone() };
    let windowed = match window {
        Some(_) => file.windowed_but(info.n_layer, PERIOD, |i, period| i % period == 0)?,
        None => vec![false; info.n_layer],
    };
    let activation = activation(file)?;
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        // The first layer reads the norm of the embeddings.
        let has_norm = i > 0 || file.has(&name("attn_norm.weight"));
        let attn_norm = has_norm.then(|| file.layer_norm(&name("attn_norm"), n_embd, eps)).transpose()?;
        layers.push(DecoderLayer {
            attn_norm,
            mixer: Mixer::Attention { kind: usize::from(windowed), block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.layer_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gated_mlp(i, &info, activation)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", n_embd, eps)?;
    let embd_norm = Some(file.layer_norm("token_embd_norm", n_embd, eps)?);
    let plain = file.decoder(&info, vec![global, local], layers, norm)?;
    Ok((info, Decoder { embd_norm, ..plain }))
}

/// The activation of gates in feed-forward blocks.
fn activation<B: Backend>(file: &Binder<'_, B>) -> Result<Activation> {
    const KEY: &str = "hidden_activation";
    match file.optional_str(KEY)? {
        None | Some("gelu") => Ok(Activation::GeluErf),
        Some("gelu_pytorch_tanh") => Ok(Activation::Gelu),
        Some("silu") => Ok(Activation::Silu),
        Some(other) => Err(Error::Unsupported(format!(
            "the activation {} ({}) is not supported; supported are: gelu, gelu_pytorch_tanh, silu",
            quoted(other.as_bytes()),
            file.called(KEY)
        ))),
    }
}
