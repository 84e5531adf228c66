//! StableLM and StableLM 2 (Bellagente et al. 2024): layer norms, SwiGLU, rotary positions on part of each head; in the
//! 12B model layer norms of each query and key head, and feed-forward on attention's own norm.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::QkNorm;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let sequential = file.flag("use_parallel_residual")? == Some(false);
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut attn = file.attention(i, &info)?;
        if file.has(&name("attn_q_norm.weight")) {
            attn.qk_norm = Some(QkNorm {
                q: file.head_layer_norm(&name("attn_q_norm"), info.n_head, info.head_dim, eps)?,
                k: Some(file.head_layer_norm(&name("attn_k_norm"), info.n_head_kv, info.head_dim, eps)?),
                per_head: true,
                after_rope: false,
            });
        }
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: attn },
            post_attn_norm: None,
            ffn_input: match sequential || file.has(&name("ffn_norm.weight")) {
                true => FfnInput::Norm(file.layer_norm(&name("ffn_norm"), n_embd, eps)?),
                false => FfnInput::Shared,
            },
            ffn: file.gated_mlp(i, &info, Activation::Silu)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
