//! GPT-NeoX and Pythia: fused q, k and v by head, partial rotary positions.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes};
use crate::hf::layout::Change::{Same, SplitHeads};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("embed_in", "token_embd", Same),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.attention.query_key_value", "blk.{}.attn_qkv", SplitHeads),
    ("layers.{}.attention.dense", "blk.{}.attn_output", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", Same),
    ("layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", Same),
    ("final_layer_norm", "output_norm", Same),
    ("embed_out", "output", Same),
];

/// GPT-NeoX.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "gpt_neox",
    architecture: "gptneox",
    prefixes: &["gpt_neox."],
    names: &[NAMES],
    // The causal masks, which old checkpoints keep.
    ignored: &["*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"],
    conditions: &[
        ("*.attention.query_key_value.bias", If("attention_bias", true)),
        ("*.attention.dense.bias", If("attention_bias", true)),
        ("embed_out.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu"])?;
    plain_sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["layer_norm_eps"])?));
    keys.set("use_parallel_residual", config.bool("use_parallel_residual")?.unwrap_or(true));
    Rotary { theta_key: "rotary_emb_base", part: Some(("rotary_pct", 0.25)), ..WHOLE_HEADS }
        .write(config, keys)
}
