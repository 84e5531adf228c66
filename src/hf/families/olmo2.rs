//! OLMo 2: norms behind attention and feed-forward, q and k normalized over all heads together.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, rms_norm_sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const POST_NORMS: &[Name] = &[
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", Same),
];

/// OLMo 2.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "olmo2",
    architecture: "olmo2",
    prefixes: MODEL,
    names: &[ENDS, POST_NORMS, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}
