//! The only place that knows threads: a fixed pool that runs one job at a time over numbered tasks.
//!
//! Workers take task numbers from a shared counter, so a slow core never holds up more than one task, and since a
//! task's result depends on its number alone, results are the same for any number of threads. A waiting thread
//! spins for a bounded time and then parks; an idle pool burns no CPU. Running a job allocates nothing.

use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Rounds of `spin_loop` before a waiting thread parks: a few tens of microseconds, about one matrix product.
const SPIN_ROUNDS: usize = 4_000;

/// Most threads a pool may have; more is a mistake in the caller's arithmetic.
pub const MAX_THREADS: usize = 512;

/// A job: called with (thread number, task number). Thread 0 is the caller.
type Job<'a> = &'a (dyn Fn(usize, usize) + Sync + 'a);

/// The number of threads this process may use at once: its affinity mask and cgroup quota taken into account.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_THREADS)
}

/// The results of `here`, which the caller's thread runs, and of `aside`, which another runs at the same time; where
/// the process may use but one, or none can be started, `aside` runs after `here`. A panic of either is raised again
/// here when both have ended.
pub fn both<A, B: Send>(here: impl FnOnce() -> A, aside: impl FnOnce() -> B + Send) -> (A, B) {
    let aside = Mutex::new(Some(aside));
    let run_aside = || locked(&aside).take().map(|aside| aside());
    std::thread::scope(|scope| {
        let thread = match default_threads() {
            1 => None,
            _ => std::thread::Builder::new().name("ember-load".into()).spawn_scoped(scope, run_aside).ok(),
        };
        let here = here();
        let aside = match thread {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => run_aside(),
        };
        match aside {
            Some(aside) => (here, aside),
            None => unreachable!("it was taken by the one thread that runs it"),
        }
    })
}

/// Bit of [`Shared::state`] that says the job may be joined; the bits below count the workers in it, those above
/// count the jobs.
const OPEN: u64 = 1 << 31;

/// What the caller publishes and the workers read.
struct Shared {
    /// Job number, whether it is open, and how many workers are in it. A worker joins an open job by adding 1. The
    /// caller closes it when no task is left and waits for those who joined; a worker that the system did not run
    /// meanwhile is not waited for.
    state: AtomicU64,
    /// The current job with its lifetime erased; valid while it is open or a worker is in it.
    job: UnsafeCell<Option<(Job<'static>, usize)>>,
    /// The next task number to take.
    next: AtomicUsize,
    stop: AtomicBool,
    /// The payload of the first panic of a worker in the current job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Workers parked on `wake`, and whether the caller is parked on `done`; checked before notifying.
    parked: AtomicUsize,
    caller_parked: AtomicBool,
    /// Of the standard library: its sleeping allocates nothing, while parking_lot's takes memory the first time a
    /// thread sleeps.
    lock: Mutex<()>,
    wake: Condvar,
    done: Condvar,
}

// SAFETY: `job` is the only field that is not Sync by itself. The caller writes it while the job is closed and no
// worker is in it, then opens it with a SeqCst store to `state`; a worker reads it only between joining an open job
// and leaving it, and the caller awaits that before it writes again.
unsafe impl Sync for Shared {}
// SAFETY: as above; the erased reference is to a `Sync` closure.
unsafe impl Send for Shared {}

/// The number of the job in a [`Shared::state`].
fn job_number(state: u64) -> u64 {
    state >> 32
}

/// How many workers are in the job.
fn n_inside(state: u64) -> u64 {
    state & (OPEN - 1)
}

/// Locks; no code of Ember's panics while it holds these locks, so poison means nothing.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn take_tasks(&self, thread: usize, job: Job<'_>, n_tasks: usize) {
        loop {
            let task = self.next.fetch_add(1, SeqCst);
            if task >= n_tasks {
                return;
            }
            job(thread, task);
        }
    }

    /// Blocks until `ready`, spinning first; `enter` and `leave` frame the time this thread sleeps on `condvar`.
    fn wait(&self, condvar: &Condvar, ready: impl Fn() -> bool, enter: impl Fn(), leave: impl Fn()) {
        for _ in 0..SPIN_ROUNDS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = locked(&self.lock);
        enter();
        while !ready() {
            guard = condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        leave();
    }

    /// Whether there is an open job other than number `seen`, or the pool ends.
    fn has_news(&self, seen: u64) -> bool {
        let state = self.state.load(SeqCst);
        (job_number(state) != seen && state & OPEN != 0) || self.stop.load(SeqCst)
    }

    fn worker(&self, thread: usize) {
        let mut seen = 0;
        loop {
            self.wait(
                &self.wake,
                || self.has_news(seen),
                || _ = self.parked.fetch_add(1, SeqCst),
                || _ = self.parked.fetch_sub(1, SeqCst),
            );
            if self.stop.load(SeqCst) {
                return;
            }
            let state = self.state.load(SeqCst);
            if state & OPEN == 0 || self.state.compare_exchange(state, state + 1, SeqCst, SeqCst).is_err() {
                continue;
            }
            seen = job_number(state);
            // SAFETY: this worker joined the open job, so the caller neither writes `job` nor returns from `run`
            // before it has left; the referenced closure lives that long.
            let job = unsafe { *self.job.get() };
            if let Some((job, n_tasks)) = job {
                let outcome = catch_unwind(AssertUnwindSafe(|| self.take_tasks(thread, job, n_tasks)));
                if let Err(payload) = outcome {
                    self.next.store(n_tasks, SeqCst);
                    locked(&self.panic).get_or_insert(payload);
                }
            }
            if n_inside(self.state.fetch_sub(1, SeqCst)) == 1 && self.caller_parked.load(SeqCst) {
                drop(locked(&self.lock));
                self.done.notify_one();
            }
        }
    }

    /// Wakes the workers that sleep.
    fn wake_workers(&self) {
        if self.parked.load(SeqCst) > 0 {
            drop(locked(&self.lock));
            self.wake.notify_all();
        }
    }
}

