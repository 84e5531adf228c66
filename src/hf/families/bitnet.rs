//! BitNet: llama's graph with norms of the attention's output and of the hidden layer, before the matrices after them. Weights are as they
//! are stored: files that are packed, or rounded while they are computed with, have a `quantization_config`, which is refused.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, rms_norm_sizes, set_divided_head_dim};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NORMS: &[Name] = &[
    ("layers.{}.self_attn.attn_sub_norm", "blk.{}.attn_sub_norm", Same),
    ("layers.{}.mlp.ffn_sub_norm", "blk.{}.ffn_sub_norm", Same),
];

/// BitNet.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "bitnet",
    architecture: "bitnet",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const ACTIVATION: &str = "hidden_act";
    config.expect_str(&[ACTIVATION], &["silu", "swish", "relu2"])?;
    rms_norm_sizes(config, keys)?;
    set_divided_head_dim(config, keys)?;
    const HEADS: &str = "num_key_value_heads";
    if !config.has(HEADS) && !config.is_null(HEADS) {
        keys.set("attention.head_count_kv", 5u32);
    }
    match config.str(&[ACTIVATION])? {
        None | Some("relu2") => keys.set("hidden_activation", "relu2"),
        _ => {}
    }
    Rotary { theta: 500_000.0, ..WHOLE_HEADS }.write(config, keys)
}
