//! A text under way that follows a constraint.
#![forbid(unsafe_code)]

use std::fmt;

use llguidance::Matcher;
use toktrie::SimpleVob;

use super::Constraint;
use super::grammar::sentence;
use super::trigger::Seen;
use crate::error::{Error, Result, quoted};

/// The progress of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No trigger has come, so none of the text is under the constraint; also between constrained parts, where they may repeat.
    Waiting,
    /// The grammar needs more text.
    Unfinished,
    /// The text matches the grammar; perhaps more may follow.
    Complete,
}

impl Progress {
    /// The progress of the text that is furthest from its end; `None` for no text.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a mut Run>) -> Option<Progress> {
        runs.into_iter().map(Run::progress).min_by_key(|progress| match progress {
            Progress::Unfinished => 0,
            Progress::Waiting => 1,
            Progress::Complete => 2,
        })
    }
}

/// Which tokens may be next.
#[derive(Debug)]
pub enum Mask<'a> {
    /// All.
    Free,
    /// All but these, in ascending order.
    Deny(&'a [u32]),
    /// Those whose bits are set: token `i` is bit `i % 32` of word `i / 32`; none beyond the words.
    Allow(&'a [u32]),
}

/// Where a text is.
enum State {
    /// Before a trigger; the end of the text so far.
    Waiting(Vec<u8>),
    /// In the grammar.
    Within(Box<Matcher>),
}

/// A text under way. Clones continue independently.
pub struct Run {
    constraint: Constraint,
    state: State,
    /// An error, after which nothing continues.
    error: Option<Error>,
    /// A buffer for a mask.
    allowed: Option<SimpleVob>,
    denied: Vec<u32>,
    /// Tokens accepted since the beginning.
    n_taken: usize,
    /// How many triggers have come.
    n_parts: usize,
}

impl Run {
    pub(super) fn new(constraint: Constraint) -> Run {
        let state = Run::beginning(&constraint);
        Run { constraint, state, error: None, allowed: None, denied: Vec::new(), n_taken: 0, n_parts: 0 }
    }

    fn beginning(constraint: &Constraint) -> State {
        match constraint.0.watch {
            Some(_) => State::Waiting(Vec::new()),
            None => State::Within(Box::new(constraint.0.start.deep_clone())),
        }
    }

    /// Its constraint.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        self.state = Run::beginning(&self.constraint);
        self.error = None;
        (self.n_taken, self.n_parts) = (0, 0);
    }

    /// Whether it is at its beginning.
    pub fn is_fresh(&self) -> bool {
        self.n_taken == 0 && self.error.is_none()
    }

    /// Which tokens may be next: at least one, as far as the constraint is concerned. The tokens that end a text are allowed
    /// after the end of the grammar, and only there.
    ///
    /// # Errors
    /// `InvalidArgument` where an accepted token does not fit, or a limit was reached; `NoMemory`.
    pub fn mask(&mut self) -> Result<Mask<'_>> {
        self.check()?;
        super::check_thread()?;
        let inner = &*self.constraint.0;
        match (&mut self.state, &inner.watch) {
            (State::Waiting(tail), Some(watch)) => {
                match inner.most_parts > 0 && self.n_parts >= inner.most_parts {
                    true => watch.deny_all(tail, &inner.vocabulary, &mut self.denied),
                    false => watch.deny(tail, &inner.start, &inner.vocabulary, &mut self.denied),
                }
                if inner.must_begin && self.n_parts == 0 {
                    self.denied.extend(inner.vocabulary.ends());
                    self.denied.sort_unstable();
                }
                Ok(if self.denied.is_empty() { Mask::Free } else { Mask::Deny(&self.denied) })
            }
            (State::Waiting(_), None) => Ok(Mask::Free),
            (State::Within(matcher), _) => {
                let mask = match matcher.is_stopped() && !matcher.is_error() {
                    true => Ok(inner.vocabulary.end_mask()),
                    false => matcher.compute_mask(),
                };
                match mask {
                    Ok(mut mask) => {
                        inner.vocabulary.allow_doubles(&mut mask);
                        Ok(Mask::Allow(self.allowed.insert(mask).as_slice()))
                    }
                    Err(e) => Err(self.fail(Error::InvalidArgument(format!(
                        "the constraint cannot go on: {}",
                        sentence(&e)
                    )))),
                }
            }
        }
    }

    /// Token `id` was generated. If it does not fit, [`Run::mask`] returns the error.
    pub fn accept(&mut self, id: u32) {
        if self.error.is_some() {
            return;
        }
        self.n_taken += 1;
        let inner = &*self.constraint.0;
        let known = inner.vocabulary.original(id);
        let outcome = match &mut self.state {
            State::Waiting(tail) => match inner.watch.as_ref().map(|w| w.take(id, &inner.vocabulary, tail)) {
                Some(Seen::Trigger(rest)) => {
                    self.n_parts += 1;
                    let mut matcher = inner.start.deep_clone();
                    let ids = inner.vocabulary.spell(&rest).unwrap_or_default();
                    let outcome = matcher.consume_tokens(&ids);
                    self.state = State::Within(Box::new(matcher));
                    outcome
                }
                _ => Ok(()),
            },
            State::Within(matcher) if matcher.is_stopped() && inner.vocabulary.is_end(id) => Ok(()),
            State::Within(matcher) => matcher.consume_token(known),
        };
        if outcome.is_err() {
            let bytes = inner.vocabulary.tokenizer().token_bytes(id).unwrap_or_default();
            let text = quoted(bytes);
            self.fail(Error::InvalidArgument(format!(
                "token {id} {text} was accepted, which the constraint does not allow there"
            )));
        } else if let (State::Within(matcher), true) = (&self.state, inner.repeat)
            && matcher.is_stopped()
        {
            self.state = State::Waiting(Vec::new());
        }
    }

    /// The tokens that follow in any case, up to `most`: perhaps none.
    pub fn forced(&mut self, most: usize) -> Vec<u32> {
        match &mut self.state {
            State::Within(matcher) if most > 0 && self.error.is_none() && !matcher.is_stopped() => {
                let mut ids = matcher.compute_ff_tokens();
                ids.truncate(most);
                ids
            }
            _ => Vec::new(),
        }
    }

    /// How many of the tokens `ids` may follow one after the other.
    pub fn viable(&mut self, ids: &[u32]) -> usize {
        let vocabulary = &self.constraint.0.vocabulary;
        match &mut self.state {
            State::Waiting(_) => ids.len(),
            State::Within(_) if self.error.is_some() => 0,
            State::Within(matcher) if matcher.is_stopped() => 0,
            State::Within(matcher) => {
                let known: Vec<u32> = ids.iter().map(|&id| vocabulary.original(id)).collect();
                let exists = |id: &&u32| (**id as usize) < vocabulary.len();
                let n = known.iter().take_while(exists).count();
                matcher.validate_tokens(&known[..n]).unwrap_or(0)
            }
        }
    }

    /// The progress of the text.
    pub fn progress(&mut self) -> Progress {
        match &mut self.state {
            State::Waiting(_) => Progress::Waiting,
            State::Within(_) if self.error.is_some() => Progress::Unfinished,
            State::Within(matcher) if matcher.is_stopped() => Progress::Complete,
            State::Within(matcher) => match matcher.is_accepting() {
                Ok(true) => Progress::Complete,
                _ => Progress::Unfinished,
            },
        }
    }

    fn check(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> Error {
        self.error = Some(error.clone());
        error
    }
}

impl Clone for Run {
    fn clone(&self) -> Run {
        let state = match &self.state {
            State::Waiting(tail) => State::Waiting(tail.clone()),
            State::Within(matcher) => State::Within(Box::new(matcher.deep_clone())),
        };
        Run {
            constraint: self.constraint.clone(),
            state,
            error: self.error.clone(),
            allowed: None,
            denied: Vec::new(),
            n_taken: self.n_taken,
            n_parts: self.n_parts,
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("constraint", &self.constraint).finish_non_exhaustive()
    }
}
