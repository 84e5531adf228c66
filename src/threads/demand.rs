//! The CPUs of the process, shared among the pools that are at work in it.
//!
//! All pools share one value: how many threads the working pools would like to keep awake. When that is more than there are CPUs,
//! each pool gets its share, and its other workers sleep. Threads that share a CPU would make every one of them wait for those
//! that are not running.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counting process, in the upper half; the number of threads of its working pools. A child process inherits the word but not
/// the pools, so it starts again from 0. It orders no other memory: a stale count only costs time.
static DEMAND: Demand = Demand(AtomicU64::new(0));

struct Demand(AtomicU64);

impl Demand {
    /// Adds `change` (or subtracts it) for process `process`.
    fn change(&self, process: u32, change: i64) {
        let add = |word: u64| {
            let inherited = (word >> 32) as u32 != process;
            let count = if inherited { 0 } else { i64::from(word as u32) };
            u64::from(process) << 32 | (count + change).clamp(0, i64::from(u32::MAX)) as u64
        };
        self.0.update(Relaxed, Relaxed, add);
    }

    fn share(&self, n_threads: usize, n_cpus: usize) -> usize {
        let demand = (self.0.load(Relaxed) as u32 as usize).max(n_threads);
        match demand <= n_cpus {
            true => n_threads,
            false => (n_threads * n_cpus / demand).max(1),
        }
    }
}

/// A pool of `n_threads` threads begins to work in process `process`.
pub fn begin(process: u32, n_threads: usize) {
    DEMAND.change(process, n_threads as i64);
}

/// The pool is done for now.
pub fn end(process: u32, n_threads: usize) {
    DEMAND.change(process, -(n_threads as i64));
}

/// How many threads a pool of `n_threads` may keep awake now, its caller's included, on a machine with `n_cpus`: at least 1.
pub fn share(n_threads: usize, n_cpus: usize) -> usize {
    DEMAND.share(n_threads, n_cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_share_the_cpus_by_what_they_want() {
        let demand = Demand(AtomicU64::new(0));
        assert_eq!(demand.share(4, 16), 4);
        assert_eq!(demand.share(64, 16), 16);
        demand.change(7, 16);
        assert_eq!(demand.share(16, 16), 16);
        demand.change(7, 16);
        assert_eq!(demand.share(16, 16), 8);
        demand.change(7, 2);
        assert_eq!((demand.share(16, 16), demand.share(2, 16), demand.share(1, 16)), (7, 1, 1));
        demand.change(7, -16);
        demand.change(7, -16);
        assert_eq!(demand.share(2, 2), 2);
    }

    #[test]
    fn a_child_process_starts_from_nothing() {
        let demand = Demand(AtomicU64::new(0));
        demand.change(7, 100);
        demand.change(8, 3);
        assert_eq!(demand.0.load(Relaxed), 8 << 32 | 3);
        demand.change(9, -3);
        assert_eq!(demand.0.load(Relaxed), 9 << 32);
    }
}
