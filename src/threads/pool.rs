//! [`ThreadPool`]: the threads, and the job they run.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::gate::{Gate, Joined};
use super::spawn::Thread;
use super::tasks::{Taken, Tasks};
use super::{CpuSet, DisjointMut, MAX_THREADS, demand, possible};
use crate::error::{Error, Result};

/// How long a thread polls before it sleeps: longer than the caller works alone between the jobs of a token, and about the cost
/// of sleeping and waking.
const SPIN: Duration = Duration::from_micros(100);
/// Polls between two looks at the clock: a few microseconds.
const POLLS_PER_LOOK: u32 = 64;

/// A job: called with (thread number, task number). Thread 0 is the caller.
type Job<'a> = &'a (dyn Fn(usize, usize) + Sync + 'a);

/// What the caller publishes: the job, with its lifetime erased, and its tasks.
#[derive(Clone, Copy)]
struct Work {
    job: Job<'static>,
    tasks: Tasks,
}

/// The state that the caller and the workers share.
struct Shared {
    gate: Gate<Work>,
    taken: Taken,
    n_threads: usize,
    /// CPUs of the process.
    n_cpus: usize,
    /// Whether a worker panicked in the current job, and the payload of the first that did.
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Locks; no code of Ember's panics while it holds these locks, so poison can be ignored.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polling for a bounded time.
struct Patience {
    polls: u32,
    since: Option<Instant>,
}

impl Patience {
    fn new() -> Patience {
        Patience { polls: 0, since: None }
    }

    /// Waits a moment; `false` when [`SPIN`] is over. Now and then it checks whether polling is still allowed.
    fn lasts(&mut self, allowed: impl Fn() -> bool) -> bool {
        std::hint::spin_loop();
        self.polls += 1;
        if !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return true;
        }
        allowed() && self.since.get_or_insert_with(Instant::now).elapsed() < SPIN
    }
}

impl Shared {
    /// Runs the tasks that `thread` gets.
    fn run_tasks(&self, thread: usize, work: Work) {
        self.taken.run(thread, work.tasks, |task| (work.job)(thread, task));
    }

    /// How many threads may be awake now, the caller included.
    fn share(&self) -> usize {
        demand::share(self.n_threads, self.n_cpus)
    }

    fn worker(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let mut patience = Patience::new();
            let wait = |parked| patience.lasts(|| self.n_threads - parked <= self.share());
            let work = match self.gate.join(&mut seen, wait) {
                Joined::Job(work) => work,
                Joined::Slept => continue,
                Joined::Stop => return,
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run_tasks(thread, work)));
            if let Err(payload) = outcome {
                self.taken.take_all(work.tasks);
                locked(&self.panic).get_or_insert(payload);
                self.panicked.store(true, Relaxed);
            }
            self.gate.leave();
        }
    }
}

/// A fixed set of threads, the caller's among them. Dropping the pool ends and joins its workers.
///
/// In a child process made by `fork` the workers do not exist: there the pool may be dropped, but not used.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<Thread>,
    /// The process that has the workers.
    process: u32,
    /// Whether the pool counts as working.
    at_work: bool,
    /// The tasks of the last job.
    last: Tasks,
}

/// How many workers have started, and the error if one could not be bound to its CPUs.
#[derive(Default)]
struct Start {
    state: Mutex<(usize, Option<Error>)>,
    changed: Condvar,
}

impl Start {
    /// A worker's report.
    fn report(&self, outcome: Result<()>) {
        let mut state = locked(&self.state);
        state.0 += 1;
        state.1 = state.1.take().or(outcome.err());
        self.changed.notify_one();
    }

    /// Returns when `n` workers have reported.
    fn wait(&self, n: usize) -> Result<()> {
        let state = locked(&self.state);
        let wait = self.changed.wait_while(state, |state| state.0 < n);
        wait.unwrap_or_else(PoisonError::into_inner).1.take().map_or(Ok(()), Err)
    }
}

impl ThreadPool {
    /// A pool of `n_threads` threads (1 ..= [`MAX_THREADS`]), of which `n_threads - 1` are new. With `cpus`, the new ones run on
    /// those only. The caller's thread stays as it is. Where the system has no threads, it is the only one.
    ///
    /// Errors: `InvalidArgument` for another number, or when none of `cpus` may be used; `NoMemory` when a thread does
    /// not start; `Unsupported` for `cpus` on systems that cannot pin threads.
    pub fn new(n_threads: usize, cpus: Option<&CpuSet>) -> Result<ThreadPool> {
        let n_cpus = CpuSet::allowed().map(|cpus| cpus.len());
        let n_cpus =
            n_cpus.or_else(|| std::thread::available_parallelism().map(|n| n.get()).ok()).unwrap_or(1);
        ThreadPool::with_cpus(n_threads, cpus, n_cpus)
    }

