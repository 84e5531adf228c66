//! Jina Embeddings 2 (Günther et al. 2023): BERT whose scores fall with the distance (ALiBi) in place of positions, with gated
//! feed-forward blocks, and in some models norms of all queries and keys of a token, and a second sum with the layer's input.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder};
use crate::backend::{Backend, DistanceBias};
use crate::error::Result;
use crate::kernels::GeluForm;
use crate::nn::attention::QkNorm;
use crate::nn::encoder::Encoder;
use crate::nn::mlp::{Activation, Dense, Mlp};

/// The slope of the last head, of a power of two of them, is two to this negative power.
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
            // The models with norms of queries and keys have the values above the gate (llama.cpp takes them for the gate).
            std::mem::swap(&mut mlp.gate, &mut mlp.up);
        }
        Ok(Mlp::Dense(Dense::Gated(mlp)))
    })?;
    let slopes = slopes(info.n_head, MAX_BIAS);
    for (i, layer) in encoder.layers.iter_mut().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        layer.attn.bias = Some(DistanceBias::Slopes(file.computed("slopes", 1, &slopes)?));
        if file.has(&name("attn_q_norm.weight")) {
            let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
            layer.attn.qk_norm = Some(QkNorm {
                q: file.layer_norm(&name("attn_q_norm"), n_q, eps)?,
                k: Some(file.layer_norm(&name("attn_k_norm"), n_kv, eps)?),
                per_head: false,
            });
        }
        if file.has(&name("attn_norm_2.weight")) {
            layer.second_norm = Some(file.layer_norm(&name("attn_norm_2"), info.n_embd, eps)?);
        }
    }
    Ok((info, encoder))
}

/// The slopes of `n_head` heads (Press et al. 2022): a geometric series of a power of two, and where there are more heads every
/// second of the series of twice as many.
pub fn slopes(n_head: usize, max_bias: f32) -> Vec<f32> {
    let n = 1usize << n_head.max(1).ilog2();
    let slope =
        |exponent: usize, n: usize| libm::exp2(-f64::from(max_bias) * exponent as f64 / n as f64) as f32;
    (0..n_head).map(|h| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) }).collect()
}

#[cfg(test)]
mod tests {
    use super::slopes;

    #[test]
    fn slopes_are_those_of_the_paper() {
        assert_eq!(slopes(4, 8.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        assert_eq!(slopes(8, 8.0)[..3], [0.5, 0.25, 0.125]);
        // Three heads: the two of two, and the first of the series of four.
        assert_eq!(slopes(3, 8.0), [0.0625, 0.00390625, 0.25]);
    }
}
