//! BitNet b1.58 (Ma et al. 2024): llama's graph with rotary positions on halves, and norms of the attention's output and of the
//! hidden layer, before the matrices after them. Gates are SiLUs, or squared ReLUs as in the models of 2025.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope, usual};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::RopeStyle;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Dense, Mlp};

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let sizes = (info.n_ff, info.n_embd);
    let activation = activation(file)?;
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        let width = info.n_head * info.head_dim;
        block.sub_norm = Some(file.rms_norm(&format!("blk.{i}.attn_sub_norm"), width, eps)?);
        let mut mlp = file.gated(i, "", sizes, activation)?;
        mlp.sub_norm = Some(file.rms_norm(&format!("blk.{i}.ffn_sub_norm"), info.n_ff, eps)?);
        Ok((Mixer::Attention { kind: 0, block }, Mlp::Dense(Dense::Gated(mlp))))
    })?;
    Ok((info, decoder))
}

/// The activation of gates.
fn activation<B: Backend>(file: &Binder<'_, B>) -> Result<Activation> {
    const KEY: &str = "hidden_activation";
    match file.optional_str(KEY)? {
        None | Some("silu") => Ok(Activation::Silu),
        Some("relu2") => Ok(Activation::ReluSquared),
        Some(other) => Err(Error::Unsupported(format!(
            "the activation {} ({}) is not supported; supported are: silu, relu2",
            quoted(other.as_bytes()),
            file.called(KEY)
        ))),
    }
}
