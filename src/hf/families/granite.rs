//! Granite: a llama with factors on embeddings, scores, residual branches and logits.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys};
use crate::hf::names::{ENDS, GATED, INTERLEAVED_ATTENTION, LLAMA_BIASES, MODEL, PRE_NORMS, ROTARY_BUFFERS};

/// Granite 3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "granite",
    architecture: "granite",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: LLAMA_BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    llama::keys(config, keys)?;
    for (name, key) in [
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ] {
        keys.set_f32(name, Some(config.f64(&[key])?.unwrap_or(1.0)));
    }
    Ok(())
}
