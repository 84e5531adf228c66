//! One generation for its owner.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::{Shared, Turn, sleep};
use crate::cancel::{Asker, CancelToken};
use crate::error::{Error, Result};
use crate::generate::{Event, EventKind, FinishReason, Token, TokenLogprob, Usage};
use crate::threads::{self, Condvar, Mutex};

/// What is called with a request's events.
pub type EventCallback = Box<dyn FnMut(&Event<'_>) -> ControlFlow<()> + Send>;

/// Where a request's events go.
pub enum Sink {
    /// They are kept until [`Request::next`] takes them.
    Pull,
    /// To this, on the thread that does the step; `Break` ends the request, and no more events come. The last event says why it
    /// ended; for [`FinishReason::Failed`], [`Request::error`] gives the error.
    Callback(EventCallback),
}

/// An event that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvent {
    text: String,
    bytes: Vec<u8>,
    tops: Vec<TokenLogprob>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Echo,
    Token { id: u32, logprob: Option<f32> },
    End(FinishReason),
}

impl OwnedEvent {
    fn of(event: &Event<'_>) -> OwnedEvent {
        let (bytes, tops, kind) = match event.kind {
            EventKind::Echo => (Vec::new(), Vec::new(), Kind::Echo),
            EventKind::Token(Token { id, bytes, logprob, tops }) => {
                (bytes.to_vec(), tops.to_vec(), Kind::Token { id, logprob })
            }
            EventKind::End(reason) => (Vec::new(), Vec::new(), Kind::End(reason)),
        };
        OwnedEvent { text: event.text.to_owned(), bytes, tops, kind }
    }

    /// The event.
    pub fn event(&self) -> Event<'_> {
        let kind = match self.kind {
            Kind::Echo => EventKind::Echo,
            Kind::Token { id, logprob } => {
                EventKind::Token(Token { id, bytes: &self.bytes, logprob, tops: &self.tops })
            }
            Kind::End(reason) => EventKind::End(reason),
        };
        Event { text: &self.text, kind }
    }
}

/// The state that the engine and the owner share.
pub(super) struct State {
    /// The owner's cancel token, and that of the request's options.
    pub(super) cancel: Asker,
    reported: Mutex<Reported>,
    /// Notified when `reported` has something new.
    news: Condvar,
    /// The process that made it.
    process: u32,
}

/// What is reported to the owner.
#[derive(Default)]
struct Reported {
    events: VecDeque<OwnedEvent>,
    usage: Usage,
    error: Option<Error>,
    /// Whether its end was reported: its callback is not called any more.
    is_over: bool,
    /// How often a waiting owner was called to do the steps.
    n_calls: u64,
}

impl State {
    pub(super) fn new(cancel: Option<CancelToken>) -> State {
        State {
            cancel: [Some(CancelToken::new()), cancel],
            reported: Mutex::default(),
            news: Condvar::default(),
            process: threads::process(),
        }
    }

    /// See [`Job::is_held`].
    pub(super) fn is_held(&self) -> bool {
        self.reported.lock_or_give_up().is_none()
    }

