//! MPT: scores fall with the distance, instead of positions.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name};
use crate::hf::layout::Change::Same;
use crate::hf::names::NO_BIASES;

const NAMES: &[Name] = &[
    ("wte", "token_embd", Same),
    ("norm_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("blocks.{}.norm_1", "blk.{}.attn_norm", Same),
    ("blocks.{}.attn.Wqkv", "blk.{}.attn_qkv", Same),
    ("blocks.{}.attn.out_proj", "blk.{}.attn_output", Same),
    ("blocks.{}.norm_2", "blk.{}.ffn_norm", Same),
    ("blocks.{}.ffn.up_proj", "blk.{}.ffn_up", Same),
    ("blocks.{}.ffn.down_proj", "blk.{}.ffn_down", Same),
];

/// MPT.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "mpt",
    architecture: "mpt",
    prefixes: &["transformer."],
    names: &[NAMES],
    ignored: &[],
    conditions: NO_BIASES,
    head: Head::TiedByDefault,
    keys,
}];

/// The steepest slope of scores, which the class has whatever the configuration says.
const MAX_SLOPE: u32 = 8;

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set("block_count", config.count(&["n_layers", "num_hidden_layers"])?);
    keys.set("context_length", config.optional_count(&["max_seq_len"])?.unwrap_or(2048));
    let n_embd = config.count(&["d_model", "hidden_size"])?;
    keys.set("embedding_length", n_embd);
    keys.set("attention.head_count", config.count(&["n_heads", "num_attention_heads"])?);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    // Four times, whatever "expansion_ratio" says.
    const RATIO: &str = "expansion_ratio";
    let ratio = config.f64(&[RATIO])?.unwrap_or(4.0);
    if ratio != 4.0 {
        return Err(config.unsupported(RATIO, &ratio.to_string(), "4"));
    }
    keys.set("feed_forward_length", n_embd.saturating_mul(4));
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    if let Some(found) = config.shown("logit_scale") {
        return Err(config.unsupported("logit_scale", &found, "null"));
    }
    keys.set_f32("attention.max_alibi_bias", Some(f64::from(MAX_SLOPE)));
    let Some(attention) = config.object(&["attn_config"])? else { return Ok(()) };
    attention.expect_bool("alibi", true)?;
    for key in ["prefix_lm", "qk_ln", "attn_uses_sequence_id"] {
        attention.expect_bool(key, false)?;
    }
    attention.expect_str(&["attn_type"], &["multihead_attention"])?;
    for key in ["clip_qkv", "softmax_scale"] {
        if let Some(found) = attention.shown(key) {
            return Err(attention.unsupported(key, &found, "null"));
        }
    }
    match attention.u32(&["alibi_bias_max"])? {
        Some(found) if found != MAX_SLOPE => {
            Err(attention.unsupported("alibi_bias_max", &found.to_string(), &MAX_SLOPE.to_string()))
        }
        _ => Ok(()),
    }
}
