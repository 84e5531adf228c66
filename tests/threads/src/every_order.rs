//! `src/threads/gate.rs` and `tasks.rs` under loom: every order of the steps of a caller and its workers.
//!
//! Each test plays jobs whose tasks write plain cells, which loom lets nobody read or write before the writer is known to
//! be done; a deadlock or a lost waking ends the test too.

mod sync {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Condvar, Mutex};
}

#[path = "../../../src/threads/gate.rs"]
mod gate;
#[path = "../../../src/threads/tasks.rs"]
mod tasks;

use gate::{Gate, Joined};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use tasks::{Taken, Tasks};

const N_TASKS: usize = 2;

/// A pool as in `src/threads/pool.rs`; a job is its number and its tasks.
struct Pool {
    gate: Gate<(usize, Tasks)>,
    taken: Taken,
    /// How often each task has run.
    runs: [UnsafeCell<usize>; N_TASKS],
}

// SAFETY: what the test checks: a task is taken by one thread, and the caller reads when all have left.
unsafe impl Sync for Pool {}

impl Pool {
    fn run_tasks(&self, thread: usize, (job, tasks): (usize, Tasks)) {
        self.taken.run(thread, tasks, |task| {
            self.runs[task].with_mut(|runs| {
                // SAFETY: as above.
                let runs = unsafe { &mut *runs };
                assert_eq!(*runs, job, "each job runs each task once");
                *runs += 1;
            });
        });
    }

    fn work(&self, thread: usize, polls: usize) {
        let mut seen = 0;
        loop {
            match self.gate.join(&mut seen, patience(polls)) {
                Joined::Job(work) => {
                    self.run_tasks(thread, work);
                    self.gate.leave();
                }
                Joined::Slept => {}
                Joined::Stop => return,
            }
        }
    }

    /// Runs `job`; returns its tasks, which come after `last`.
    fn run(&self, job: usize, last: Tasks, polls: usize, n_wake: usize) -> Tasks {
        let tasks = self.taken.begin(last, N_TASKS);
        // SAFETY: this is the only caller, and `close` follows.
        unsafe { self.gate.open((job, tasks), |parked| parked.min(n_wake)) };
        self.run_tasks(0, (job, tasks));
        let mut patience = patience(polls);
        self.gate.close(|| patience(0));
        for runs in &self.runs {
            // SAFETY: as above.
            runs.with(|runs| assert_eq!(unsafe { *runs }, job + 1, "every task has run"));
        }
        tasks
    }
}

/// So many polls, each of which lets the others run.
fn patience(polls: usize) -> impl FnMut(usize) -> bool {
    let mut left = polls;
    move |_| {
        let again = left > 0;
        left = left.saturating_sub(1);
        if again {
            loom::thread::yield_now();
        }
        again
    }
}

/// `n_jobs` jobs on a caller and `n_workers` workers, of which `n_wake` at most are woken for a job, in all orders with at
/// most `n_switches` switches away from a thread that could go on.
fn check(n_workers: usize, n_jobs: usize, polls: usize, n_wake: usize, n_switches: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(n_switches);
    model.check(move || {
        let pool = Arc::new(Pool {
            gate: Gate::new(),
            taken: Taken::new(1 + n_workers),
            runs: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let workers: Vec<_> = (0..n_workers)
            .map(|worker| {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || pool.work(1 + worker, polls))
            })
            .collect();
        let mut last = Tasks::default();
        for job in 0..n_jobs {
            last = pool.run(job, last, polls, n_wake);
            // The next one has the same number, as after 2³² jobs.
            last.job = u32::MAX;
        }
        pool.gate.stop();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    });
}

#[test]
fn one_worker_that_sleeps_at_once() {
    check(1, 2, 0, 1, 4);
}

#[test]
fn one_worker_that_polls() {
    check(1, 2, 1, 1, 4);
}

#[test]
fn one_worker_that_is_never_woken() {
    check(1, 2, 0, 0, 4);
}

#[test]
fn two_workers_that_sleep_at_once() {
    check(2, 1, 0, 2, 3);
}

#[test]
fn two_workers_of_whom_one_is_woken() {
    check(2, 2, 0, 1, 2);
}

#[test]
fn two_workers_that_poll() {
    check(2, 1, 1, 2, 2);
}
