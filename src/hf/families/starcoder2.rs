//! StarCoder 2: layer norms and biases everywhere, a feed-forward of two matrices, a window in the larger models.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, Head, Keys, Name, TANH_GELU, set_window, sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const MLP: &[Name] =
    &[("layers.{}.mlp.c_fc", "blk.{}.ffn_up", Same), ("layers.{}.mlp.c_proj", "blk.{}.ffn_down", Same)];

/// StarCoder 2.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "starcoder2",
    architecture: "starcoder2",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, MLP],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*_proj.bias", If("use_bias", true)),
        ("*.c_fc.bias", If("use_bias", true)),
        ("lm_head.bias", Never),
    ],
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], TANH_GELU)?;
    config.expect_str(&["norm_type"], &["layer_norm"])?;
    config.expect_str(&["mlp_type"], &["default"])?;
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["norm_epsilon"])?));
    set_window(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}
