//! GPT-2: learned positions, fused q, k and v, matrices stored transposed (`Conv1D`).
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, Name, TANH_GELU, plain_sizes};
use crate::hf::layout::Change::{Same, Transpose};

/// Weights are transposed; biases have the same stem, but one dimension: see `layout::apply`.
const NAMES: &[Name] = &[
    ("wte", "token_embd", Same),
    ("wpe", "position_embd", Same),
    ("h.{}.ln_1", "blk.{}.attn_norm", Same),
    ("h.{}.attn.c_attn", "blk.{}.attn_qkv", Transpose),
    ("h.{}.attn.c_proj", "blk.{}.attn_output", Transpose),
    ("h.{}.ln_2", "blk.{}.ffn_norm", Same),
    ("h.{}.mlp.c_fc", "blk.{}.ffn_up", Transpose),
    ("h.{}.mlp.c_proj", "blk.{}.ffn_down", Transpose),
    ("ln_f", "output_norm", Same),
    ("lm_head", "output", Same),
];

/// GPT-2.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "gpt2",
    architecture: "gpt2",
    prefixes: &["transformer."],
    names: &[NAMES],
    // The causal masks, which old checkpoints keep.
    ignored: &["*.attn.bias", "*.attn.masked_bias"],
    conditions: &[],
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["activation_function"], TANH_GELU)?;
    config.expect_bool("scale_attn_weights", true)?;
    config.expect_bool("scale_attn_by_inverse_layer_idx", false)?;
    config.expect_bool("add_cross_attention", false)?;
    plain_sizes(config, keys)?;
    let n_ff = match config.optional_count(&["n_inner"])? {
        Some(n) => n,
        None => config.count(HIDDEN_SIZE)?.saturating_mul(4),
    };
    keys.set("feed_forward_length", n_ff);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    Ok(())
}
