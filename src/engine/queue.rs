//! Requests that wait for a free sequence and free pages.
#![forbid(unsafe_code)]

use super::pump::Job;
use crate::error::{Error, Result};

/// How many later requests of higher priority may go before a request until it goes before them all.
const MOST_PASSED: u32 = 32;

/// Whether a request was passed so often that it is next whatever its priority.
fn is_due(job: &Job) -> bool {
    job.n_passed >= MOST_PASSED
}

/// Requests of lower ranks go first, and keep their pages longest: the oldest of those that were passed often enough, then those
/// of the highest priority, and of these the oldest.
pub(super) fn rank(job: &Job) -> (bool, i64, u64) {
    match is_due(job) {
        true => (false, 0, job.number),
        false => (true, -i64::from(job.priority), job.number),
    }
}

/// The waiting requests: those of higher priority first, of equal ones the oldest. No request waits for ever.
pub(super) struct Queue {
    jobs: Vec<Job>,
    most: usize,
    /// Number of the next request.
    next: u64,
}

impl Queue {
    pub(super) fn new(most: usize) -> Queue {
        Queue { jobs: Vec::new(), most, next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Those that wait.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    /// `QueueFull` when the queue is full.
    pub(super) fn check_capacity(&self) -> Result<()> {
        match self.jobs.len() < self.most {
            true => Ok(()),
            false => Err(Error::QueueFull(format!(
                "{} requests wait already, as many as may: submit it again later",
                self.jobs.len()
            ))),
        }
    }

    /// Adds a new request.
    pub(super) fn push(&mut self, mut job: Job) -> Result<()> {
        self.check_capacity()?;
        job.number = self.next;
        self.next += 1;
        self.jobs.push(job);
        Ok(())
    }

    /// Puts back a request that was taken.
    pub(super) fn put_back(&mut self, job: Job) {
        self.jobs.push(job);
    }

    /// The request that is next.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let (at, _) = self.jobs.iter().enumerate().min_by_key(|(_, job)| rank(job))?;
        Some(self.jobs.swap_remove(at))
    }

    /// `job` begins and passes older ones. If it is next for having been passed, the counts of all others begin again, so that
    /// not a whole queue of them goes before more urgent ones; the oldest that waits is not among them.
    pub(super) fn passed_by(&mut self, job: &Job) {
        for other in &mut self.jobs {
            if is_due(job) {
                other.n_passed = 0;
            } else if other.number < job.number {
                other.n_passed = other.n_passed.saturating_add(1);
            }
        }
    }

    /// Takes out the requests for which `is` returns true.
    pub(super) fn take_if(&mut self, is: impl FnMut(&mut Job) -> bool) -> Vec<Job> {
        self.jobs.extract_if(.., is).collect()
    }
}
