//! Granite: a llama with factors on embeddings, scores, residual branches and logits.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys};
use crate::hf::names::{ENDS, GATED, INTERLEAVED_ATTENTION, MODEL, PRE_NORMS, ROTARY_BUFFERS};

/// Granite 3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "granite",
    architecture: "granite",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    llama::keys(config, keys)?;
    keys.set_f32("attention.scale", config.f64(&["attention_multiplier"])?);
    keys.set_f32("embedding_scale", config.f64(&["embedding_multiplier"])?);
    keys.set_f32("residual_scale", config.f64(&["residual_multiplier"])?);
    keys.set_f32("logit_scale", config.f64(&["logits_scaling"])?);
    Ok(())
}
