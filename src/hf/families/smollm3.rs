//! SmolLM3: a llama whose every fourth layer has no rotary positions.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, N_LAYER};
use crate::hf::names::{ENDS, GATED, INTERLEAVED_ATTENTION, LLAMA_BIASES, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

/// SmolLM3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "smollm3",
    architecture: "smollm3",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: LLAMA_BIASES,
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const KEY: &str = "no_rope_layers";
    config.expect_bool("use_sliding_window", false)?;
    llama::plain(config, keys)?;
    let n_layer = config.count(N_LAYER)? as usize;
    // 1 for a layer that has them: the architecture implies which.
    let implied = |i: usize| f64::from(u8::from(!(i + 1).is_multiple_of(4)));
    const INTERVAL: &str = "no_rope_layer_interval";
    let Some(layers) = config.f64s(KEY)? else {
        if let Some(found) = config.u32(&[INTERVAL])?.filter(|found| *found != 4) {
            return Err(config.unsupported(INTERVAL, &found.to_string(), "4"));
        }
        return Rotary { theta: 2e6, ..WHOLE_HEADS }.write(config, keys);
    };
    if layers.len() < n_layer {
        let found = format!("an array of {}", layers.len());
        return Err(config.unsupported(KEY, &found, &format!("one for each of {n_layer} layers")));
    }
    if let Some((i, found)) = layers.iter().enumerate().find(|(i, found)| **found != implied(*i)) {
        return Err(config.unsupported(
            KEY,
            &format!("{found} for layer {i}"),
            &format!("{} there", implied(i)),
        ));
    }
    Rotary { theta: 2e6, ..WHOLE_HEADS }.write(config, keys)
}
