//! AFM 4.5B (Arcee 2025): llama's graph with squared ReLUs and no gate.
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
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let attention = parts::causal(&info, Some(rope));
    let sizes = (info.n_ff, info.n_embd);
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: 0, block: file.attention(i, &info)? };
        Ok((mixer, Mlp::Dense(Dense::Plain(file.plain(i, "", sizes, Pointwise::ReluSquared)?))))
    })?;
    Ok((info, decoder))
}