    /// As [`ThreadPool::new`], in a process with `n_cpus` CPUs.
    pub(super) fn with_cpus(n_threads: usize, cpus: Option<&CpuSet>, n_cpus: usize) -> Result<ThreadPool> {
        if n_threads == 0 || n_threads > MAX_THREADS {
            return Err(Error::InvalidArgument(format!(
                "n_threads must be between 1 and {MAX_THREADS}, got {n_threads}"
            )));
        }
        let n_threads = possible(n_threads);
        let shared = Arc::new(Shared {
            gate: Gate::new(),
            taken: Taken::new(n_threads),
            n_threads,
            n_cpus,
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let workers = Vec::with_capacity(n_threads - 1);
        let mut pool =
            ThreadPool { shared, workers, process: super::process(), at_work: false, last: Tasks::default() };
        // A starting thread allocates memory; when `new` returns all have started, so that no job allocates.
        let start = Arc::new(Start::default());
        for thread in 1..n_threads {
            let (shared, start, cpus) = (Arc::clone(&pool.shared), Arc::clone(&start), cpus.cloned());
            let work = move || {
                start.report(cpus.map_or(Ok(()), |cpus| cpus.bind_this_thread()));
                drop(start);
                shared.worker(thread);
            };
            let worker = Thread::start(&format!("ember-{thread}"), work).map_err(|e| {
                Error::NoMemory(format!("thread {thread} of {n_threads} could not be started: {e}"))
            })?;
            pool.workers.push(worker);
        }
        pool.workers.iter().try_for_each(Thread::begun)?;
        start.wait(n_threads - 1)?;
        Ok(pool)
    }

    /// The number of threads, the caller's included.
    pub fn n_threads(&self) -> usize {
        self.shared.n_threads
    }

    /// Calls `job(thread, task)` once for every task in `0..n_tasks` and returns when all have ended.
    ///
    /// Tasks `t`, `t + n_threads`, ... belong to thread `t`; other threads that are done with their own take those that it has
    /// not begun.
    ///
    /// A panic in a task is raised again here, after every thread has left the job.
    pub fn run(&mut self, n_tasks: usize, job: Job<'_>) {
        if self.workers.is_empty() || n_tasks <= 1 {
            (0..n_tasks).for_each(|task| job(0, task));
            return;
        }
        self.begin();
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; `run` does not return, not even by unwinding, before the job is closed
        // and every worker has left it.
        let erased: Job<'static> = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        self.last = shared.taken.begin(self.last, n_tasks);
        let work = Work { job: erased, tasks: self.last };
        let n_wake = |parked: usize| {
            // Checked only if a worker sleeps, which is rare while there is work.
            let wanted = if parked == 0 { 0 } else { shared.share().min(n_tasks) };
            wanted.saturating_sub(shared.n_threads - parked)
        };
        // SAFETY: `&mut self` makes this thread the only caller, and the job before was closed.
        unsafe { shared.gate.open(work, n_wake) };
        let mine = catch_unwind(AssertUnwindSafe(|| shared.run_tasks(0, work)));
        if mine.is_err() {
            shared.taken.take_all(work.tasks);
        }
        let mut patience = Patience::new();
        shared.gate.close(|| patience.lasts(|| true));
        // The workers' writes before they left are visible here. The flag is written only if needed, since workers read its
        // neighbours.
        let theirs = match shared.panicked.load(Relaxed) {
            true => {
                shared.panicked.store(false, Relaxed);
                locked(&shared.panic).take()
            }
            false => None,
        };
        if let Some(payload) = mine.err().or(theirs) {
            resume_unwind(payload);
        }
    }

    pub(super) fn begin(&mut self) {
        if !self.at_work {
            self.at_work = true;
            demand::begin(self.process, self.n_threads());
        }
    }

    /// Marks the pool as idle, so that other pools may have the CPUs. The next job takes them back.
    pub fn rest(&mut self) {
        if self.at_work {
            self.at_work = false;
            demand::end(self.process, self.n_threads());
        }
    }

    /// How many workers sleep.
    #[cfg(test)]
    pub fn n_asleep(&self) -> usize {
        self.shared.gate.n_parked()
    }

    /// Cuts `data` into chunks of `part_len` elements (the last may be shorter) and calls `f(chunk number, chunk)` for each, on
    /// all threads.
    pub fn for_parts<T: Send>(
        &mut self,
        data: &mut [T],
        part_len: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        if data.is_empty() || part_len == 0 {
            return;
        }
        let len = data.len();
        let data = DisjointMut::new(data);
        self.run(len.div_ceil(part_len), &|_, i| {
            // SAFETY: each task number is handed out one time, and chunks of different numbers do not overlap.
            let part = unsafe { data.slice(i * part_len..len.min((i + 1) * part_len)) };
            f(i, part);
        });
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if self.process != super::process() {
            // The workers do not exist after the process was forked. They must be neither woken nor joined, since their shared
            // state may have been locked at that time; so it is left as it is.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        self.rest();
        self.shared.gate.stop();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a job, so a failed join has nothing to report.
            let _ = worker.join();
        }
    }
}
