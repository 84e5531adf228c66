//! Many generations on one context: requests are submitted from any thread, wait in a bounded queue, and run together.
//!
//! Each step of an [`Engine`] is one batch: the next token of every request under way, and in the rest of the batch chunks of the
//! prompts of those that begin (continuous batching: Yu et al. 2022, Orca; chunked prefill: Agrawal et al. 2023,
//! arXiv:2308.16369). Nothing happens between steps. [`Engine::step`] does a step; [`Request::next`] does one while no other
//! thread does. With [`EngineOptions::thread`] a thread of the engine's own does all steps.
//!
//! - `queue`: who is next, and how many may wait.
//! - `request`: one generation for its owner, and its events.
//! - `pump`: the step.
//! - `turns`: which of the threads that wait for their requests does it.
//! - `home`: which process may do it, after a fork.
//! - `metrics`: counters of the work done.
//!
//! - Two locks: the pump (context and requests under way) is held for a step, callbacks included; the queue for moments. A
//!   callback may submit and cancel. A call that would wait for its own step gets `Busy`.
//! - Out of pages, the least urgent request gives its pages up and runs again later.
//! - No request starves. The oldest of the requests that 32 later ones have passed is next and keeps its pages; the counts of all
//!   others begin again.
//! - Of prompts with the same beginning that came together one is computed, page by page, and the others wait for its pages.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::context::{Context, ContextOptions};
use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, Generator, Prompt};
use crate::model::LoadedModel;
use crate::sampler::Sampler;
use crate::threads::{self, Background, Condvar, Mutex};

mod home;
mod metrics;
mod pump;
mod queue;
mod request;
mod turns;

use home::Home;
pub use metrics::Metrics;
use pump::{Job, Pump};
use queue::Queue;
pub use request::{EventCallback, OwnedEvent, Request, Sink};
use turns::{Turn, Waiting};

/// The options of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The options of its context; the engine sets `n_seq` and `keep_prefixes` itself.
    pub context: ContextOptions,
    /// How many requests run together.
    pub n_parallel: usize,
    /// How many more may wait, at least 1.
    pub max_queue: usize,
    /// Whether requests with the same beginning share its pages.
    pub share_prefixes: bool,
    /// Whether a thread of the engine's own does the steps.
    pub thread: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            context: ContextOptions::default(),
            n_parallel: 8,
            max_queue: 256,
            share_prefixes: true,
            thread: false,
        }
    }
}

/// `InvalidArgument` for a queue in which no request could wait for the next step.
pub fn check_max_queue(max_queue: usize) -> Result<usize> {
    match max_queue {
        0 => Err(Error::InvalidArgument("max_queue must be at least 1, got 0".into())),
        n => Ok(n),
    }
}

/// What the engine's threads and the owners of its requests share.
struct Shared {
    /// `None` once the engine is closed. No thread sleeps for it: see [`threads::Mutex`] why.
    pump: parking_lot::Mutex<Option<Pump>>,
    /// The thread that holds the pump; 0: none.
    pumping: AtomicUsize,
    queue: Mutex<Queue>,
    /// Notified after each step and each submission; those who wait for their requests do not listen.
    changed: Condvar,
    waiting: Waiting,
    metrics: Mutex<Metrics>,
    /// Ends a step early when the engine goes.
    closing: CancelToken,
    /// Calls of [`Engine::step`] under way.
    n_steppers: AtomicUsize,
    /// Whether only the engine's own thread does the steps.
    has_thread: bool,
    home: Home,
}

/// Many generations on one context. All of its functions may be called by any thread, and from callbacks of its requests.
pub struct Engine {
    model: Arc<LoadedModel>,
    /// The options of its context, in force.
    options: ContextOptions,
    shared: Arc<Shared>,
    thread: Mutex<Option<Background>>,
}

impl Engine {
    /// An engine over `model`, with a context of its own.
    ///
    /// Errors: `InvalidArgument` for options that are out of range, `Unsupported` for an encoder and for a thread where there
    /// are none, `NoMemory`.
    pub fn new(model: &Arc<LoadedModel>, options: &EngineOptions) -> Result<Engine> {
        model.require_logits()?;
        model
            .require_one_part("an engine reads texts in parts, and this encoder reads a text in one piece")?;
        check_max_queue(options.max_queue)?;
        let context = ContextOptions {
            n_seq: options.n_parallel,
            keep_prefixes: options.share_prefixes,
            ..options.context.clone()
        };
        let mut context = Context::new(model, &context).map_err(|e| match e {
            Error::InvalidArgument(m) => Error::InvalidArgument(m.replace("n_seq", "n_parallel")),
            other => other,
        })?;
        let closing = CancelToken::new();
        context.set_cancel_token(Some(closing.clone()));
        let in_force = context.options().clone();
        let (n_pages, n_free_pages) = context.kv_pages();
        let home = Home::new(options.thread || context.has_threads());
        let metrics = Metrics { n_pages, n_free_pages, ..Metrics::default() };
        let shared = Arc::new(Shared {
            pump: parking_lot::Mutex::new(Some(Pump::new(context))),
            pumping: Default::default(),
            queue: Mutex::new(Queue::new(options.max_queue)),
            changed: Condvar::default(),
            waiting: Waiting::default(),
            metrics: Mutex::new(metrics),
            closing,
            n_steppers: AtomicUsize::new(0),
            has_thread: options.thread,
            home,
        });
        let thread = match options.thread {
            true => Some(threads::background("ember-engine", shared.clone().worker())?),
            false => None,
        };
        Ok(Engine { model: Arc::clone(model), options: in_force, shared, thread: Mutex::new(thread) })
    }

