//! Stands in for `constrain` in builds without the feature `constraints`: there is no constraint, and making one is refused.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

mod options;

pub use options::{ConstraintOptions, Grammar, Limits, Trigger};

/// Refuses.
///
/// # Errors
/// `Unsupported`.
#[cfg(any(feature = "chat", feature = "hf"))]
pub fn read_schema(_: &str, _: &ConstraintOptions) -> Result<serde_json::Value> {
    Err(Error::Unsupported(
        "a constraint needs the feature \"constraints\", which this build of Ember is without".into(),
    ))
}

/// No format of texts is known.
pub fn expression(_: &str) -> Option<String> {
    None
}

/// The tokens of a model, arranged for constraints; never.
pub struct Vocabulary(Never);

impl Vocabulary {
    /// Refuses.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn new(_: &Arc<Tokenizer>) -> Result<Vocabulary> {
        Err(Error::Unsupported(
            "a constraint needs the feature \"constraints\", which this build of Ember is without".into(),
        ))
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        match self.0 {}
    }

    /// Whether a token ends a text.
    pub fn is_end(&self, _: u32) -> bool {
        match self.0 {}
    }
}

/// An empty type. Types that hold one cannot be made, which only this file knows: other code is compiled as ever.
#[derive(Debug, Clone, PartialEq)]
enum Never {}

/// A constraint; there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint(Never);

impl Constraint {
    /// There is no vocabulary to make one for.
    ///
    /// # Errors
    /// None.
    pub fn new(vocabulary: &Arc<Vocabulary>, _: Grammar<'_>, _: &ConstraintOptions) -> Result<Constraint> {
        match vocabulary.0 {}
    }

    /// A text.
    pub fn start(&self) -> Run {
        match self.0 {}
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        match self.0 {}
    }

    /// Whether they are the model's.
    ///
    /// # Errors
    /// None.
    pub fn check_vocabulary(&self, _: &Arc<Vocabulary>) -> Result<()> {
        match self.0 {}
    }
}

/// How far a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// See the feature.
    Waiting,
    /// See the feature.
    Unfinished,
    /// See the feature.
    Complete,
}

impl Progress {
    /// No texts, no progress.
    pub fn of<'a>(_: impl IntoIterator<Item = &'a mut Run>) -> Option<Progress> {
        None
    }
}

/// Which tokens may be next.
#[derive(Debug)]
pub enum Mask<'a> {
    /// All.
    Free,
    /// All but these.
    Deny(&'a [u32]),
    /// These.
    Allow(&'a [u32]),
}

/// A text under a constraint; there is none.
#[derive(Debug, Clone)]
pub struct Run(Never);

impl Run {
    /// The constraint.
    pub fn constraint(&self) -> &Constraint {
        match self.0 {}
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        match self.0 {}
    }

    /// Whether it stands where it began.
    pub fn is_fresh(&self) -> bool {
        match self.0 {}
    }

    /// Which tokens may be next.
    ///
    /// # Errors
    /// None.
    pub fn mask(&mut self) -> Result<Mask<'_>> {
        match self.0 {}
    }

    /// A token was generated.
    pub fn accept(&mut self, _: u32) {
        match self.0 {}
    }

    /// Tokens without a choice.
    pub fn forced(&mut self, _: usize) -> Vec<u32> {
        match self.0 {}
    }

    /// How many tokens may follow.
    pub fn viable(&mut self, _: &[u32]) -> usize {
        match self.0 {}
    }
}
