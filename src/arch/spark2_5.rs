//! Spark 2.5 (iFLYTEK 2026): a window in most layers, a gate on each head's output, GELU gates in feed-forward.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, rope, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let base = file.optional_positive("rope.freq_base")?.unwrap_or(rope::DEFAULT_FREQ_BASE);
    let local_rope = rope::local_params_of(file, info.head_dim, RopeStyle::Halved, base)?;
    let whole = parts::causal(&info, Some(rope));
    let local = AttentionParams { window: file.window()?, rope: Some(local_rope), ..whole.clone() };
    let windowed = file.windowed(info.n_layer, 1)?;
    let decoder = usual::decoder(file, &info, vec![whole, local], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        block.head_gate = Some(file.linear(&format!("blk.{i}.attn_gate"), info.n_head, info.n_embd)?);
        let mixer = Mixer::Attention { kind: usize::from(windowed[i]), block };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Gelu)?))
    })?;
    Ok((info, decoder))
}
