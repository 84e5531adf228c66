//! Requests that wait for a free sequence and free pages.
#![forbid(unsafe_code)]

use super::pump::Job;
use crate::error::{Error, Result};

/// How many requests of higher priority that came later may go before a request until it goes before them all.
const MOST_PASSED: u32 = 32;

/// Whether a request was passed often enough to be next whatever its priority.
fn is_due(job: &Job) -> bool {
    job.n_passed >= MOST_PASSED
}

/// Requests of lower ranks go first, and keep their pages longest: the oldest of those that were passed often enough, then those
/// of the highest priority, of these the oldest.
pub(super) fn rank(job: &Job) -> (bool, i64, u64) {
    match is_due(job) {
        true => (false, 0, job.number),
        false => (true, -i64::from(job.priority), job.number),
    }
}

/// The waiting requests: those of higher priority first, of equal ones those that came first. Nobody waits for ever.
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

    /// `QueueFull` when as many wait as may.
    pub(super) fn check_capacity(&self) -> Result<()> {
        match self.jobs.len() < self.most {
            true => Ok(()),
            false => Err(Error::QueueFull(format!(
                "{} requests wait already, as many as may: submit it again later",
                self.jobs.len()
            ))),
        }
    }

    /// Adds a request that came now.
    pub(super) fn push(&mut self, mut job: Job) -> Result<()> {
        self.check_capacity()?;
        job.number = self.next;
        self.next += 1;
        self.jobs.push(job);
        Ok(())
    }

    /// Takes back one that was taken.
    pub(super) fn put_back(&mut self, job: Job) {
        self.jobs.push(job);
    }

    /// The request that is next.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let (at, _) = self.jobs.iter().enumerate().min_by_key(|(_, job)| rank(job))?;
        Some(self.jobs.swap_remove(at))
    }

    /// `job` begins: it passes those that came before it. If it is next for having been passed, all others are counted from 0
    /// again, lest a whole queue of them go before more urgent ones; the oldest that waits is not among them.
    pub(super) fn passed_by(&mut self, job: &Job) {
        for other in &mut self.jobs {
            if is_due(job) {
                other.n_passed = 0;
            } else if other.number < job.number {
                other.n_passed = other.n_passed.saturating_add(1);
            }
        }
    }

    /// Takes out those that `is` is true of.
    pub(super) fn take_if(&mut self, is: impl FnMut(&mut Job) -> bool) -> Vec<Job> {
        self.jobs.extract_if(.., is).collect()
    }
}
