//! Locally typical sampling: the tokens whose surprise is closest to the expected one, until their probabilities add up to
//! more than p (Meister et al. 2022, arXiv:2202.00666).
#![forbid(unsafe_code)]

use super::candidates::Candidates;
use crate::error::Result;

pub(super) fn validate(p: f32) -> Result<()> {
    if p > 0.0 && p <= 1.0 {
        return Ok(());
    }
    Err(super::invalid("typical-p", "above 0 and at most 1", p))
}

pub(super) fn apply(candidates: &mut Candidates, p: f32) {
    if p == 1.0 {
        return;
    }
    let distribution = candidates.distribution();
    let share = f64::from(p) * distribution.total as f64;
    candidates.keep_first_of(|copy| {
        // In the copy the logit is replaced by how far its surprise is from the expected one.
        for c in copy.iter_mut() {
            c.logit = (distribution.surprise(c.logit) - distribution.entropy).abs() as f32;
        }
        copy.sort_unstable_by(|a, b| a.logit.total_cmp(&b.logit).then(a.id.cmp(&b.id)));
        let mut sum = 0;
        let reaches = copy.iter().position(|c| {
            sum += c.weight;
            sum as f64 > share
        });
        reaches.map_or(copy.len(), |i| i + 1)
    });
}
