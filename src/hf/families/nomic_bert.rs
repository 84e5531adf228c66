//! Nomic's BERT: rotary positions, a gated feed-forward, fused q, k and v, no biases but those of the norms.
#![forbid(unsafe_code)]

use super::bert::set_token_types;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes, set_head_dim};
use crate::hf::layout::Change::Same;
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.token_type_embeddings", "token_types", Same),
    ("emb_ln", "token_embd_norm", Same),
    ("encoder.layers.{}.attn.Wqkv", "blk.{}.attn_qkv", Same),
    ("encoder.layers.{}.attn.out_proj", "blk.{}.attn_output", Same),
    ("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", Same),
    ("encoder.layers.{}.mlp.fc11", "blk.{}.ffn_up", Same),
    ("encoder.layers.{}.mlp.fc12", "blk.{}.ffn_gate", Same),
    ("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", Same),
    ("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", Same),
];

/// nomic-embed-text without experts.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "nomic_bert",
    architecture: "nomic-bert",
    prefixes: &["bert."],
    names: &[NAMES],
    ignored: &["pooler.*", "cls.*", "*.rotary_emb.inv_freq"],
    conditions: &[],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["activation_function", "hidden_act"], &["swiglu", "silu"])?;
    for (key, expected) in [
        ("prenorm", false),
        ("causal", false),
        ("qkv_proj_bias", false),
        ("mlp_fc1_bias", false),
        ("mlp_fc2_bias", false),
        ("rotary_emb_interleaved", false),
        ("parallel_block", false),
        ("use_rms_norm", false),
    ] {
        config.expect_bool(key, expected)?;
    }
    for key in ["rotary_emb_fraction", "rotary_scaling_factor"] {
        if let Some(found) = config.f64(&[key])?.filter(|found| *found != 1.0) {
            return Err(config.unsupported(key, &found.to_string(), "1"));
        }
    }
    plain_sizes(config, keys)?;
    set_head_dim(config, keys)?;
    // The published configurations name the positions that a rule for longer texts allows, which nothing here follows.
    if let Some(trained) = config.u32(&["max_trained_positions"])? {
        keys.at_most("context_length", trained);
    }
    keys.set("feed_forward_length", config.count(&["intermediate_size", "n_inner"])?);
    let eps = config.f64(&["layer_norm_eps", "layer_norm_epsilon"])?.unwrap_or(1e-12);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    keys.set("attention.causal", false);
    set_token_types(config, keys)?;
    Rotary { theta: 1000.0, ..WHOLE_HEADS }.write(config, keys)
}
