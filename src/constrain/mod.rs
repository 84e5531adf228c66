//! Constraints: text that follows a JSON schema, a regular expression, a grammar or a list of choices.
//!
//! A [`Vocabulary`] is a model's tokens as a trie of bytes, made once for a model. A [`Constraint`] is a grammar compiled for
//! it, which does not change. A [`Run`] is one text under way that follows it: its [`Mask`] says which tokens may be next, and
//! [`Run::accept`] tells it which one was. A constraint may begin after a [`Trigger`].
//!
//! The grammars, and the walk through the trie, are those of the crate `llguidance`. This module adds what it leaves open: where
//! the tokens' bytes come from, what ends a text, triggers, limits, and which grammars no text meets. Without the feature
//! `constraints` `off.rs` takes its place.
//!
//! - A [`Run`] has lexer states of its own. One text never changes another's limits, threads never wait for each other, and a fork finds no
//!   lock held.
//! - A generation's constraint comes before all stages of the sampler. As a stage it stands where it was added.
//! - Tokens that end a text, and tokens without text, begin in the trie with a byte that no text has. So they are allowed only
//!   where the grammar ends. Of tokens with the same bytes the trie has one, and the mask allows the others with it.
//! - Forced text is tokenized by the tokenizer, where that gives exactly these bytes. A generation runs forced tokens ahead like
//!   draft tokens. An engine reports them immediately and runs them in its next batch.
//! - While a trigger is awaited, tokens that complete it and continue with text that the grammar forbids are denied.
//! - All failures come when the constraint is made: warnings of `llguidance` are errors, a grammar must derive a finite text, and
//!   bytes that it may need must be tokens. Bounds count steps, not time, so they are the same on every machine.
#![forbid(unsafe_code)]

mod grammar;
mod options;
mod run;
mod schema;
mod trigger;
mod vocabulary;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;

use crate::error::{Error, Result};
use crate::memory::with_capacity;
use crate::threads;
pub use options::{ConstraintOptions, Grammar, Limits, Trigger};
pub use run::{Mask, Progress, Run};
pub use schema::{expression, read as read_schema};
use trigger::Watch;
pub use vocabulary::Vocabulary;

/// A grammar compiled for a vocabulary. It does not change; clones are the same one.
#[derive(Clone)]
pub struct Constraint(Arc<Compiled>);

/// The content of a [`Constraint`].
struct Compiled {
    vocabulary: Arc<Vocabulary>,
    /// The matcher at the beginning of the grammar. Runs are copies of it.
    start: Matcher,
    /// Triggers; `None`: it begins with the first token.
    watch: Option<Watch>,
    /// Whether text is free again after the end of the grammar.
    repeat: bool,
    most_parts: usize,
    /// Whether a text may not end before the constraint begins.
    must_begin: bool,
}

impl Constraint {
    /// Compiles `grammar` for the tokens of `vocabulary`.
    ///
    /// # Errors
    /// `InvalidArgument` for a grammar that is malformed, larger than its limits or impossible to meet, and for triggers that are
    /// empty or do not exist; `Unsupported`, by name, for features that Ember does not have, and for a vocabulary that cannot
    /// spell it or has no token that ends a text; `NoMemory`.
    pub fn new(
        vocabulary: &Arc<Vocabulary>,
        grammar: Grammar<'_>,
        options: &ConstraintOptions,
    ) -> Result<Constraint> {
        // Each level of nesting in a grammar takes some kilobytes of the stack.
        let start = threads::apart(|| {
            check_thread()?;
            grammar::check(&grammar, options, vocabulary)?;
            grammar::compile(&grammar, options, vocabulary)
        })??;
        let watch = Watch::new(&options.triggers, &options.never, vocabulary)?;
        Ok(Constraint(Arc::new(Compiled {
            vocabulary: Arc::clone(vocabulary),
            start,
            watch,
            repeat: options.repeat,
            most_parts: options.most_parts,
            must_begin: options.must_begin,
        })))
    }

    /// A text under the constraint, at its beginning.
    pub fn start(&self) -> Run {
        Run::new(self.clone())
    }

    /// The vocabulary that it was compiled for.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.0.vocabulary
    }

    /// `InvalidArgument` unless `vocabulary` is the one that it was compiled for.
    pub fn check_vocabulary(&self, vocabulary: &Arc<Vocabulary>) -> Result<()> {
        match Arc::ptr_eq(&self.0.vocabulary, vocabulary) {
            true => Ok(()),
            false => Err(Error::InvalidArgument("the constraint was made for another model".into())),
        }
    }
}

thread_local! {
    /// Whether this thread has the state that `llguidance` keeps for it.
    static IS_READY: Cell<bool> = const { Cell::new(false) };
}

/// `NoMemory` where the system has no memory for this thread's first work with constraints: `llguidance` has a thread-local
/// variable, and the C library ends the process when it cannot register that.
fn check_thread() -> Result<()> {
    if !IS_READY.get() {
        with_capacity::<u8>(1 << 16, "what constraints keep for a thread")?;
        IS_READY.set(true);
    }
    Ok(())
}

impl PartialEq for Constraint {
    fn eq(&self, other: &Constraint) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constraint").field("repeat", &self.0.repeat).finish_non_exhaustive()
    }
}
