//! Granite 4.1 and later with windows (IBM 2026): Granite 3's factors, a window in most layers, a sink for each head, and layers
//! without positions. Some of its models have experts, perhaps beside one that every token takes.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::granite::{self, Factors};
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::{Backend, WeightRole};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Which layers have positions, where the file says.
const ROTATED: &str = "attention.rope_pattern";

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Plain, ..MoeStyle::PLAIN };
    let info = file.info_with_experts(&style)?;
    let has_images = file.has_key("deepstack_mapping");
    file.refuse("deepstack_mapping", has_images, "layers that take in images")?;
    file.positive("logit_scale")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let plain = parts::causal(&info, Some(rope));
    let scale = file.optional_positive("attention.scale")?.unwrap_or(plain.scale);
    let whole = AttentionParams { scale, ..plain };
    let window = file.window()?;
    let windowed = match window {
        Some(_) => file.windowed(info.n_layer, 4)?,
        None => vec![false; info.n_layer],
    };
    let rotated = match file.bools(ROTATED) {
        Some(list) if list.len() >= info.n_layer => list.to_vec(),
        None if !file.has_key(ROTATED) => vec![true; info.n_layer],
        _ => {
            let called = file.called(ROTATED);
            return Err(Error::Format(format!(
                "{called} has no boolean for each of {} layers",
                info.n_layer
            )));
        }
    };
    let local = AttentionParams { window, ..whole.clone() };
    let without = |params: &AttentionParams| AttentionParams { rope: None, ..params.clone() };
    let attention = vec![without(&whole), without(&local), whole, local];
    let plain = usual::decoder(file, &info, attention, "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        let sinks = format!("blk.{i}.attn_sinks.weight");
        block.sinks = Some(file.bind(&sinks, &[info.n_head], 0..info.n_head, WeightRole::Vector)?);
        let kind = 2 * usize::from(rotated[i]) + usize::from(windowed[i]);
        let ffn = match info.experts {
            Some(_) => file.moe(i, &info, &style)?,
            None => file.gated_mlp(i, &info, Activation::Silu)?,
        };
        Ok((Mixer::Attention { kind, block }, ffn))
    })?;
    let decoder = granite::scaled(file, plain, Factors { embd: None, residual: None, logits: 1.0 })?;
    Ok((info, decoder))
}
