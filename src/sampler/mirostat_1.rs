//! Mirostat's first version: estimates from the likeliest tokens how fast probabilities fall, and keeps as many tokens as give
//! the surprise of a bound (Basu et al. 2020, arXiv:2007.14966, algorithm 1).
#![forbid(unsafe_code)]

use super::candidates::{Candidate, Candidates};
use crate::error::{Error, Result};

/// The most tokens to estimate from.
const MOST: usize = 1 << 20;

pub(super) fn validate(tau: f32, eta: f32, m: usize) -> Result<()> {
    super::mirostat::validate(tau, eta)?;
    match m {
        2..=MOST => Ok(()),
        _ => Err(Error::InvalidArgument(format!("m must be 2 to {MOST}, got {m}"))),
    }
}

/// Keeps the likeliest tokens; `n_vocab` is the size of the vocabulary.
pub(super) fn apply(candidates: &mut Candidates, bound: f64, m: usize, n_vocab: usize) {
    if candidates.len() < 2 {
        return;
    }
    candidates.keep_first_of(|copy| {
        let m = m.min(copy.len());
        if m < copy.len() {
            copy.select_nth_unstable_by(m - 1, Candidate::best_first);
        }
        copy[..m].sort_unstable_by(Candidate::best_first);
        // An earlier stage may have ruled tokens out without removing them.
        let possible = copy[..m].iter().take_while(|c| c.logit > f32::NEG_INFINITY).count();
        let kept = number(&copy[..possible], bound, n_vocab).min(copy.len());
        if kept < copy.len() {
            copy.select_nth_unstable_by(kept - 1, Candidate::best_first);
        }
        kept
    });
}

/// How many tokens are kept, given the likeliest ones in order.
fn number(best: &[Candidate], bound: f64, n_vocab: usize) -> usize {
    let (mut products, mut squares) = (0.0, 0.0);
    for (i, pair) in best.windows(2).enumerate() {
        let t = libm::log((i + 2) as f64 / (i + 1) as f64);
        products += t * (f64::from(pair[0].logit) - f64::from(pair[1].logit));
        squares += t * t;
    }
    if best.len() < 2 {
        return 1;
    }
    let s = products / squares;
    let epsilon = s - 1.0;
    // Where ε vanishes, the share does too: the limit.
    let share = match epsilon.abs() < 1e-9 {
        true => 1.0 / libm::log(n_vocab as f64),
        false => epsilon / (1.0 - libm::pow(n_vocab as f64, -epsilon)),
    };
    let k = libm::pow(share * libm::pow(2.0, bound), 1.0 / s);
    // For equal probabilities s is 0, and all are kept or none.
    if k >= usize::MAX as f64 { usize::MAX } else { (k as usize).max(1) }
}
