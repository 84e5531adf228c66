//! Apertus (Swiss AI 2025): llama's graph with norms of every query and key head, and in each layer a feed-forward block without
//! a gate, whose activation has parameters of its own.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope, usual};
use crate::backend::{Backend, Pointwise};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Dense, Mlp};

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let numbers = |name: &str| file.plain_numbers(&format!("xielu.{name}"), info.n_layer);
    let [above, below, linear, most] =
        [numbers("alpha_p")?, numbers("alpha_n")?, numbers("beta")?, numbers("eps")?];
    let sizes = (info.n_ff, info.n_embd);
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        block.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
        let curve = Pointwise::XIelu {
            above: softplus(above[i]),
            linear: linear[i],
            below: linear[i] + softplus(below[i]),
            most: most[i],
        };
        Ok((Mixer::Attention { kind: 0, block }, Mlp::Dense(Dense::Plain(file.plain(i, "", sizes, curve)?))))
    })?;
    Ok((info, decoder))
}

/// `ln(1 + e^x)`.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { libm::log1pf(libm::expf(x)) }
}
