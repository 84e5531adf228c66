//! Top-k: the k largest logits, found by selection in linear time.
#![forbid(unsafe_code)]

use super::candidates::{Candidate, Candidates};

pub(super) fn apply(candidates: &mut Candidates, k: usize) {
    if k == 0 || k >= candidates.list().len() {
        return;
    }
    candidates.keep_down_to(|copy| *copy.select_nth_unstable_by(k - 1, Candidate::best_first).1);
}
