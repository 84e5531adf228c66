//! Command R, R+ and Aya: attention and feed-forward side by side on one layer norm, and a factor on the logits. In Command R7B and A,
//! layers with a window have positions, and the others have none.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, Head, Keys, Name, WINDOW, set_divided_head_dim, set_windowed_layers, sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NORM: &[Name] = &[("layers.{}.input_layernorm", "blk.{}.attn_norm", Same)];
const COHERE: Family = Family {
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
};

/// Command R, R+ and Aya, and Command R7B and A.
pub const FAMILIES: &[Family] = &[
    COHERE,
    Family {
        model_type: "cohere2",
        architecture: "cohere2",
        names: &[ENDS, NORM, ATTENTION, GATED],
        conditions: ATTENTION_BIASES,
        keys: windowed,
        ..COHERE
    },
];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    shared(config, keys)?;
    if config.bool("use_qk_norm")? == Some(true) {
        keys.require_qk_norms();
    }
    Rotary { theta: 500_000.0, ..WHOLE_HEADS }.write(config, keys)
}

fn windowed(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    shared(config, out)?;
    const SIZE: &str = "sliding_window";
    if config.is_null(SIZE) {
        return Err(config.unsupported(SIZE, "null", "a number"));
    }
    out.set(WINDOW, config.optional_count(&[SIZE])?.unwrap_or(4096));
    set_windowed_layers(config, out, Some("sliding_window_pattern"), 4)?;
    WHOLE_HEADS.write(config, out)
}

/// The keys of both.
fn shared(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    sizes(config, keys)?;
    set_divided_head_dim(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let eps = config.positive(&["layer_norm_eps"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    let scale = config.positive(&["logit_scale"])?.unwrap_or(0.0625);
    keys.set_f32("logit_scale", Some(scale));
    Ok(())
}
