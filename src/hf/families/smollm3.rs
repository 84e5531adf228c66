//! SmolLM3: a llama whose every fourth layer has no rotary positions.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys};
use crate::hf::names::{ENDS, GATED, INTERLEAVED_ATTENTION, MODEL, PRE_NORMS, ROTARY_BUFFERS};

/// SmolLM3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "smollm3",
    architecture: "smollm3",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const KEY: &str = "no_rope_layers";
    config.expect_bool("use_sliding_window", false)?;
    // 1 for a layer that has them: the architecture implies which.
    let layers = config.f64s(KEY)?.unwrap_or_default();
    let implied = |i: usize| f64::from(u8::from(!(i + 1).is_multiple_of(4)));
    if let Some((i, found)) = layers.iter().enumerate().find(|(i, found)| **found != implied(*i)) {
        return Err(config.unsupported(
            KEY,
            &format!("{found} for layer {i}"),
            &format!("{} there", implied(i)),
        ));
    }
    llama::keys(config, keys)
}
