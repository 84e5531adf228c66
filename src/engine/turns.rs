//! Which thread does the steps of an engine without a thread of its own: the threads that wait for their requests do them, one at
//! a time.
//!
//! A thread that stops doing steps calls one of those that wait, which goes on; the rest sleep until there is news of their own
//! request.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use super::Shared;
use super::request::State;
use crate::threads::Mutex;

/// The threads that wait while another does the steps.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Tickets>);

#[derive(Default)]
struct Tickets {
    next: u64,
    /// The latest last.
    all: Vec<(u64, Arc<State>)>,
}

impl Waiting {
    /// Adds the owner of `state`'s request, if `still` returns true. The returned ticket is for [`Waiting::leave`].
    fn enter(&self, state: &Arc<State>, still: impl FnOnce() -> bool) -> Option<u64> {
        let mut tickets = self.0.lock();
        still().then(|| {
            let ticket = tickets.next;
            tickets.next += 1;
            tickets.all.push((ticket, Arc::clone(state)));
            ticket
        })
    }

    /// Takes the owner of `ticket` out. Returns whether it was called.
    fn leave(&self, ticket: u64) -> bool {
        let mut tickets = self.0.lock();
        match tickets.all.iter().position(|(other, _)| *other == ticket) {
            Some(at) => {
                tickets.all.remove(at);
                false
            }
            None => true,
        }
    }

    /// Whether a thread holds the lock for good, perhaps one of a parent process that does not exist here.
    pub(super) fn is_held(&self) -> bool {
        self.0.lock_or_give_up().is_none()
    }

    /// Takes all out, which belong to another process.
    pub(super) fn clear(&self) {
        self.0.lock().all.clear();
    }

    /// Calls one of those that wait.
    fn call(&self) {
        // The lock is released first.
        let called = self.0.lock().all.pop();
        if let Some((_, state)) = called {
            state.call();
        }
    }
}

impl Shared {
    /// Waits for news of a request, no longer than `until`, or, in an engine without a thread, until no thread does the steps any
    /// more. Returns whether the caller was called to do them.
    pub(super) fn wait_for_news(&self, state: &Arc<State>, until: Option<Instant>) -> bool {
        let n_calls = state.n_calls();
        if self.has_thread {
            state.wait(n_calls, until);
            return false;
        }
        // The thread at the pump looks for waiting ones when it has left it.
        let Some(ticket) = self.waiting.enter(state, || self.pump.is_locked()) else { return false };
        state.wait(n_calls, until);
        self.waiting.leave(ticket)
    }
}

/// The turn of a thread to do the steps. When it ends, after a panic too, one of those that wait is called, unless another does
/// steps already.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    /// Whether it has begun.
    pub(super) is_mine: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(shared: &'a Shared) -> Turn<'a> {
        Turn { shared, is_mine: false }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_mine && !self.shared.pump.is_locked() {
            self.shared.waiting.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_called_and_knows_it_and_nobody_is_called_twice() {
        let waiting = Waiting::default();
        let [one, other] = [(); 2].map(|()| Arc::new(State::new(None)));
        assert_eq!(waiting.enter(&one, || false), None);
        let tickets = [&one, &other, &one].map(|state| waiting.enter(state, || true).expect("it waits"));
        let before = one.n_calls();
        waiting.call();
        assert_eq!((one.n_calls(), other.n_calls()), (before + 1, 0));
        // A called thread does not sleep, however late it is.
        one.wait(before, None);
        assert!(waiting.leave(tickets[2]) && !waiting.leave(tickets[0]));
        waiting.call();
        assert_eq!((one.n_calls(), other.n_calls()), (before + 1, 1));
        assert!(waiting.leave(tickets[1]));
        waiting.call();
        assert_eq!((one.n_calls(), other.n_calls()), (before + 1, 1), "nobody waits");
    }
}