    /// The options in force in its context: `n_ctx` are the positions that each request has, for its prompt and what is generated,
    /// `n_seq` how many run together.
    pub fn context_options(&self) -> &ContextOptions {
        &self.options
    }

    /// Submits a generation that continues `prompt`. The caller's thread tokenizes it; it runs as soon as pages are free. Its
    /// events go to `sink`.
    ///
    /// The prompt is the whole text, from its beginning on. `options.seq` and `options.reuse_prefix` mean nothing here.
    ///
    /// Errors: `QueueFull` when the queue is full, `ContextFull` for a prompt that no sequence holds, `InvalidArgument` in a
    /// child process made by `fork` of an engine that has threads, and those of [`Generator::new`].
    pub fn submit(
        &self,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
        sampler: Sampler,
        sink: Sink,
    ) -> Result<Request> {
        let refused = |e: Error| {
            if matches!(e, Error::QueueFull(_)) {
                self.shared.metrics.lock().n_refused += 1;
            }
            e
        };
        self.shared.check_process()?;
        self.shared.queue.lock().check_capacity().map_err(refused)?;
        let generator = Generator::anywhere(&self.model, self.options.n_ctx, prompt, options)?;
        if generator.tokens().len() > self.options.n_ctx {
            return Err(Error::ContextFull(format!(
                "the prompt has {} tokens, but a request of this engine holds n_ctx {}",
                generator.tokens().len(),
                self.options.n_ctx
            )));
        }
        let state = Arc::new(request::State::new(options.cancel.clone()));
        // It was cancelled while its prompt was tokenized.
        if generator.usage().finish.is_some() {
            state.cancel.iter().flatten().take(1).for_each(CancelToken::cancel);
        }
        let job = Job::new(generator, sampler, sink, Arc::clone(&state), options.priority);
        {
            let mut queue = self.shared.queue.lock();
            if self.shared.closing.is_cancelled() {
                return Err(Error::Cancelled("the engine was closed".into()));
            }
            queue.push(job).map_err(refused)?;
            self.shared.metrics.lock().n_submitted += 1;
            self.shared.changed.notify_all();
        }
        Ok(Request::new(Arc::clone(&self.shared), state))
    }

    /// Does one step. Waits up to `patience` for work, and for another thread that does steps. Returns whether there is more to
    /// do.
    ///
    /// Errors: `Busy` when another thread does steps all the while, or the engine's own, or the caller is a callback of the step.
    pub fn step(&self, patience: Duration) -> Result<bool> {
        self.shared.check_process()?;
        self.shared.n_steppers.fetch_add(1, SeqCst);
        let _leave = Leaves { n_steppers: &self.shared.n_steppers, process: threads::process() };
        self.shared.may_step()?;
        let until = Instant::now().checked_add(patience);
        let mut turn = Turn::new(&self.shared);
        loop {
            self.shared.wait_for_work(until);
            turn.is_mine = true;
            if let Some(more) = self.shared.pump() {
                return Ok(more);
            }
            turn.is_mine = false;
            let queue = self.shared.queue.lock();
            if self.shared.pump.is_locked() && sleep(&self.shared.changed, queue, until).1 {
                return Err(Error::Busy("another thread does a step of the engine".into()));
            }
        }
    }

    /// Counters of the work done, and the work that waits.
    ///
    /// Errors: `InvalidArgument` in a child process made by `fork` of an engine that has threads, or was at work.
    pub fn metrics(&self) -> Result<Metrics> {
        self.shared.check_process()?;
        let mut metrics = *self.shared.metrics.lock();
        metrics.n_queued = self.shared.queue.lock().len();
        Ok(metrics)
    }

    /// The pages of its cache, and those of them that no request under way has. Errors: as [`Engine::metrics`].
    pub fn kv_pages(&self) -> Result<(usize, usize)> {
        let metrics = self.metrics()?;
        Ok((metrics.n_pages, metrics.n_free_pages))
    }

    /// Whether the calling thread is in a step of this engine: in a callback of one of its requests.
    pub fn is_within(&self) -> bool {
        self.shared.is_within()
    }

    /// Whether a call of [`Engine::step`] is under way, or the calling thread is in any step. In a child process made by `fork`,
    /// calls of the parent's threads do not count.
    pub fn is_busy(&self) -> bool {
        let counts = self.shared.check_process().is_ok();
        counts && self.shared.n_steppers.load(SeqCst) > 0 || self.is_within()
    }