    /// What was reported to the owner. `InvalidArgument` in a child process made by `fork` where a thread of the parent was
    /// reading it then.
    fn reported(&self) -> Result<MutexGuard<'_, Reported>> {
        if self.process == threads::process() {
            return Ok(self.reported.lock());
        }
        self.reported.lock_or_give_up().ok_or_else(|| {
            let parent = self.process;
            Error::InvalidArgument(format!(
                "the request was made before fork(), in process {parent}, which was at work on it"
            ))
        })
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.iter().flatten().any(CancelToken::is_cancelled)
    }

    /// Reports an event to the owner, with `usage` as it was before the event.
    pub(super) fn tell(&self, sink: &mut Sink, event: &Event<'_>, mut usage: Usage) -> ControlFlow<()> {
        match event.kind {
            EventKind::Echo => {}
            EventKind::Token(_) => usage.n_generated += 1,
            EventKind::End(reason) => usage.finish = Some(reason),
        }
        let mut reported = self.reported.lock();
        reported.usage = usage;
        match sink {
            Sink::Pull => {
                reported.events.push_back(OwnedEvent::of(event));
                self.news.notify_all();
                ControlFlow::Continue(())
            }
            Sink::Callback(callback) => {
                drop(reported);
                callback(event)
            }
        }
    }

    /// Reports `usage` after an event. What the last event reported stays: its owner may have read it.
    pub(super) fn set_usage(&self, usage: Usage) {
        let mut reported = self.reported.lock();
        if reported.usage.finish.is_none() {
            reported.usage = usage;
        }
        reported.is_over = reported.usage.finish.is_some();
        if reported.is_over {
            self.news.notify_all();
        }
    }

    /// How often [`State::call`] was called.
    pub(super) fn n_calls(&self) -> u64 {
        self.reported.lock().n_calls
    }

    /// Wakes the owner, if it waits.
    pub(super) fn call(&self) {
        self.reported.lock().n_calls += 1;
        self.news.notify_all();
    }

    /// Waits for an event or the end, or for a call beyond the first `n_calls`, no longer than `until`.
    pub(super) fn wait(&self, n_calls: u64, until: Option<Instant>) {
        let mut reported = self.reported.lock();
        while reported.events.is_empty() && !reported.is_over && reported.n_calls == n_calls {
            let late;
            (reported, late) = sleep(&self.news, reported, until);
            if late {
                return;
            }
        }
    }

    pub(super) fn fail(&self, error: Error) {
        self.reported.lock().error = Some(error);
    }
}

/// A submitted request. Dropping it cancels it, if it has not ended. It does not keep its engine alive: when the engine is
/// closed, the request ends.
pub struct Request {
    shared: Arc<Shared>,
    state: Arc<State>,
}

impl Request {
    pub(super) fn new(shared: Arc<Shared>, state: Arc<State>) -> Request {
        Request { shared, state }
    }

    /// The next event of a request with [`Sink::Pull`]. Waits for it up to `patience`; `None`: there is none yet. While it waits
    /// and no other thread does the engine's steps, this call does them; a patience of 0 does none. After the last event, that
    /// one comes again, without text.
    ///
    /// Errors: what the request ended with, after all its events, again and again; `Busy` in a callback of the step under way,
    /// where it could wait for ever; `InvalidArgument` in a child process made by `fork` for a request of an engine that has
    /// threads.
    pub fn next(&self, patience: Duration) -> Result<Option<OwnedEvent>> {
        let until = Instant::now().checked_add(patience);
        let mut turn = Turn::new(&self.shared);
        loop {
            self.shared.check_process()?;
            if let Some(event) = self.pop()? {
                return Ok(Some(event));
            }
            if patience.is_zero() || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
            if self.shared.is_within() {
                return Err(Error::Busy("this is a callback of the step that would make the event".into()));
            }
            turn.is_mine = !self.shared.has_thread;
            if turn.is_mine && self.shared.pump().is_some() {
                continue;
            }
            turn.is_mine = self.shared.wait_for_news(&self.state, until);
        }
    }

    fn pop(&self) -> Result<Option<OwnedEvent>> {
        let mut reported = self.state.reported()?;
        if let Some(event) = reported.events.pop_front() {
            return Ok(Some(event));
        }
        if !reported.is_over {
            return Ok(None);
        }
        match (&reported.error, reported.usage.finish) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(reason)) => {
                Ok(Some(OwnedEvent::of(&Event { text: "", kind: EventKind::End(reason) })))
            }
            (None, None) => Ok(None),
        }
    }

    /// Ends the request with the engine's next step. A step under way for none but cancelled requests ends early. Any thread may
    /// call it.
    pub fn cancel(&self) {
        self.state.cancel.iter().flatten().take(1).for_each(CancelToken::cancel);
    }

    /// What was done so far.
    ///
    /// Errors: `InvalidArgument` in a child process made by `fork` while a thread of the parent called this too.
    pub fn usage(&self) -> Result<Usage> {
        Ok(self.state.reported()?.usage)
    }

    /// What it ended with, if that was an error. Errors: as [`Request::usage`].
    pub fn error(&self) -> Result<Option<Error>> {
        Ok(self.state.reported()?.error.clone())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.cancel();
    }
}
