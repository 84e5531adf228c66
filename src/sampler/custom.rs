//! A stage that the host defines.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::candidates::Candidates;
use crate::error::{Error, Result};

/// Reads the candidates, ids in ascending order, and changes their logits: `-inf` rules one out. An error ends the sampling.
type Function = dyn Fn(&[u32], &mut [f32]) -> Result<()> + Send + Sync;

/// A function that changes logits. Clones are the same function.
#[derive(Clone)]
pub struct Custom(Arc<Function>);

impl Custom {
    /// A stage that calls `function`.
    pub fn new(function: impl Fn(&[u32], &mut [f32]) -> Result<()> + Send + Sync + 'static) -> Custom {
        Custom(Arc::new(function))
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

pub(super) fn apply(candidates: &mut Candidates, custom: &Custom) -> Result<()> {
    let (ids, logits) = candidates.logits_mut();
    (custom.0)(ids, logits)?;
    if let Some(i) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        return Err(Error::InvalidArgument(format!(
            "the callback left token {} with the logit {}, expected a number below infinity",
            ids[i], logits[i]
        )));
    }
    logits.iter_mut().for_each(|logit| *logit += 0.0);
    candidates.require_some("the callback's logits")
}
