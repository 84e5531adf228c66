//! Nomic's BERT (Nussbaum et al. 2024): rotary positions on the halves of a head, SwiGLU, no biases but those of the norms.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::encoder::Encoder;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let info = encoder::info(file)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let encoder =
        encoder::bind(file, &info, Some(rope), |file, i| file.gated_mlp(i, &info, Activation::Silu))?;
    Ok((info, encoder))
}
