//! SmallThinker (Song et al. 2025): experts with ReLU gates, chosen by the layer's input before attention. Three of four layers
//! have a window and positions; the first of each four has neither.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope, usual};
use crate::backend::{Backend, Gating};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::Decoder;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Layers of a period, of which the first has no window.
const PERIOD: usize = 4;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle {
        sigmoid: Some(0.0),
        gating: Gating::Softmax,
        activation: Activation::Relu,
        early: true,
        ..MoeStyle::PLAIN
    };
    let info = file.info_with_experts(&style)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let rotated = parts::causal(&info, Some(rope));
    let window = file.window()?;
    let (attention, windowed) = match window {
        Some(_) => {
            let whole = AttentionParams { rope: None, ..rotated.clone() };
            let windowed = match file.bools("attention.sliding_window_pattern") {
                Some(_) => file.windowed(info.n_layer, PERIOD)?,
                None => {
                    let period = file.optional_dim("attention.sliding_window_pattern")?.unwrap_or(PERIOD);
                    (0..info.n_layer).map(|i| !i.is_multiple_of(period)).collect()
                }
            };
            (vec![whole, AttentionParams { window, ..rotated }], windowed)
        }
        None => (vec![rotated], vec![false; info.n_layer]),
    };
    let decoder = usual::decoder(file, &info, attention, "ffn_norm", |file, i| {
        let mixer = Mixer::Attention { kind: usize::from(windowed[i]), block: file.attention(i, &info)? };
        Ok((mixer, file.moe(i, &info, &style)?))
    })?;
    Ok((info, decoder))
}
