//! OLMo 2 (Walsh et al. 2024): blocks read the residual stream itself and their outputs are normalised; RMS norms over all
//! queries and all keys of a token. OLMo 3 (2025) is the same with windows in most layers, whose rotary positions are not scaled.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::{AttentionParams, QkNorm};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers of a period, of which the last sees everything, where the file does not say.
const PERIOD: usize = 4;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let base = file.optional_positive("rope.freq_base")?.unwrap_or(rope::DEFAULT_FREQ_BASE);
    let local_rope = rope::local_params(file, info.head_dim, RopeStyle::Halved, base)?;
    let (whole, window) = (parts::causal(&info, Some(rope)), file.window()?);
    let local = AttentionParams { window, rope: Some(local_rope), ..whole.clone() };
    let windowed = match window {
        Some(_) => file.windowed(info.n_layer, PERIOD)?,
        None => vec![false; info.n_layer],
    };
    let mut layers = Vec::new();
    for (i, windowed) in windowed.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut attn = file.attention(i, &info)?;
        attn.qk_norm = Some(QkNorm {
            q: file.rms_norm(&name("attn_q_norm"), info.n_head * info.head_dim, eps)?,
            k: Some(file.rms_norm(&name("attn_k_norm"), info.n_head_kv * info.head_dim, eps)?),
            per_head: false,
            after_rope: false,
        });
        layers.push(DecoderLayer {
            attn_norm: None,
            mixer: Mixer::Attention { kind: usize::from(windowed), block: attn },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Residual,
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![whole, local], layers, norm)?;
    Ok((info, decoder))
}
