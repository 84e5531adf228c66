//! The gate between the caller of a pool and its workers: how a job is published, joined, left and awaited, and how
//! workers sleep and are woken.
//!
//! All state that two threads must agree on is in one 64-bit word, so each step is one read-modify-write of it, and the word
//! orders the steps:
//!
//! - A worker joins the open job by adding [`INSIDE`]. The caller closes the job when no task is left and waits for the workers
//!   inside; it does not wait for a worker that the system did not run meanwhile.
//! - A worker that goes to sleep adds [`PARKED`] and waits for a permit. A thread that wakes workers subtracts them from the word
//!   and hands out as many permits, in one step with publishing a job or stopping; so no wake-up is lost and none is sent twice.
//! - A caller that goes to sleep sets [`WAITS`]; the last worker to leave sees it and notifies it.
//!
//! `tests/threads` runs this file under a model checker.

use super::sync::{AtomicU64, Condvar, Mutex, Ordering, UnsafeCell};
use Ordering::{Acquire, Relaxed, Release};

/// One worker inside the job.
const INSIDE: u64 = 1;
/// One worker asleep.
const PARKED: u64 = 1 << 10;
/// The job may be joined.
const OPEN: u64 = 1 << 20;
/// The pool ends.
const STOP: u64 = 1 << 21;
/// The caller sleeps until no worker is inside.
const WAITS: u64 = 1 << 22;
/// One job; the bits from here on number the jobs.
const JOB: u64 = 1 << 24;

/// Most workers that a gate can count.
pub const MAX_WORKERS: usize = 1023;

fn n_inside(state: u64) -> u64 {
    state & (PARKED - 1)
}

fn n_parked(state: u64) -> usize {
    (state >> 10 & 1023) as usize
}

fn job_number(state: u64) -> u64 {
    state / JOB
}

/// The result of a worker's wait.
pub enum Joined<J> {
    /// It is inside this job.
    Job(J),
    /// It slept and was woken.
    Slept,
    /// The pool ends.
    Stop,
}

/// See the module; `J` is the type of jobs.
///
/// The word and the job, which are read together, have a cache line of their own, with its neighbour, which some processors fetch
/// along.
#[repr(align(128))]
pub struct Gate<J> {
    state: AtomicU64,
    /// The current job: written by the caller while it is closed and no worker is inside, read by workers inside it.
    job: UnsafeCell<Option<J>>,
    sleep: Sleep,
}

/// Where threads sleep. The standard library's locks allocate nothing when a thread sleeps; parking_lot's allocate the first
/// time.
#[repr(align(128))]
struct Sleep {
    /// Sleeping workers that may go on.
    permits: Mutex<usize>,
    wake: Condvar,
    /// Whether the last worker has left the job that the sleeping caller waits for.
    done: Mutex<bool>,
    all_left: Condvar,
}

// SAFETY: `job` is the only field that is not Sync by itself. Only the caller writes it (a promise of `open`), while the job is
// closed and no worker is inside, before the release that opens it. Only workers inside read it, and the caller acquires their
// leaving before it continues. A job is copied out, so it must be Send.
unsafe impl<J: Copy + Send> Sync for Gate<J> {}

/// Locks; no code panics while it holds these locks, so poison can be ignored.
macro_rules! locked {
    ($result:expr) => {
        $result.unwrap_or_else(|poisoned| poisoned.into_inner())
    };
}

impl<J: Copy> Gate<J> {
    /// A closed gate without a job, and without workers inside or asleep.
    pub fn new() -> Gate<J> {
        let sleep = Sleep {
            permits: Mutex::new(0),
            wake: Condvar::new(),
            done: Mutex::new(false),
            all_left: Condvar::new(),
        };
        Gate { state: AtomicU64::new(0), job: UnsafeCell::new(None), sleep }
    }

