//! GPT-J: attention and feed-forward side by side on one layer norm, rotary positions on adjacent pairs of a part of each head.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::Never;
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, Name, TANH_GELU, plain_sizes};
use crate::hf::layout::Change::Same;

const NAMES: &[Name] = &[
    ("wte", "token_embd", Same),
    ("ln_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("h.{}.ln_1", "blk.{}.attn_norm", Same),
    ("h.{}.attn.q_proj", "blk.{}.attn_q", Same),
    ("h.{}.attn.k_proj", "blk.{}.attn_k", Same),
    ("h.{}.attn.v_proj", "blk.{}.attn_v", Same),
    ("h.{}.attn.out_proj", "blk.{}.attn_output", Same),
    ("h.{}.mlp.fc_in", "blk.{}.ffn_up", Same),
    ("h.{}.mlp.fc_out", "blk.{}.ffn_down", Same),
];

/// GPT-J.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "gptj",
    architecture: "gptj",
    prefixes: &["transformer."],
    names: &[NAMES],
    // The causal masks, which old checkpoints keep.
    ignored: &["*.attn.bias", "*.attn.masked_bias"],
    conditions: &[("*_proj.bias", Never)],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["activation_function"], TANH_GELU)?;
    plain_sizes(config, keys)?;
    let n_embd = config.count(HIDDEN_SIZE)?;
    let width = match config.optional_count(&["n_inner"])? {
        Some(width) => width,
        None => {
            n_embd.checked_mul(4).ok_or_else(|| config.unsupported("n_embd", &n_embd.to_string(), "less"))?
        }
    };
    keys.set("feed_forward_length", width);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    const ROTATED: &str = "rotary_dim";
    if config.is_null(ROTATED) {
        return Err(config.unsupported(ROTATED, "null", "a number"));
    }
    keys.set("rope.dimension_count", config.optional_count(&[ROTATED])?.unwrap_or(64));
    Ok(())
}
