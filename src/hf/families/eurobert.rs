//! EuroBERT: llama as an encoder.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, GATED, LLAMA_BIASES, MODEL, PRE_NORMS};

const ENDS: &[Name] = &[("embed_tokens", "token_embd", Same), ("norm", "output_norm", Same)];

/// EuroBERT.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "eurobert",
    architecture: "eurobert",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, GATED],
    // The head of the training task.
    ignored: &["lm_head.*", "*.rotary_emb.inv_freq"],
    conditions: LLAMA_BIASES,
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    llama::keys(config, keys)?;
    keys.set("attention.causal", false);
    Ok(())
}
