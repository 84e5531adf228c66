//! How the rows of a product are shared among threads.
//!
//! A thread gets one long stretch of a product's rows, and then small ones. Memory delivers long stretches best; small ones even
//! out the end. At the end of a task the thread fetches the beginning of its next one (see `course`).
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::quant::packed::ROWS;

/// The last `1 / PARTS` of a thread's even share is handed out in small tasks.
const PARTS: usize = 8;
/// Small tasks for each thread.
const SMALL_TASKS: usize = 2;

/// Rows in groups of [`ROWS`], cut into tasks. The first tasks are long, one for each thread, since memory delivers one long
/// stretch much faster than several short ones. The rest are small, so that other threads help one that is held up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    n_groups: usize,
    n_long: usize,
    /// Groups of a long task.
    long: usize,
    /// Groups of a small one.
    small: usize,
}

impl Shares {
    /// `n_groups` groups of rows for `n_threads` threads; one thread has one task.
    pub fn new(n_groups: usize, n_threads: usize) -> Shares {
        let long = if n_threads == 1 { n_groups } else { n_groups * (PARTS - 1) / (PARTS * n_threads) };
        let n_long = if long == 0 { 0 } else { n_threads };
        let rest = n_groups - n_long * long;
        Shares { n_groups, n_long, long, small: rest.div_ceil(SMALL_TASKS * n_threads).max(1) }
    }

    /// Nothing but small tasks, [`SMALL_TASKS`] for each of `n_threads` threads.
    pub fn even(n_groups: usize, n_threads: usize) -> Shares {
        Shares { n_groups, n_long: 0, long: 0, small: n_groups.div_ceil(SMALL_TASKS * n_threads).max(1) }
    }

    /// The same with twice the groups, of which two neighbours always stay in one task.
    pub fn in_pairs(self) -> Shares {
        let Shares { n_groups, n_long, long, small } = self;
        Shares { n_groups: 2 * n_groups, n_long, long: 2 * long, small: 2 * small }
    }

    /// The number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.n_long + (self.n_groups - self.n_long * self.long).div_ceil(self.small)
    }

    /// The task that a thread will probably take after `task`, if there is one: the thread's next (see [`crate::threads`]).
    pub fn after(&self, task: usize, n_threads: usize) -> Option<usize> {
        let next = task + n_threads;
        (next < self.n_tasks()).then_some(next)
    }

    /// The groups of a task.
    pub fn groups(&self, task: usize) -> Range<usize> {
        if task < self.n_long {
            return task * self.long..(task + 1) * self.long;
        }
        let first = self.n_long * self.long + (task - self.n_long) * self.small;
        first..self.n_groups.min(first + self.small)
    }
}

/// The rows for `thread` of `n_rows` independent rows, as even as possible.
pub(super) fn rows_of(thread: usize, n_rows: usize, n_threads: usize) -> Range<usize> {
    let first = |thread: usize| thread * (n_rows / n_threads) + thread.min(n_rows % n_threads);
    first(thread)..first(thread + 1)
}

/// The rows among `groups`, of `n_rows` whose first group has the number `first`.
pub(super) fn rows_among(groups: &Range<usize>, first: usize, n_rows: usize) -> Range<usize> {
    let begin = (groups.start.saturating_sub(first) * ROWS).min(n_rows);
    begin..(groups.end.saturating_sub(first) * ROWS).min(n_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_in_one_task_and_no_task_is_empty() {
        for n_groups in (0..200).chain([3072]) {
            for n_threads in [1, 2, 3, 7, 64] {
                let pairs = Shares::new(n_groups / 2, n_threads).in_pairs();
                let n_pairs = pairs.n_tasks();
                assert!((0..n_pairs).all(|task| pairs.groups(task).start.is_multiple_of(2)), "{pairs:?}");
                let shares = [Shares::new(n_groups, n_threads), Shares::even(n_groups, n_threads), pairs];
                for (shares, n_groups) in shares.into_iter().zip([n_groups, n_groups, n_groups / 2 * 2]) {
                    let tasks: Vec<_> = (0..shares.n_tasks()).map(|task| shares.groups(task)).collect();
                    assert!(tasks.iter().all(|groups| !groups.is_empty()), "{shares:?}");
                    assert!(tasks.iter().cloned().flatten().eq(0..n_groups), "{shares:?}");
                }
            }
        }
    }

    #[test]
    fn threads_get_long_tasks_and_then_small_ones() {
        let shares = Shares::new(36, 2);
        let lengths: Vec<_> = (0..shares.n_tasks()).map(|task| shares.groups(task).len()).collect();
        assert_eq!(lengths, [15, 15, 2, 2, 2]);
    }

    #[test]
    fn each_row_is_for_one_thread() {
        assert_eq!([0, 1, 2, 3].map(|thread| rows_of(thread, 9, 4)), [0..3, 3..5, 5..7, 7..9]);
        assert_eq!([0, 1, 2].map(|thread| rows_of(thread, 2, 3)), [0..1, 1..2, 2..2]);
    }

    #[test]
    fn rows_of_several_weights_are_numbered_through() {
        // Groups 0..2 are those of 20 rows, 2..5 those of 48.
        assert_eq!((rows_among(&(1..4), 0, 20), rows_among(&(1..4), 2, 48)), (16..20, 0..32));
        assert!(rows_among(&(0..2), 2, 48).is_empty() && rows_among(&(2..5), 0, 20).is_empty());
    }
}
