//! Apertus: norms of every query and key head, and a feed-forward without gates, whose activation has parameters of its own.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, rms_norm_sizes, set_divided_head_dim};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, MODEL, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NORMS: &[Name] = &[
    ("layers.{}.attention_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.feedforward_layernorm", "blk.{}.ffn_norm", Same),
];
const MLP: &[Name] =
    &[("layers.{}.mlp.up_proj", "blk.{}.ffn_up", Same), ("layers.{}.mlp.down_proj", "blk.{}.ffn_down", Same)];
/// The parameters of the activations, which are numbers in a list of all layers in GGUF.
const CURVE: &[(&str, &str)] = &[
    ("mlp.act_fn.alpha_p", "xielu.alpha_p"),
    ("mlp.act_fn.alpha_n", "xielu.alpha_n"),
    ("mlp.act_fn.beta", "xielu.beta"),
    ("mlp.act_fn.eps", "xielu.eps"),
];

/// Apertus.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "apertus",
    architecture: "apertus",
    prefixes: MODEL,
    names: &[ENDS, NORMS, ATTENTION, QK_NORMS, MLP],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["xielu"])?;
    rms_norm_sizes(config, keys)?;
    set_divided_head_dim(config, keys)?;
    keys.numbers = CURVE;
    Rotary::expect(config)?;
    Rotary { theta: 12e6, ..WHOLE_HEADS }.write(config, keys)
}
