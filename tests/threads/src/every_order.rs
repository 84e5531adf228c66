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

/// With one worker the caller has two of them.
const N_TASKS: usize = 3;

/// A pool as in `src/threads/pool.rs`; a job is its number and its tasks.
struct Pool {
    gate: Gate<(usize, Tasks)>,
    taken: Taken,
    /// Whether workers take all tasks and run none, as one does whose task has panicked.
    gives_up: bool,
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
                    match self.gives_up {
                        true => self.taken.take_all(work.1),
                        false => self.run_tasks(thread, work),
                    }
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
            let runs = runs.with(|runs| unsafe { *runs });
            assert!(runs == job + 1 || self.gives_up, "every task has run");
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

/// Jobs on a caller and workers.
struct Play {
    n_workers: usize,
    n_jobs: usize,
    /// Of those who wait.
    polls: usize,
    /// How many workers are woken for a job at most.
    n_wake: usize,
    gives_up: bool,
    /// Whether all jobs have the same number, as if 2³² - 1 lay between them.
    same_number: bool,
}

const PLAY: Play = Play { n_workers: 1, n_jobs: 2, polls: 0, n_wake: 1, gives_up: false, same_number: false };

/// Plays it in all orders with at most `n_switches` switches away from a thread that could go on.
fn check(play: Play, n_switches: usize) {
    let Play { n_workers, n_jobs, polls, n_wake, gives_up, same_number } = play;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(n_switches);
    model.check(move || {
        let pool = Arc::new(Pool {
            gate: Gate::new(),
            taken: Taken::new(1 + n_workers),
            gives_up,
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
            if same_number {
                last.job = u32::MAX;
            }
        }
        pool.gate.stop();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    });
}

#[test]
fn one_worker_that_sleeps_at_once() {
    check(PLAY, 4);
}

#[test]
fn one_worker_that_polls() {
    check(Play { polls: 1, ..PLAY }, 4);
}

#[test]
fn one_worker_that_is_never_woken() {
    check(Play { n_wake: 0, ..PLAY }, 4);
}

#[test]
fn one_worker_that_gives_up() {
    check(Play { n_jobs: 1, polls: 1, gives_up: true, ..PLAY }, 4);
}

#[test]
fn one_worker_when_numbers_come_again() {
    check(Play { polls: 1, same_number: true, ..PLAY }, 3);
}

#[test]
fn two_workers_that_sleep_at_once() {
    check(Play { n_workers: 2, n_jobs: 1, n_wake: 2, ..PLAY }, 3);
}

#[test]
fn two_workers_of_whom_one_is_woken() {
    check(Play { n_workers: 2, ..PLAY }, 2);
}

#[test]
fn two_workers_that_poll() {
    check(Play { n_workers: 2, n_jobs: 1, polls: 1, n_wake: 2, ..PLAY }, 2);
}