    /// Publishes `job` and wakes workers: as many as `n_wake` says, which gets the number of those that sleep.
    ///
    /// # Safety
    /// Only one thread at a time is the caller, which opens and closes alternately.
    pub unsafe fn open(&self, job: J, n_wake: impl Fn(usize) -> usize) {
        self.job.with_mut(|place| {
            // SAFETY: the job before is closed without workers inside, and the caller is one thread.
            unsafe { *place = Some(job) }
        });
        let mut state = self.state.load(Relaxed);
        loop {
            let parked = n_parked(state);
            let n = n_wake(parked).min(parked);
            let new = state.wrapping_add(JOB) + OPEN - n as u64 * PARKED;
            // Releases the job to the workers that join.
            match self.state.compare_exchange_weak(state, new, Release, Relaxed) {
                Ok(_) => return self.permit(n, parked),
                Err(now) => state = now,
            }
        }
    }

    /// Closes the job and returns when no worker is inside: it polls while `patience` returns true and then sleeps.
    pub fn close(&self, mut patience: impl FnMut() -> bool) {
        // Each of these acquires what the workers did before they left.
        let mut state = self.state.fetch_and(!OPEN, Acquire);
        while n_inside(state) > 0 {
            if !patience() {
                return self.sleep_until_all_left();
            }
            state = self.state.load(Acquire);
        }
    }

    fn sleep_until_all_left(&self) {
        if n_inside(self.state.fetch_or(WAITS, Acquire)) > 0 {
            let mut done = locked!(self.sleep.done.lock());
            while !*done {
                done = locked!(self.sleep.all_left.wait(done));
            }
            *done = false;
        }
        self.state.fetch_and(!WAITS, Acquire);
    }

    /// Waits for an open job other than number `seen` and joins it. It polls while `patience`, which gets the number of sleeping
    /// workers, returns true, and then sleeps until it is woken.
    pub fn join(&self, seen: &mut u64, mut patience: impl FnMut(usize) -> bool) -> Joined<J> {
        let mut state = self.state.load(Acquire);
        loop {
            if state & STOP != 0 {
                return Joined::Stop;
            }
            if state & OPEN != 0 && job_number(state) != *seen {
                match self.state.compare_exchange_weak(state, state + INSIDE, Acquire, Acquire) {
                    Ok(_) => {
                        *seen = job_number(state);
                        // SAFETY: this worker is inside, so the caller does not write.
                        let job = self.job.with(|job| unsafe { *job });
                        return Joined::Job(job.expect("an open gate has a job"));
                    }
                    Err(now) => state = now,
                }
            } else if patience(n_parked(state)) {
                state = self.state.load(Acquire);
            } else {
                match self.state.compare_exchange_weak(state, state + PARKED, Relaxed, Acquire) {
                    Ok(_) => {
                        self.await_permit();
                        return Joined::Slept;
                    }
                    Err(now) => state = now,
                }
            }
        }
    }

    /// Leaves the job that [`Gate::join`] gave.
    pub fn leave(&self) {
        let state = self.state.fetch_sub(INSIDE, Release);
        if n_inside(state) == 1 && state & WAITS != 0 {
            *locked!(self.sleep.done.lock()) = true;
            self.sleep.all_left.notify_one();
        }
    }

    /// Ends the pool: wakes all workers, and every [`Gate::join`] from now on gives [`Joined::Stop`].
    pub fn stop(&self) {
        let mut state = self.state.load(Relaxed);
        loop {
            let n = n_parked(state);
            let new = (state | STOP) - n as u64 * PARKED;
            match self.state.compare_exchange_weak(state, new, Release, Relaxed) {
                Ok(_) => return self.permit(n, n),
                Err(now) => state = now,
            }
        }
    }

    /// How many workers sleep.
    #[cfg(test)]
    pub fn n_parked(&self) -> usize {
        n_parked(self.state.load(Relaxed))
    }

    /// Wakes `n` of the `parked` sleeping workers.
    fn permit(&self, n: usize, parked: usize) {
        if n == 0 {
            return;
        }
        *locked!(self.sleep.permits.lock()) += n;
        match n == parked {
            true => self.sleep.wake.notify_all(),
            false => (0..n).for_each(|_| self.sleep.wake.notify_one()),
        }
    }

    fn await_permit(&self) {
        let mut permits = locked!(self.sleep.permits.lock());
        while *permits == 0 {
            permits = locked!(self.sleep.wake.wait(permits));
        }
        *permits -= 1;
    }
}
