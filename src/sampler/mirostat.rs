//! Mirostat 2: leaves out tokens whose surprise exceeds a bound, and moves the bound towards the wanted surprise (Basu et al.
//! 2020, arXiv:2007.14966). Surprise is measured in bits.
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::Result;

pub(super) fn validate(tau: f32, eta: f32) -> Result<()> {
    for (name, value) in [("tau", tau), ("eta", eta)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(super::invalid(name, "finite and ≥ 0", value));
        }
    }
    Ok(())
}

/// The first bound.
pub(super) fn start(tau: f32) -> f64 {
    2.0 * f64::from(tau)
}

/// Leaves out tokens with more surprise than `bound`, except the likeliest.
pub(super) fn apply(candidates: &mut Candidates, bound: f64) {
    let (distribution, max) = (candidates.distribution(), candidates.max());
    let bits = |logit: f32| distribution.surprise(logit) * std::f64::consts::LOG2_E;
    candidates.retain(|c| bits(c.logit) <= bound || c.logit == max);
}

/// The next bound, after a token was drawn whose surprise among the candidates left was `surprise`.
pub(super) fn next(bound: f64, surprise: f64, tau: f32, eta: f32) -> f64 {
    bound - f64::from(eta) * (surprise - f64::from(tau))
}
