//! Dynamic temperature: the temperature grows with the entropy of the distribution, from `temperature - range` for a
//! certain token to `temperature + range` for tokens that are equally likely (entropy-based dynamic temperature, as
//! introduced in koboldcpp: <https://github.com/LostRuins/koboldcpp/releases/tag/v1.52.1>).
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::Result;

pub(super) fn validate(temperature: f32, range: f32, exponent: f32) -> Result<()> {
    super::temperature::validate(temperature)?;
    for (name, value) in [("range", range), ("exponent", exponent)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(super::invalid(name, "finite and ≥ 0", value));
        }
    }
    Ok(())
}

pub(super) fn apply(candidates: &mut Candidates, temperature: f32, range: f32, exponent: f32) {
    let n = candidates.len();
    if range == 0.0 || n < 2 {
        return super::temperature::apply(candidates, temperature);
    }
    let (least, most) = ((temperature - range).max(0.0), (temperature + range).min(f32::MAX));
    let part = (candidates.distribution().entropy / libm::log(n as f64)).clamp(0.0, 1.0);
    let grown = f64::from(most - least) * libm::pow(part, f64::from(exponent));
    super::temperature::apply(candidates, (least + grown as f32).min(f32::MAX));
}
