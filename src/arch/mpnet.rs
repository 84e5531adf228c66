//! MPNet (Song et al. 2020): BERT without token types, whose scores have a bias by distance, the same in all layers. GGUF has no
//! names for it; these are Ember's, for Hugging Face folders.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::relative::Buckets;
use super::{ModelInfo, encoder};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::GeluForm;
use crate::nn::encoder::Encoder;

/// `transformers` always uses these, whatever the configuration says.
const BUCKETS: Buckets = Buckets { n: 32, max_distance: 128, both_ways: true };

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Encoder<B>)> {
    let mut info = encoder::info(file)?;
    info.n_ctx_max = Some(info.n_ctx_train);
    let name = "attention.relative_buckets_count";
    file.refuse(name, file.dim(name)? != BUCKETS.n, "other than 32 buckets of distances")?;
    let mut encoder = encoder::bind(file, &info, None, |file, i| file.gelu_mlp(i, &info, GeluForm::Erf))?;
    for layer in &mut encoder.layers {
        layer.attn.bias = Some(BUCKETS.bind(file, "attn_rel_b.weight", info.n_head)?);
    }
    Ok((info, encoder))
}
