//! Rotary frequencies from a file's keys: base, scaling, and factors stored as tensors.
#![forbid(unsafe_code)]

use super::bind::Binder;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::RopeStyle;
use crate::nn::attention::RopeParams;

/// RoPE base where the file does not say.
pub const DEFAULT_FREQ_BASE: f32 = 10_000.0;
/// Most rotated elements of a head: far beyond real models. Their frequencies take little memory, which matters since they are
/// computed before any tensor has proved the length of heads.
const MAX_ROTARY: usize = 1 << 16;
/// The tensor of divisors of pairs' frequencies.
const FACTORS: &str = "rope_freqs.weight";
/// Where the file does not say: with more rotations over the original context than the first number YaRN leaves a pair unchanged,
/// with fewer than the second it interpolates fully (Peng et al. 2023, section 3.2).
const YARN_BETA: (f32, f32) = (32.0, 1.0);

/// Rotary parameters for heads of length `head_dim`, by the keys `rope.*` and the tensors `rope_*.weight`.
pub fn params<B: Backend>(file: &mut Binder<'_, B>, head_dim: usize, style: RopeStyle) -> Result<RopeParams> {
    params_from(file, head_dim, style, DEFAULT_FREQ_BASE)
}

/// As [`params`] for models whose YaRN begins and ends at exactly the given numbers of rotations, which may lie between two pairs.
pub fn params_untruncated<B: Backend>(
    file: &mut Binder<'_, B>,
    head_dim: usize,
    style: RopeStyle,
) -> Result<RopeParams> {
    params_with(file, head_dim, style, (DEFAULT_FREQ_BASE, false))
}

/// As [`params`]; `base` is used where the file has no key `rope.freq_base`.
pub fn params_from<B: Backend>(
    file: &mut Binder<'_, B>,
    head_dim: usize,
    style: RopeStyle,
    base: f32,
) -> Result<RopeParams> {
    params_with(file, head_dim, style, (base, true))
}

