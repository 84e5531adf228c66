//! Top-k: the k largest logits, found by selection in linear time.
#![forbid(unsafe_code)]

use super::candidates::Candidates;

pub(super) fn apply(candidates: &mut Candidates, k: usize) {
    if k > 0 {
        candidates.keep_best(k);
    }
}
