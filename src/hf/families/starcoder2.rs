//! StarCoder 2: layer norms and biases everywhere, a feed-forward of two matrices, a window in the larger models.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope;

const MLP: &[Name] =
    &[("layers.{}.mlp.c_fc", "blk.{}.ffn_up", Same), ("layers.{}.mlp.c_proj", "blk.{}.ffn_down", Same)];

/// StarCoder 2.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "starcoder2",
    architecture: "starcoder2",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, MLP],
    ignored: ROTARY_BUFFERS,
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu_pytorch_tanh", "gelu_new"])?;
    config.expect_str(&["norm_type"], &["layer_norm"])?;
    config.expect_str(&["mlp_type"], &["default"])?;
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["norm_epsilon"])?));
    keys.set_some("attention.sliding_window", config.u32(&["sliding_window"])?);
    rope::write(config, keys)
}