/// A fixed set of threads, the caller's among them. Dropping the pool ends and joins its workers.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// A pool of `n_threads` threads (1 ..= [`MAX_THREADS`]), `n_threads - 1` of them new.
    pub fn new(n_threads: usize) -> Result<ThreadPool> {
        if n_threads == 0 || n_threads > MAX_THREADS {
            return Err(Error::InvalidArgument(format!(
                "n_threads must be between 1 and {MAX_THREADS}, got {n_threads}"
            )));
        }
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
            parked: AtomicUsize::new(0),
            caller_parked: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        // A starting thread takes memory; when `new` returns they have all started, so that no job ever does.
        let started = Arc::new(AtomicUsize::new(1));
        let mut pool = ThreadPool { shared, workers: Vec::with_capacity(n_threads - 1) };
        for thread in 1..n_threads {
            let (shared, started) = (Arc::clone(&pool.shared), Arc::clone(&started));
            let worker = std::thread::Builder::new()
                .name(format!("ember-{thread}"))
                .spawn(move || {
                    started.fetch_add(1, SeqCst);
                    drop(started);
                    shared.worker(thread);
                })
                .map_err(|e| {
                    Error::NoMemory(format!("thread {thread} of {n_threads} could not be started: {e}"))
                })?;
            pool.workers.push(worker);
        }
        while started.load(SeqCst) < n_threads {
            std::thread::yield_now();
        }
        Ok(pool)
    }

    /// The number of threads, the caller's included.
    pub fn n_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(thread, task)` once for every task in `0..n_tasks` and returns when all have ended.
    ///
    /// A panic in a task is raised again here, after every thread has left the job.
    pub fn run(&mut self, n_tasks: usize, job: Job<'_>) {
        if self.workers.is_empty() || n_tasks <= 1 {
            (0..n_tasks).for_each(|task| job(0, task));
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; `run` does not return, not even by unwinding, before the job is closed
        // and every worker has left it.
        let erased: Job<'static> = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        // SAFETY: the previous job is closed with nobody in it, and `&mut self` excludes another `run`, so no thread
        // reads `job` now.
        unsafe { *shared.job.get() = Some((erased, n_tasks)) };
        shared.next.store(0, SeqCst);
        let number = job_number(shared.state.load(SeqCst)).wrapping_add(1);
        shared.state.store(number << 32 | OPEN, SeqCst);
        shared.wake_workers();
        let mine = catch_unwind(AssertUnwindSafe(|| shared.take_tasks(0, job, n_tasks)));
        if mine.is_err() {
            shared.next.store(n_tasks, SeqCst);
        }
        shared.state.fetch_and(!OPEN, SeqCst);
        shared.wait(
            &shared.done,
            || n_inside(shared.state.load(SeqCst)) == 0,
            || shared.caller_parked.store(true, SeqCst),
            || shared.caller_parked.store(false, SeqCst),
        );
        let theirs = locked(&shared.panic).take();
        if let Some(payload) = mine.err().or(theirs) {
            resume_unwind(payload);
        }
    }

    /// Cuts `data` into parts of `part_len` elements (the last may be shorter) and calls `f(part number, part)` for
    /// each, on all threads.
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
            // SAFETY: task numbers are handed out once each, and parts of different numbers do not overlap.
            let part = unsafe { data.slice(i * part_len..len.min((i + 1) * part_len)) };
            f(i, part);
        });
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.wake_workers();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a job, so a failed join has nothing to tell.
            let _ = worker.join();
        }
    }
}

/// A mutable slice of which several tasks write parts that do not overlap.
pub struct DisjointMut<'a, T> {
    data: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: the methods that reach the data are unsafe and ask the caller for parts that do not overlap.
unsafe impl<T: Send> Sync for DisjointMut<'_, T> {}

impl<'a, T> DisjointMut<'a, T> {
    /// Takes the slice for the time of the tasks.
    pub fn new(data: &'a mut [T]) -> Self {
        DisjointMut { data: data.as_mut_ptr(), len: data.len(), owner: PhantomData }
    }

    /// Elements in the whole slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first element, for code that writes a part with strides.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// The part `range`; panics when it leaves the slice.
    ///
    /// # Safety
    /// No other part that overlaps `range` may be alive.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's promise, stated above")]
    pub unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "part {range:?} of a slice of {}",
            self.len
        );
        // SAFETY: the start was checked to lie inside the slice.
        let start = unsafe { self.data.add(range.start) };
        // SAFETY: the range was checked, the slice is exclusively borrowed for 'a, and the caller promises that
        // no overlapping part is alive.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_whatever_the_thread_count() {
        for n_threads in [1, 2, 3, 7] {
            let mut pool = ThreadPool::new(n_threads).expect("pool");
            for n_tasks in [0, 1, 2, 5, 1000] {
                let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n_tasks, &|thread, task| {
                    assert!(thread < n_threads);
                    counts[task].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|c| c.load(SeqCst) == 1), "{n_threads} threads, {n_tasks} tasks");
            }
        }
    }

    #[test]
    fn jobs_after_a_pause_find_parked_workers() {
        let mut pool = ThreadPool::new(3).expect("pool");
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            let sum = AtomicUsize::new(0);
            pool.run(64, &|_, task| _ = sum.fetch_add(task, SeqCst));
            assert_eq!(sum.load(SeqCst), 63 * 64 / 2);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for bad in [0, 63] {
            let mut pool = ThreadPool::new(4).expect("pool");
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, &|_, task| assert!(task != bad, "task {task} is bad"));
            }));
            assert!(outcome.is_err());
            let sum = AtomicUsize::new(0);
            pool.run(10, &|_, task| _ = sum.fetch_add(task, SeqCst));
            assert_eq!(sum.load(SeqCst), 45);
        }
    }

    #[test]
    fn parts_are_disjoint_and_complete() {
        let mut pool = ThreadPool::new(2).expect("pool");
        let mut data = vec![0.0f32; 7 * 5 + 3];
        pool.for_parts(&mut data, 5, |i, part| part.fill(i as f32));
        assert!(data.chunks(5).enumerate().all(|(i, part)| part.iter().all(|&x| x == i as f32)));
    }

    #[test]
    fn two_things_at_once_give_both_results_and_every_panic() {
        assert_eq!(both(|| 1, || "two".to_owned()), (1, "two".to_owned()));
        let text = |outcome: std::thread::Result<((), ())>| {
            let panic = outcome.expect_err("a panic");
            *panic.downcast::<&str>().expect("the text it was raised with")
        };
        assert_eq!(text(catch_unwind(|| both(|| panic!("here"), || ()))), "here");
        assert_eq!(text(catch_unwind(|| both(|| (), || panic!("aside")))), "aside");
    }

    #[test]
    fn a_thread_count_out_of_range_is_refused() {
        assert!(ThreadPool::new(0).is_err());
        assert!(ThreadPool::new(MAX_THREADS + 1).is_err());
    }
}
