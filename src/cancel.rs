//! Ends a call early from elsewhere: the caller sets a [`CancelToken`], and the running call polls it through a [`Watch`].
//! [`Progress`] tells how far a call is.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::error::{Error, Result};

/// A switch that ends the calls it was given to. Clones are the same switch. Any thread may use it at any time, a signal
/// handler too: setting it is one store to memory.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Ends the calls under way that were given this token, and those to come, until [`CancelToken::reset`].
    pub fn cancel(&self) {
        self.0.store(true, SeqCst);
    }

    /// Makes the token ready for new calls. A running call that did not poll it in between goes on.
    pub fn reset(&self) {
        self.0.store(false, SeqCst);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// The tokens of one caller among those that share a call. If any of them is cancelled, this caller no longer wants the call.
pub type Asker = [Option<CancelToken>; 2];

/// What ends a call: its own token, its object's token, or that all callers who share it have cancelled. A watch without tokens
/// never ends a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch<'a> {
    tokens: [Option<&'a CancelToken>; 2],
    askers: &'a [Asker],
}

impl<'a> Watch<'a> {
    /// Watches those of the two tokens that are there.
    pub fn new(one: Option<&'a CancelToken>, other: Option<&'a CancelToken>) -> Watch<'a> {
        Watch { tokens: [one, other], askers: &[] }
    }

    /// Ends the call when all of `askers` are cancelled. There is at least one.
    pub fn of_all(askers: &'a [Asker]) -> Watch<'a> {
        Watch { tokens: [None, None], askers }
    }

    /// Watches the same tokens, and ends the call also when all of `askers` are cancelled, if there are any.
    pub fn or_all(self, askers: &'a [Asker]) -> Watch<'a> {
        Watch { askers, ..self }
    }

    /// The tokens that it watches, and the callers who share the call.
    pub fn parts(&self) -> ([Option<&'a CancelToken>; 2], &'a [Asker]) {
        (self.tokens, self.askers)
    }

    /// Watches `one` in place of the first token.
    pub fn with(self, one: Option<&'a CancelToken>) -> Watch<'a> {
        Watch { tokens: [one, self.tokens[1]], ..self }
    }

    /// Whether one of the tokens is cancelled, or all callers who share the call have cancelled.
    pub fn is_cancelled(&self) -> bool {
        let is_gone = |asker: &Asker| asker.iter().flatten().any(CancelToken::is_cancelled);
        self.tokens.iter().flatten().any(|token| token.is_cancelled())
            || (!self.askers.is_empty() && self.askers.iter().all(is_gone))
    }

    /// The error `Cancelled` if the call is to end.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(cancelled()),
            false => Ok(()),
        }
    }
}

/// The error of a call that its token ended.
pub fn cancelled() -> Error {
    Error::Cancelled("the call was ended by its cancel token".into())
}

/// How much of its work a call has done, in bytes. Clones count together; any thread may count.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<[AtomicU64; 2]>);

impl Progress {
    /// There are `n` more bytes to do.
    pub fn expect(&self, n: u64) {
        self.0[1].fetch_add(n, SeqCst);
    }

    /// `n` more bytes are done.
    pub fn add(&self, n: u64) {
        self.0[0].fetch_add(n, SeqCst);
    }

    /// The share that is done, from 0 to 1; 0 while nobody knows how much there is.
    pub fn share(&self) -> f32 {
        let (done, all) = (self.0[0].load(SeqCst), self.0[1].load(SeqCst));
        match all {
            0 => 0.0,
            all => (done as f64 / all as f64).min(1.0) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_share_of_what_there_is_to_do() {
        let progress = Progress::default();
        assert_eq!(progress.share(), 0.0);
        progress.expect(8);
        progress.clone().add(2);
        assert_eq!(progress.share(), 0.25);
        progress.add(10);
        assert_eq!(progress.share(), 1.0);
    }

    #[test]
    fn either_token_ends_a_call_and_a_reset_takes_it_back() {
        let (one, other) = (CancelToken::new(), CancelToken::new());
        let clone = other.clone();
        let watch = Watch::new(Some(&one), Some(&other));
        assert!(watch.check().is_ok() && Watch::default().check().is_ok());
        clone.cancel();
        assert!(matches!(watch.check(), Err(Error::Cancelled(_))));
        assert!(!one.is_cancelled() && Watch::new(Some(&one), None).check().is_ok());
        other.reset();
        assert!(watch.check().is_ok());
    }

    #[test]
    fn a_call_for_several_ends_when_all_of_them_are_cancelled() {
        let [one, two, three, own] = [(); 4].map(|()| CancelToken::new());
        let askers = [[Some(one.clone()), None], [Some(two.clone()), Some(three.clone())]];
        let watch = Watch::of_all(&askers).with(Some(&own));
        one.cancel();
        assert!(watch.check().is_ok() && Watch::of_all(&[]).check().is_ok());
        three.cancel();
        assert!(watch.is_cancelled());
        one.reset();
        assert!(!watch.is_cancelled());
        own.cancel();
        assert!(watch.is_cancelled());
    }
}
