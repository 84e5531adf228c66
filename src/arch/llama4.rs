//! Llama 4 (Meta 2025), text. Three of four layers see only their token's stretch of positions, and have rotary positions. The
//! fourth sees everything and has no positions; its scores grow with the position. Some layers have experts beside one that every
//! token takes; the router's sigmoids multiply the experts' inputs.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope, usual};
use crate::backend::{Backend, Growth};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::{AttentionParams, QkNorm};
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers of a period, of which the last has no positions.
const PERIOD: usize = 4;
/// Positions of a stretch, and of a step of scores; no key has them.
const STRETCH: usize = 8192;
/// How scores grow.
const GROWTH: f32 = 0.1;
/// Experts of Maverick, which has no norms of queries and keys.
const MAVERICK: usize = 128;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle {
        normalize: false,
        shared: Shared::Plain,
        sigmoid: Some(0.0),
        scales_gates: true,
        ..MoeStyle::PLAIN
    };
    let mut info = file.info_with_experts(&style)?;
    let step = file.optional_dim("interleave_moe_layer_step")?.unwrap_or(1);
    let has_experts = |i: usize| (i + 1).is_multiple_of(step);
    if let Some(experts) = &mut info.experts {
        experts.n_ff_shared = experts.n_ff;
        experts.n_dense = (0..info.n_layer).filter(|&i| !has_experts(i)).count();
    }
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Interleaved)?;
    let rotated = parts::causal(&info, Some(rope));
    // A window of 0: no stretches, and positions in all layers.
    const WINDOW: &str = "attention.sliding_window";
    let is_plain = file.has_key(WINDOW) && file.window()?.is_none();
    const SCALE: &str = "attention.temperature_scale";
    let len = file.optional_dim("attention.temperature_length")?.unwrap_or(STRETCH);
    let factor = file.optional_number(SCALE)?.unwrap_or(GROWTH);
    if !factor.is_finite() {
        let key = file.called(SCALE);
        return Err(Error::Format(format!("the key {key} is {factor}, expected a finite number")));
    }
    let attention = match is_plain {
        true => vec![rotated],
        false => {
            let growth = Some(Growth { len, factor, ahead: 1 });
            let whole = AttentionParams { rope: None, growth, ..rotated.clone() };
            let window = file.window()?.or(Some(STRETCH));
            vec![AttentionParams { window, chunked: true, ..rotated }, whole]
        }
    };
    let has_norms = info.experts.is_none_or(|experts| experts.n_expert != MAVERICK);
    let decoder = usual::decoder(file, &info, attention, "ffn_norm", |file, i| {
        let kind = usize::from(!is_plain && (i + 1).is_multiple_of(PERIOD));
        let mut block = file.attention(i, &info)?;
        if has_norms && kind == 0 {
            let (q, k) = (file.ones(info.head_dim, eps)?, file.ones(info.head_dim, eps)?);
            block.qk_norm = Some(QkNorm { q, k: Some(k), per_head: true, after_rope: true });
        }
        let ffn = match info.experts {
            Some(_) if has_experts(i) => file.moe(i, &info, &style)?,
            _ => file.gated_mlp(i, &info, Activation::Silu)?,
        };
        Ok((Mixer::Attention { kind, block }, ffn))
    })?;
    Ok((info, decoder))
}
