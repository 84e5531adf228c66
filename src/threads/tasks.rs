//! Which thread of a pool runs which task of a job.
//!
//! Task `i` belongs to thread `i % n_threads`. So a thread finds in its caches its results for the same numbers in the job
//! before, and counts its own tasks without contention. When it is done with them, it takes tasks that others have not begun.
//! `tests/threads` runs this file under a model checker, together with the gate.
#![forbid(unsafe_code)]

use super::sync::{AtomicU64, Ordering::Relaxed};

/// A value with two cache lines of its own: writes to it disturb no other data.
#[repr(align(128))]
struct Apart<T>(T);

/// The tasks of one job.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tasks {
    n_tasks: usize,
    /// The number of the job. Differs from those of the last 2³² - 2 ones.
    pub job: u32,
}

/// The taken tasks of the current job. Counters only decide which thread runs a task; the gate orders all other memory.
pub struct Taken {
    /// For each thread, how many of its tasks are taken, in the lower half, of the job in the upper half; of any other job none.
    counters: Box<[Apart<AtomicU64>]>,
}

impl Tasks {
    /// A counter with `n` tasks taken.
    fn counter(self, n: usize) -> u64 {
        u64::from(self.job) << 32 | n as u64
    }
}

impl Taken {
    /// For `n_threads` threads.
    pub fn new(n_threads: usize) -> Taken {
        Taken { counters: (0..n_threads).map(|_| Apart(AtomicU64::new(0))).collect() }
    }

    /// The `n_tasks` tasks, at least one, of the job that comes after `last`. The first is always the caller's. Called while no
    /// thread runs any.
    pub fn begin(&self, last: Tasks, n_tasks: usize) -> Tasks {
        if last.job == u32::MAX {
            // The number wraps around, so old counts could be mistaken for counts of a new job.
            self.counters.iter().for_each(|counter| counter.0.store(0, Relaxed));
        }
        let tasks = Tasks { n_tasks, job: last.job.checked_add(1).unwrap_or(1) };
        self.counters[0].0.store(tasks.counter(1), Relaxed);
        tasks
    }

    /// Calls `run` for the tasks of `thread` and then for those that others have not begun.
    pub fn run(&self, thread: usize, tasks: Tasks, mut run: impl FnMut(usize)) {
        if thread == 0 {
            run(0);
        }
        for owner in (thread..self.counters.len()).chain(0..thread) {
            while let Some(task) = self.take(owner, tasks) {
                run(task);
            }
        }
    }

    /// Takes all tasks.
    pub fn take_all(&self, tasks: Tasks) {
        let most = tasks.n_tasks.div_ceil(self.counters.len());
        self.counters.iter().for_each(|counter| counter.0.store(tasks.counter(most), Relaxed));
    }

    /// The next task of `owner`.
    fn take(&self, owner: usize, tasks: Tasks) -> Option<usize> {
        // The caller's first task is taken from the start; its counter lies in another core's cache.
        let n_begun = usize::from(owner == 0);
        if owner + n_begun * self.counters.len() >= tasks.n_tasks {
            return None;
        }
        let counter = &self.counters[owner].0;
        let mut seen = counter.load(Relaxed);
        loop {
            let n = if seen >> 32 == u64::from(tasks.job) { seen as u32 as usize } else { 0 };
            let task = owner + n * self.counters.len();
            if task >= tasks.n_tasks {
                return None;
            }
            match counter.compare_exchange_weak(seen, tasks.counter(n + 1), Relaxed, Relaxed) {
                Ok(_) => return Some(task),
                Err(now) => seen = now,
            }
        }
    }
}
