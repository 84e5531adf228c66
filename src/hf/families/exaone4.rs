//! EXAONE 4: norms after attention and feed-forward and of every query and key head. The largest model has windows in three of four
//! layers, and no positions in the fourth.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{
    Family, Head, Keys, Name, WINDOW, rms_norm_sizes, set_divided_head_dim, set_windowed_layers,
};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, NO_BIASES, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const NORMS: &[Name] = &[
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", Same),
];

/// EXAONE 4.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "exaone4",
    architecture: "exaone4",
    prefixes: MODEL,
    names: &[ENDS, NORMS, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: NO_BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, out)?;
    set_divided_head_dim(config, out)?;
    if !config.has("num_key_value_heads") {
        out.set("attention.head_count_kv", 32u32);
    }
    const SIZE: &str = "sliding_window";
    if !config.is_null(SIZE) {
        out.set(WINDOW, config.optional_count(&[SIZE])?.unwrap_or(4096));
        set_windowed_layers(config, out, Some("sliding_window_pattern"), 4)?;
    } else if config.has("layer_types") {
        // In a model of 64 layers an absent key means a window.
        out.set(WINDOW, 0u32);
    } else {
        return Err(config.unsupported(SIZE, "null", "a number beside no \"layer_types\""));
    }
    WHOLE_HEADS.write(config, out)
}
