//! BERT (Devlin et al. 2019) and the sentence encoders made from it: learned positions, biases, GELU in its exact form.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, encoder};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::GeluForm;
use crate::nn::encoder::Encoder;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let mut info = encoder::info(file)?;
    info.n_ctx_max = Some(info.n_ctx_train);
    let encoder = encoder::bind(file, &info, None, |file, i| file.gelu_mlp(i, &info, GeluForm::Erf))?;
    Ok((info, encoder))
}
