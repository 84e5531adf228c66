//! Command R, R+ and Aya (Cohere 2024), and Command R7B and A: attention and feed-forward side by side on one layer norm, and a
//! factor on the logits. In R7B and A, layers with a window have positions, and the others have none.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::{AttentionParams, QkNorm};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::head::Head;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers of a period, of which the last sees everything, where the file does not say.
const PERIOD: usize = 4;

/// Binds the weights of Command R and R+.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = vec![parts::causal(&info, Some(rope))];
    let kinds = vec![0; info.n_layer];
    let scale = file.optional_positive("logit_scale")?;
    bind_with(file, info, attention, &kinds, scale)
}

/// Binds the weights of Command R7B and A.
pub fn bind2<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let whole = parts::causal(&info, None);
    let local = AttentionParams { window: file.window()?, rope: Some(rope), ..whole.clone() };
    let kinds: Vec<usize> = file.windowed(info.n_layer, PERIOD)?.into_iter().map(usize::from).collect();
    let scale = Some(file.positive("logit_scale")?);
    bind_with(file, info, vec![whole, local], &kinds, scale)
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    info: ModelInfo,
    attention: Vec<AttentionParams>,
    kinds: &[usize],
    scale: Option<f32>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let mut layers = Vec::new();
    for (i, &kind) in kinds.iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut block = file.attention(i, &info)?;
        if file.has(&name("attn_q_norm.weight")) {
            block.qk_norm = Some(QkNorm {
                q: file.head_layer_norm(&name("attn_q_norm"), info.n_head, info.head_dim, eps)?,
                k: Some(file.head_layer_norm(&name("attn_k_norm"), info.n_head_kv, info.head_dim, eps)?),
                per_head: true,
                after_rope: false,
            });
        }
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), info.n_embd, eps)?),
            mixer: Mixer::Attention { kind, block },
            post_attn_norm: None,
            ffn_input: FfnInput::Shared,
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let plain = file.decoder(&info, attention, layers, norm)?;
    let decoder = Decoder { head: Head { scale, ..plain.head }, ..plain };
    Ok((info, decoder))
}
