//! Jina Embeddings 2 (Günther et al. 2023): BERT whose scores fall with the distance (ALiBi) in place of positions, with gated
//! feed-forward blocks. Some models have norms of all queries and keys of a token, and a second sum with the layer's input.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::GeluForm;
use crate::nn::attention::QkNorm;
use crate::nn::encoder::Encoder;
use crate::nn::mlp::{Activation, Dense, Mlp};

/// The slope of the last head, of a power of two heads, is two to this negative power.
const MAX_BIAS: f32 = 8.0;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let info = encoder::info(file)?;
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let mut encoder = encoder::bind(file, &info, None, |file, i| {
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        let joint = file.dims(&name("ffn_up"))?.get(1) == Some(&(2 * info.n_ff));
        if !joint && !file.has(&name("ffn_gate")) {
            return file.gelu_mlp(i, &info, GeluForm::Erf);
        }
        let mut mlp = file.gated(i, "", (info.n_ff, info.n_embd), Activation::GeluErf)?;
        if joint && file.has(&name("attn_q_norm")) {
            // In models with norms of queries and keys the values stand above the gate (llama.cpp reads them as the gate).
            std::mem::swap(&mut mlp.gate, &mut mlp.up);
        }
        Ok(Mlp::Dense(Dense::Gated(mlp)))
    })?;
    for (i, layer) in encoder.layers.iter_mut().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        layer.attn.bias = Some(file.slopes(info.n_head, MAX_BIAS)?);
        if file.has(&name("attn_q_norm.weight")) {
            let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
            layer.attn.qk_norm = Some(QkNorm {
                q: file.layer_norm(&name("attn_q_norm"), n_q, eps)?,
                k: Some(file.layer_norm(&name("attn_k_norm"), n_kv, eps)?),
                per_head: false,
                after_rope: false,
            });
        }
        if file.has(&name("attn_norm_2.weight")) {
            layer.second_norm = Some(file.layer_norm(&name("attn_norm_2"), info.n_embd, eps)?);
        }
    }
    Ok((info, encoder))
}
