//! OLMo 2 and 3: norms after attention and feed-forward, q and k normalised over all heads together. OLMoE has such norms, llama's
//! others, and experts.
#![forbid(unsafe_code)]

use super::qwen::EXPERTS;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{
    Family, Head, Keys, Name, WINDOW, head_dim, rms_norm_sizes, set_divided_head_dim, set_windowed_layers,
};
use crate::hf::layout::Change::Same;
use crate::hf::names::{
    ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, PRE_NORMS, QK_NORMS, ROTARY_BUFFERS,
};
use crate::hf::rope::{self, Bases, WHOLE_HEADS};

const POST_NORMS: &[Name] = &[
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", Same),
];
const OLMO2: Family = Family {
    model_type: "olmo2",
    architecture: "olmo2",
    prefixes: MODEL,
    names: &[ENDS, POST_NORMS, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
};
/// Where neither an object nor a key says: the base beside the objects is that of the layers that see everything alone.
const OLMO3_BASES: Bases =
    Bases { full: (&["rope_theta"], 500_000.0), sliding: (&[], 500_000.0), strict: false };

/// OLMo 2 and 3, and OLMoE.
pub const FAMILIES: &[Family] = &[
    OLMO2,
    Family { model_type: "olmo3", keys: windowed, ..OLMO2 },
    Family {
        model_type: "olmoe",
        architecture: "olmoe",
        names: &[ENDS, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS],
        keys: mixture,
        ..OLMO2
    },
];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}

fn windowed(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, out)?;
    set_divided_head_dim(config, out)?;
    const SIZE: &str = "sliding_window";
    if config.is_null(SIZE) {
        return Err(config.unsupported(SIZE, "null", "a number"));
    }
    out.set(WINDOW, config.optional_count(&[SIZE])?.unwrap_or(4096));
    set_windowed_layers(config, out, None, 4)?;
    if let Some(scaling) = config.object(&["rope_scaling"])? {
        if let Some(key) = ["rope_theta", "rope_type"].into_iter().find(|key| scaling.is_null(key)) {
            return Err(scaling.unsupported(key, "null", "another value"));
        }
        if let Some(part) = scaling.f64(&[rope::PART])?.filter(|part| *part != 1.0) {
            return Err(scaling.unsupported(rope::PART, &part.to_string(), "1"));
        }
    }
    rope::write_by_kind(config, out, OLMO3_BASES, head_dim(config)?)
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    set_divided_head_dim(config, out)?;
    const MOST: &str = "clip_qkv";
    if let Some(most) = config.f64(&[MOST])? {
        return Err(config.unsupported(MOST, &most.to_string(), "null"));
    }
    out.set("expert_count", config.optional_count(&["num_experts", "num_local_experts"])?.unwrap_or(64));
    out.set("expert_used_count", config.optional_count(&["num_experts_per_tok"])?.unwrap_or(8));
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(false));
    Ok(())
}
