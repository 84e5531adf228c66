//! Rotary positions: `rope_parameters` of transformers 5, or `rope_theta` beside `rope_scaling` of earlier versions.
#![forbid(unsafe_code)]

use std::f64::consts::TAU;

use super::config::Config;
use super::family::{Keys, head_dim};
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// The base where nobody says.
const DEFAULT_THETA: f64 = 10_000.0;
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The object that describes the rotary positions of `kind` of layers, where kinds differ, or else of all.
fn parameters<'a>(config: &Config<'a>, kind: &str) -> Result<Option<Config<'a>>> {
    match config.object(&["rope_parameters", "rope_scaling"])? {
        Some(all) if all.has(FULL) || all.has(SLIDING) => all.object(&[kind]),
        other => Ok(other),
    }
}

/// The base of the frequencies.
fn theta(config: &Config<'_>) -> Result<Option<f64>> {
    match parameters(config, FULL)?.map(|rope| rope.f64(&["rope_theta"])).transpose()?.flatten() {
        Some(theta) => Ok(Some(theta)),
        None => config.f64(&["rope_theta", "rotary_emb_base"]),
    }
}

/// Which part of a head is rotated; `default` where nobody says.
pub fn partial_factor(config: &Config<'_>, default: f64) -> Result<f64> {
    const KEYS: &[&str] = &["partial_rotary_factor", "rotary_pct"];
    let inside = parameters(config, FULL)?.map(|rope| rope.f64(KEYS)).transpose()?.flatten();
    let factor = inside.or(config.f64(KEYS)?).unwrap_or(default);
    match factor > 0.0 && factor <= 1.0 {
        true => Ok(factor),
        false => Err(config.unsupported(KEYS[0], &factor.to_string(), "a number above 0 and at most 1")),
    }
}

/// The kind of scaling and its parameters; `None` for none.
pub fn scaling<'a>(config: &Config<'a>) -> Result<Option<(&'a str, Config<'a>)>> {
    let Some(rope) = parameters(config, FULL)? else { return Ok(None) };
    match rope.str(&["rope_type", "type"])? {
        None | Some("default") => Ok(None),
        Some(kind) => Ok(Some((kind, rope))),
    }
}

/// Writes the base of the frequencies.
pub fn write_base(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set_f32("rope.freq_base", theta(config)?);
    Ok(())
}

/// Writes the base, and the scaling by `linear`, `yarn` or `llama3`.
pub fn write(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    write_base(config, keys)?;
    let Some((kind, rope)) = scaling(config)? else { return Ok(()) };
    match kind {
        "linear" => {
            keys.set("rope.scaling.type", "linear");
            keys.set_f32("rope.scaling.factor", Some(rope.require_f64(&["factor"])?));
        }
        "yarn" => yarn(config, &rope, keys)?,
        "llama3" => {
            // The families that turn a part of each head have said so by now.
            let n_rot = match keys.count("rope.dimension_count") {
                Some(n) => n as u32,
                None => head_dim(config)?,
            };
            let factors = llama3(config, &rope, n_rot)?;
            keys.vectors.push(("rope_freqs.weight", factors));
        }
        other => {
            return Err(rope.unsupported(
                "rope_type",
                &quoted(other.as_bytes()),
                "default, linear, llama3, yarn",
            ));
        }
    }
    Ok(())
}

/// Writes the base of the layers that see a window.
pub fn write_local_base(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let inside = parameters(config, SLIDING)?.filter(|_| !config.has("rope_local_base_freq"));
    let inside = inside.map(|rope| rope.f64(&["rope_theta"])).transpose()?.flatten();
    let base = config.f64(&["rope_local_base_freq"])?.or(inside).unwrap_or(DEFAULT_THETA);
    keys.set_f32("rope.freq_base_swa", Some(base));
    Ok(())
}

/// YaRN (Peng et al. 2023). The scores' factor, where the model has its own, is relative to the paper's in GGUF.
fn yarn(config: &Config<'_>, rope: &Config<'_>, keys: &mut Keys) -> Result<()> {
    rope.expect_bool("truncate", true)?;
    let factor = rope.require_f64(&["factor"])?;
    if factor < 1.0 {
        return Err(rope.unsupported("factor", &factor.to_string(), "at least 1"));
    }
    let n_ctx_orig = match rope.optional_count(&["original_max_position_embeddings"])? {
        Some(n) => n,
        None => config.count(&["max_position_embeddings"])?,
    };
    keys.set("rope.scaling.type", "yarn");
    keys.set_f32("rope.scaling.factor", Some(factor));
    keys.set("rope.scaling.original_context_length", n_ctx_orig);
    keys.set_f32("rope.scaling.yarn_beta_fast", rope.f64(&["beta_fast"])?);
    keys.set_f32("rope.scaling.yarn_beta_slow", rope.f64(&["beta_slow"])?);
    let mscale = |m: f64| 0.1 * m * libm::log(factor) + 1.0;
    let own =
        match (rope.positive(&["attention_factor"])?, rope.f64(&["mscale"])?, rope.f64(&["mscale_all_dim"])?)
        {
            (Some(own), ..) => Some(own),
            (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => {
                let own = mscale(m) / mscale(all);
                if !(own > 0.0 && own.is_finite()) {
                    let expected = "a number that gives a factor above 0 beside \"mscale\"";
                    return Err(rope.unsupported("mscale_all_dim", &all.to_string(), expected));
                }
                Some(own)
            }
            _ => None,
        };
    keys.set_f32("rope.scaling.attn_factor", own.map(|own| own / mscale(1.0)));
    Ok(())
}

/// What each frequency is divided by under Llama 3.1's rule, one number for each pair of the `n_rot` elements of a head that
/// are turned.
fn llama3(config: &Config<'_>, rope: &Config<'_>, n_rot: u32) -> Result<Vec<f32>> {
    let theta = theta(config)?.unwrap_or(DEFAULT_THETA);
    let factor = rope.require_f64(&["factor"])?;
    let low = rope.require_f64(&["low_freq_factor"])?;
    let high = rope.require_f64(&["high_freq_factor"])?;
    let n_ctx_orig = match rope.f64(&["original_max_position_embeddings"])? {
        Some(n) => n,
        None => config.require_f64(&["max_position_embeddings"])?,
    };
    if !(theta > 0.0 && factor > 0.0 && low > 0.0 && high > low && n_ctx_orig > 0.0) {
        return Err(rope.unsupported(
            "factor",
            &factor.to_string(),
            "positive numbers, \"high_freq_factor\" above \"low_freq_factor\"",
        ));
    }
    if n_rot > MAX_ROTARY {
        return Err(Error::Format(format!(
            "config.json: a head of {n_rot} elements, expected at most {MAX_ROTARY}"
        )));
    }
    let of_pair = |i: u32| {
        let wavelength = TAU * libm::pow(theta, f64::from(2 * i) / f64::from(n_rot));
        let divisor = if wavelength < n_ctx_orig / high {
            1.0
        } else if wavelength > n_ctx_orig / low {
            factor
        } else {
            let smooth = (n_ctx_orig / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        divisor as f32
    };
    Ok((0..n_rot / 2).map(of_pair).collect())
}

/// Longest head for which factors are computed: far beyond real models, and little memory.
const MAX_ROTARY: u32 = 1 << 16;