    /// Ends all requests as cancelled, and the engine's thread. `Busy` in a callback of a request. In a child process made by
    /// `fork`, an engine that has threads, or was at work, is left as it is.
    pub fn close(&self) -> Result<()> {
        if self.shared.check_process().is_err() {
            drop(self.thread.lock_or_give_up().and_then(|mut thread| thread.take()));
            return Ok(());
        }
        if self.is_within() {
            return Err(Error::Busy(
                "the engine is at work: this is a callback of one of its requests".into(),
            ));
        }
        self.shared.closing.cancel();
        {
            let _queue = self.shared.queue.lock();
            self.shared.changed.notify_all();
        }
        drop(self.thread.lock().take());
        self.shared.end_all();
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.close().is_err() {
            log::error!(
                "an engine was dropped within one of its own callbacks; its requests end with the step"
            );
        }
    }
}

impl Shared {
    fn is_within(&self) -> bool {
        self.pumping.load(SeqCst) == threads::this_thread()
    }

    /// What the engine's own thread does.
    fn worker(self: Arc<Self>) -> impl FnOnce() + Send + 'static {
        move || {
            while !self.closing.is_cancelled() {
                if matches!(self.pump(), Some(true)) {
                    continue;
                }
                let queue = self.queue.lock();
                if queue.len() == 0 && !self.closing.is_cancelled() {
                    drop(self.changed.wait(queue, None));
                }
            }
        }
    }

    /// Waits until a request waits or runs, no longer than `until`.
    fn wait_for_work(&self, until: Option<Instant>) {
        let mut queue = self.queue.lock();
        while queue.len() == 0 && self.metrics.lock().n_active == 0 && !self.closing.is_cancelled() {
            let late;
            (queue, late) = sleep(&self.changed, queue, until);
            if late {
                return;
            }
        }
    }

    /// `InvalidArgument` in a child process made by `fork` where threads of the parent would have to work, or to end the step
    /// that they were in.
    fn check_process(&self) -> Result<()> {
        self.home.check(
            || self.is_at_work(),
            || {
                self.waiting.clear();
                self.n_steppers.store(0, SeqCst);
            },
        )
    }

    /// Whether a thread holds the pump, or a lock that threads hold for moments: one of the parent's, after a fork.
    fn is_at_work(&self) -> bool {
        let Some(pump) = self.pump.try_lock() else { return true };
        let Some(queue) = self.queue.lock_or_give_up() else { return true };
        self.metrics.lock_or_give_up().is_none()
            || self.waiting.is_held()
            || pump.iter().flat_map(Pump::jobs).chain(queue.jobs()).any(Job::is_held)
    }

    /// `Busy` for a thread that cannot do a step.
    fn may_step(&self) -> Result<()> {
        if self.has_thread {
            return Err(Error::Busy("the engine has a thread of its own, which does the steps".into()));
        }
        if self.is_within() {
            return Err(Error::Busy("this is a callback of the engine's step that is under way".into()));
        }
        Ok(())
    }

    /// One step, unless another thread does one. Returns whether there is more to do.
    fn pump(&self) -> Option<bool> {
        let mut pump = self.pump.try_lock()?;
        self.pumping.store(threads::this_thread(), SeqCst);
        let leave = Leave(&self.pumping);
        let more = match &mut *pump {
            Some(pump) if !self.closing.is_cancelled() => pump.step(&self.queue, &self.metrics),
            _ => self.end_all_of(&mut pump),
        };
        drop((leave, pump));
        // A thread that found the pump taken while it had the queue locked is asleep now.
        let _queue = self.queue.lock();
        self.changed.notify_all();
        Some(more)
    }

    /// Ends every request that is left, and frees the memory of the steps. Requests that still exist keep their events.
    /// Afterwards there is nothing to do.
    fn end_all_of(&self, pump: &mut Option<Pump>) -> bool {
        if let Some(mut pump) = pump.take() {
            pump.end_all(&self.queue, &self.metrics);
        }
        false
    }

    /// Ends every request that is left as cancelled.
    fn end_all(&self) {
        let mut pump = loop {
            if let Some(pump) = self.pump.try_lock() {
                break pump;
            }
            let queue = self.queue.lock();
            if self.pump.is_locked() {
                drop(sleep(&self.changed, queue, None));
            }
        };
        self.pumping.store(threads::this_thread(), SeqCst);
        let leave = Leave(&self.pumping);
        self.end_all_of(&mut pump);
        drop((leave, pump));
        let _queue = self.queue.lock();
        self.changed.notify_all();
    }
}

/// Sleeps until `changed` is notified; returns true when it is `until` already. `None`: no limit. The only thread of a process
/// does not sleep, since no other thread can change anything.
fn sleep<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    if threads::alone() { (guard, true) } else { changed.wait(guard, until) }
}

/// Marks the pump as free, after a panic too.
struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

/// Counts one call fewer, after a panic too. The child of a callback that called `fork` does not count it.
struct Leaves<'a> {
    n_steppers: &'a AtomicUsize,
    /// The process that counted it.
    process: u32,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if self.process == threads::process() {
            self.n_steppers.fetch_sub(1, SeqCst);
        }
    }
}
