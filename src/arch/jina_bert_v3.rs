//! Jina Embeddings 3 (Sturua et al. 2024): BERT with rotary positions on the halves of a head.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder, rope};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::{GeluForm, RopeStyle};
use crate::nn::encoder::Encoder;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let info = encoder::info(file)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let encoder = encoder::bind(file, &info, Some(rope), |file, i| file.gelu_mlp(i, &info, GeluForm::Erf))?;
    Ok((info, encoder))
}