fn params_with<B: Backend>(
    file: &mut Binder<'_, B>,
    head_dim: usize,
    style: RopeStyle,
    (base, truncate): (f32, bool),
) -> Result<RopeParams> {
    let n_rot = n_rot(file, head_dim)?;
    let base = file.optional_positive("rope.freq_base")?.unwrap_or(base);
    let plain = frequencies(base, n_rot);
    finite(&plain, || file.key("rope.freq_base"))?;
    let own = match file.has(FACTORS) {
        true => divided(&plain, file, FACTORS)?,
        false => plain.clone(),
    };
    // Older files give a factor, under one of two keys, without the type of scaling, which is linear.
    let (scaling_key, factor) = match file.optional_positive("rope.scaling.factor")? {
        Some(factor) => ("rope.scaling.factor", factor),
        None => ("rope.scale_linear", file.optional_positive("rope.scale_linear")?.unwrap_or(1.0)),
    };
    let mut magnitude = file.optional_positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let n_ctx_original = original_n_ctx(file)?;
    let scaling = file.optional_str("rope.scaling.type")?;
    if file.has("rope_factors_long.weight") && matches!(scaling, None | Some("none" | "longrope")) {
        // LongRoPE (Ding et al. 2024): one set of factors up to the original context length, another beyond.
        let long = divided(&plain, file, "rope_factors_long.weight")?;
        let short = divided(&plain, file, "rope_factors_short.weight")?;
        let long = Some((n_ctx_original, narrow(&long)));
        return Ok(RopeParams { inv_freq: narrow(&short), magnitude, style, long });
    }
    let inv_freq: Vec<f64> = match scaling {
        Some("none") => own,
        None | Some("linear") => own.iter().map(|f| f / f64::from(factor)).collect(),
        Some("yarn") => {
            // The model's own number instead of the paper's 1.
            let multiplier = file.optional_number("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
            magnitude *= stretched(factor, 1.0) / stretched(factor, multiplier);
            finite(&[magnitude.into()], || file.key("rope.scaling.yarn_log_multiplier"))?;
            yarn(file, &own, (base, truncate), factor, n_ctx_original)?
        }
        Some(other) => {
            return Err(Error::Unsupported(format!(
                "the rope scaling {} ({}) is not supported; supported are: none, linear, yarn, longrope",
                quoted(other.as_bytes()),
                file.called("rope.scaling.type")
            )));
        }
    };
    finite(&inv_freq, || file.key(scaling_key))?;
    Ok(RopeParams { inv_freq: narrow(&inv_freq), magnitude, style, long: None })
}

/// As [`params`] for layers that have a base of their own and no scaling: `base` is used where the file has no key
/// `rope.freq_base_swa`.
pub fn local_params<B: Backend>(
    file: &mut Binder<'_, B>,
    head_dim: usize,
    style: RopeStyle,
    base: f32,
) -> Result<RopeParams> {
    let base = file.optional_positive("rope.freq_base_swa")?.unwrap_or(base);
    let inv_freq = frequencies(base, n_rot(file, head_dim)?);
    finite(&inv_freq, || file.key("rope.freq_base_swa"))?;
    Ok(RopeParams { inv_freq: narrow(&inv_freq), magnitude: 1.0, style, long: None })
}

/// Checks the sections of rotary dimensions: an image has a position for each of the first three, a text the same one for all.
/// The fourth has none.
pub fn sections<B: Backend>(file: &Binder<'_, B>) -> Result<()> {
    let name = "rope.dimension_sections";
    if !file.has_key(name) {
        return Ok(());
    }
    let sections = file.counts(name, 4)?;
    file.refuse(
        name,
        sections.len() != 4 || sections[3] != 0,
        "other than three sections of rotary positions",
    )
}

/// As [`local_params`] for heads with a length of their own, of which `rope.dimension_count_swa` elements are rotated.
pub fn local_params_of<B: Backend>(
    file: &Binder<'_, B>,
    head_dim: usize,
    style: RopeStyle,
    base: f32,
) -> Result<RopeParams> {
    let base = file.optional_positive("rope.freq_base_swa")?.unwrap_or(base);
    let n_rot = check_n_rot(file, head_dim, "rope.dimension_count_swa")?;
    let inv_freq = frequencies(base, n_rot);
    finite(&inv_freq, || file.key("rope.freq_base_swa"))?;
    Ok(RopeParams { inv_freq: narrow(&inv_freq), magnitude: 1.0, style, long: None })
}

/// Positions the model was first trained on, before its context was extended.
pub fn original_n_ctx<B: Backend>(file: &Binder<'_, B>) -> Result<usize> {
    match file.optional_dim("rope.scaling.original_context_length")? {
        Some(n) => Ok(n),
        None => file.dim("context_length"),
    }
}

/// Elements of a head that are rotated.
fn n_rot<B: Backend>(file: &Binder<'_, B>, head_dim: usize) -> Result<usize> {
    check_n_rot(file, head_dim, "rope.dimension_count")
}

/// The same by the key `name`.
fn check_n_rot<B: Backend>(file: &Binder<'_, B>, head_dim: usize, name: &str) -> Result<usize> {
    let n_rot = file.optional_dim(name)?.unwrap_or(head_dim);
    if n_rot > head_dim.min(MAX_ROTARY) || !n_rot.is_multiple_of(2) {
        return Err(Error::Format(format!(
            "heads of length {head_dim} cannot be rotated in {n_rot} dimensions ({}): expected an even number up to the \
             length and to {MAX_ROTARY}",
            file.called(name)
        )));
    }
    Ok(n_rot)
}

/// `base^(-2i/n_rot)` for each rotated pair (Su et al. 2021).
fn frequencies(base: f32, n_rot: usize) -> Vec<f64> {
    (0..n_rot / 2).map(|i| libm::pow(f64::from(base), -2.0 * i as f64 / n_rot as f64)).collect()
}

/// Frequencies divided by the factors in the tensor `name`, which must be finite and above 0.
fn divided<B: Backend>(inv_freq: &[f64], file: &mut Binder<'_, B>, name: &str) -> Result<Vec<f64>> {
    let factors = file.f32s(name, inv_freq.len())?;
    let divided: Vec<f64> = inv_freq.iter().zip(&factors).map(|(f, &factor)| f / f64::from(factor)).collect();
    let fits = |factor: f32, f: f64| factor > 0.0 && factor.is_finite() && (f as f32).is_finite();
    match factors.iter().zip(&divided).position(|(&factor, &f)| !fits(factor, f)) {
        None => Ok(divided),
        Some(i) => {
            let outcome = match divided[i] as f32 {
                f if !f.is_finite() => "not finite",
                f if f < 0.0 => "below 0",
                _ => "0",
            };
            Err(Error::Format(format!(
                "the rope frequency of pair {i} is {outcome}: element {i} of the tensor \"{name}\" is {:?}, expected \
                 a finite number above 0 that the frequency {} can be divided by",
                factors[i], inv_freq[i]
            )))
        }
    }
}

/// YaRN's mix of interpolated and unchanged frequencies (Peng et al. 2023, equations 17 to 20). `n_ctx` is the context that the
/// model was first trained on; with `truncate` the mix begins and ends with whole pairs.
fn yarn<B: Backend>(
    file: &Binder<'_, B>,
    inv_freq: &[f64],
    (base, truncate): (f32, bool),
    factor: f32,
    n_ctx: usize,
) -> Result<Vec<f64>> {
    let beta = |name: &str, default: f32| {
        file.optional_positive(name).map(|beta| f64::from(beta.unwrap_or(default)))
    };
    let beta_fast = beta("rope.scaling.yarn_beta_fast", YARN_BETA.0)?;
    let beta_slow = beta("rope.scaling.yarn_beta_slow", YARN_BETA.1)?;
    let n_rot = 2 * inv_freq.len();
    // The pair that makes `rotations` rotations over the original context.
    let pair = |rotations: f64| {
        let turns = n_ctx as f64 / (rotations * 2.0 * std::f64::consts::PI);
        n_rot as f64 * libm::log(turns) / (2.0 * libm::log(f64::from(base)))
    };
    let [low, high] = match (truncate, pair(beta_fast), pair(beta_slow)) {
        (true, low, high) => [libm::floor(low), libm::ceil(high)],
        (false, low, high) => [low, high],
    };
    let (low, high) = (low.max(0.0), high.min(n_rot as f64 - 1.0));
    let mix = |(i, &f): (usize, &f64)| {
        let interpolated = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        f / f64::from(factor) * interpolated + f * (1.0 - interpolated)
    };
    Ok(inv_freq.iter().enumerate().map(mix).collect())
}

/// YaRN's factor on keys and queries (equation 22), as in transformers and llama.cpp: a context that is not longer than the
/// original one changes nothing. `multiplier` is 1 in the paper.
pub fn stretched(factor: f32, multiplier: f32) -> f32 {
    if factor > 1.0 { 1.0 + 0.1 * multiplier * libm::logf(factor) } else { 1.0 }
}

/// Refuses frequencies beyond f32, and names the `key` that caused them.
fn finite(inv_freq: &[f64], key: impl Fn() -> String) -> Result<()> {
    match inv_freq.iter().position(|&f| !(f as f32).is_finite()) {
        Some(i) => Err(Error::Format(format!(
            "the rope frequency of pair {i} is not finite: the number of the key \"{}\" is too small",
            key()
        ))),
        None => Ok(()),
    }
}

fn narrow(inv_freq: &[f64]) -> Vec<f32> {
    inv_freq.iter().map(|&f| f as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::stretched;

    #[test]
    fn yarn_stretches_nothing_where_the_context_is_not_longer() {
        assert_eq!([0.25, 0.5, 1.0].map(|factor| stretched(factor, 1.0)), [1.0; 3]);
        // 1 + 0.1 ln 4.
        assert!((stretched(4.0, 1.0) - 1.138_629_4).abs() < 1e-6);
    }
}
