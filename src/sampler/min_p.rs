//! Min-p: tokens at least a share as probable as the likeliest (Nguyen et al. 2024, arXiv:2407.01082).
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::Result;

pub(super) fn validate(p: f32) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(super::invalid("min-p", "0 to 1", p))
}

pub(super) fn apply(candidates: &mut Candidates, p: f32) {
    if p == 0.0 {
        return;
    }
    let (max, least) = (candidates.max(), libm::log(f64::from(p)));
    candidates.retain(|c| f64::from(c.logit - max) >= least);
}
