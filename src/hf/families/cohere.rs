//! Command R, R+ and Aya: attention and feed-forward side by side on one layer norm, and a factor on the logits.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, Head, Keys, Name, set_divided_head_dim, sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NORM: &[Name] = &[("layers.{}.input_layernorm", "blk.{}.attn_norm", Same)];

/// Command R, R+ and Aya.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "cohere",
    architecture: "command-r",
    prefixes: MODEL,
    names: &[ENDS, NORM, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.q_norm.weight", If("use_qk_norm", false)),
        ("*.k_norm.weight", If("use_qk_norm", false)),
        ("*.gate_proj.bias", Never),
        ("*.up_proj.bias", Never),
        ("*.down_proj.bias", Never),
        ("*_proj.bias", If("attention_bias", false)),
        ("*.bias", Never),
    ],
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    sizes(config, keys)?;
    set_divided_head_dim(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let eps = config.positive(&["layer_norm_eps"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    let scale = config.positive(&["logit_scale"])?.unwrap_or(0.0625);
    keys.set_f32("logit_scale", Some(scale));
    if config.bool("use_qk_norm")? == Some(true) {
        let norms = (0..keys.count("block_count").unwrap_or(0))
            .flat_map(|i| ["q", "k"].map(|part| format!("blk.{i}.attn_{part}_norm.weight")));
        keys.required.extend(norms);
    }
    Rotary { theta: 500_000.0, ..WHOLE_HEADS }.write(config, keys)
}
