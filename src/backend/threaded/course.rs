//! The order of products. Every pass through a model takes its weights in the same order. So the beginning of the next weights
//! can be fetched from memory while the last ones are multiplied; otherwise the machine would wait for it at the beginning of a
//! product.
//!
//! Ember fetches only an address ahead and reads nothing from it: a wrong prediction costs a little time and no correctness.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::super::host::HostWeight;
use super::products::MOST;
use super::shares::Shares;
use crate::memory::fallible;
use crate::quant::packed::{Ahead, ROWS};

/// The weights of a call, whose groups of rows are numbered consecutively, and how threads share them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    places: [Place; MOST],
    n_places: usize,
    /// Whether a task takes the same groups of each weight; otherwise groups are numbered consecutively.
    side_by_side: bool,
    shares: Shares,
}

/// Where a weight lies.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Of the first group; never read through. 0 for weights that are not packed.
    address: usize,
    group_bytes: usize,
    /// The numbers of its groups in the call.
    first_group: usize,
    end_group: usize,
}

impl Place {
    fn new(weight: &HostWeight, first_group: usize) -> Place {
        let n_groups = weight.n_rows.div_ceil(ROWS);
        let end_group = first_group + n_groups;
        match weight.groups(0..n_groups) {
            Some(bytes) if n_groups > 0 => {
                let (address, group_bytes) = (bytes.as_ptr().addr(), bytes.len() / n_groups);
                Place { address, group_bytes, first_group, end_group }
            }
            _ => Place { address: 0, group_bytes: 0, first_group, end_group },
        }
    }

    /// The memory of `groups`, of which the first belongs to the weight, as far as they all do.
    fn memory(&self, groups: Range<usize>) -> Ahead {
        if self.address == 0 {
            return Ahead::NONE;
        }
        Ahead {
            address: self.address + (groups.start - self.first_group) * self.group_bytes,
            n_bytes: (groups.end.min(self.end_group) - groups.start) * self.group_bytes,
        }
    }
}

impl Call {
    /// The call of these products, whose groups `share` hands out.
    pub fn new<'a>(
        weights: impl Iterator<Item = &'a HostWeight>,
        share: impl FnOnce(usize) -> Shares,
    ) -> Call {
        let (mut places, mut n_places, mut n_groups) = ([Place::default(); MOST], 0, 0);
        for (weight, place) in weights.zip(&mut places) {
            *place = Place::new(weight, n_groups);
            (n_places, n_groups) = (n_places + 1, place.end_group);
        }
        Call { places, n_places, side_by_side: false, shares: share(n_groups) }
    }

    /// The call of two weights with the same number of rows, of each of which a task takes the same groups.
    pub fn side_by_side(weights: [&HostWeight; 2], share: impl FnOnce(usize) -> Shares) -> Call {
        let mut places = [Place::default(); MOST];
        for (weight, place) in weights.into_iter().zip(&mut places) {
            *place = Place::new(weight, 0);
        }
        Call { places, n_places: 2, side_by_side: true, shares: share(places[0].end_group) }
    }

    /// How the groups are shared.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The number of the first group of weight `i`.
    pub fn first_group(&self, i: usize) -> usize {
        self.places[i].first_group
    }

    /// The memory of `groups`, as far as they are of the same weight as the first.
    fn memory(&self, groups: Range<usize>) -> Ahead {
        let of = |place: &&Place| (place.first_group..place.end_group).contains(&groups.start);
        self.places[..self.n_places].iter().find(of).map_or(Ahead::NONE, |place| place.memory(groups))
    }

    /// The memory that a thread probably reads after the end of weight `i` in `task`: that of the next weight, of its next small
    /// task, or of the `next` call. It is a prediction, since other threads may take a thread's tasks; their reads are then
    /// already in the cache.
    pub fn after(
        &self,
        (task, i): (usize, usize),
        next: Option<&Call>,
        (thread, n_threads): (usize, usize),
    ) -> Ahead {
        let groups = self.shares.groups(task);
        let end = self.places[i].end_group;
        if self.side_by_side && i + 1 < self.n_places {
            return self.places[i + 1].memory(groups);
        }
        if end < groups.end {
            return self.memory(end..groups.end);
        }
        match (self.shares.after(task, n_threads), next) {
            (Some(task), _) => self.memory(self.shares.groups(task)),
            (None, Some(next)) if thread < next.shares.n_tasks() => next.memory(next.shares.groups(thread)),
            _ => Ahead::NONE,
        }
    }
}

/// The calls of a pass, in the order in which they came last time.
#[derive(Default)]
pub(super) struct Course {
    calls: Vec<Known>,
    /// The last one.
    at: Option<usize>,
}

struct Known {
    call: Call,
    /// What came after it.
    next: Option<usize>,
}

impl Course {
    /// Notes that `call` comes now; returns what came after it last time.
    pub fn take(&mut self, call: &Call) -> Option<Call> {
        let key = call.places[0].address;
        if key == 0 {
            self.leave();
            return None;
        }
        let is_it = |i: &usize| self.calls[*i].call.places[0].address == key;
        let expected = self.at.and_then(|at| self.calls[at].next).filter(is_it);
        let i = match expected.or_else(|| (0..self.calls.len()).find(is_it)) {
            Some(i) => i,
            None => {
                // Without memory nothing is predicted.
                fallible(|| self.calls.try_reserve(1)).ok()?;
                self.calls.push(Known { call: *call, next: None });
                self.calls.len() - 1
            }
        };
        self.calls[i].call = *call;
        if let Some(before) = self.at.replace(i) {
            self.calls[before].next = Some(i);
        }
        self.calls[i].next.map(|next| self.calls[next].call)
    }

    /// Notes that the product under way fetches nothing ahead.
    pub fn leave(&mut self) {
        if let Some(before) = self.at.take() {
            self.calls[before].next = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of weights with so many groups each, of a byte; they lie one after another, from `address` on.
    fn call(address: usize, n_groups: &[usize]) -> Call {
        let (mut places, mut n) = ([Place::default(); MOST], 0);
        for (n_groups, place) in n_groups.iter().zip(&mut places) {
            *place = Place { address: address + n, group_bytes: 1, first_group: n, end_group: n + n_groups };
            n += n_groups;
        }
        Call { places, n_places: n_groups.len(), side_by_side: false, shares: Shares::new(n, 2) }
    }

    fn start(call: Option<Call>) -> Option<usize> {
        call.map(|call| call.memory(0..1).address)
    }

    #[test]
    fn what_came_after_a_call_is_foreseen() {
        let calls = [call(100, &[8, 2]), call(200, &[4]), call(300, &[30])];
        let mut course = Course::default();
        assert!(calls.iter().all(|call| course.take(call).is_none()));
        // The call after the last one is known once it has come.
        assert_eq!(calls.each_ref().map(|call| start(course.take(call))), [200, 300, 100].map(Some));
        assert_eq!(start(course.take(&calls[0])), Some(200));
        // Left out once, so the prediction changes.
        assert_eq!(start(course.take(&calls[2])), Some(100));
        assert_eq!(start(course.take(&calls[0])), Some(300));
    }

    #[test]
    fn what_has_no_place_is_no_part_of_the_course() {
        let calls = [call(100, &[8]), call(200, &[4])];
        let (mut course, elsewhere) = (Course::default(), call(0, &[4]));
        for _ in 0..2 {
            assert_eq!(elsewhere.memory(0..4), Ahead::NONE);
            assert!(course.take(&calls[0]).is_none());
            assert!(course.take(&elsewhere).is_none());
            assert!(course.take(&calls[1]).is_none());
            course.leave();
        }
    }

    #[test]
    fn threads_go_on_with_the_next_weight_with_small_tasks_and_with_the_next_call() {
        let (now, next) = (call(100, &[10, 20, 6]), call(200, &[36]));
        let after = |task, i, thread| {
            let Ahead { address, n_bytes } = now.after((task, i), Some(&next), (thread, 2));
            (address, n_bytes)
        };
        // Tasks of 15, 15, 2, 2 and 2 groups.
        assert_eq!((after(0, 0, 0), after(0, 1, 0), after(1, 1, 1)), ((110, 5), (130, 2), (132, 2)));
        assert_eq!((after(2, 2, 0), after(3, 2, 1), after(4, 2, 0)), ((134, 2), (215, 15), (200, 15)));
        assert_eq!(now.after((4, 2), None, (0, 2)), Ahead::NONE);
    }

    #[test]
    fn weights_side_by_side_come_one_after_the_other_in_each_task() {
        let mut now = call(100, &[10, 10]);
        now.places[1] = Place { first_group: 0, end_group: 10, ..now.places[1] };
        now.shares = Shares::new(5, 2).in_pairs();
        let (now, next) = (Call { side_by_side: true, ..now }, call(200, &[36]));
        let after = |task, i, thread| {
            let Ahead { address, n_bytes } = now.after((task, i), Some(&next), (thread, 2));
            (address, n_bytes)
        };
        // Tasks of 4, 4 and 2 groups of each weight.
        assert_eq!((after(0, 0, 0), after(1, 0, 1), after(2, 0, 0)), ((110, 4), (114, 4), (118, 2)));
        assert_eq!((after(0, 1, 0), after(1, 1, 1), after(2, 1, 0)), ((108, 2), (215, 15), (200, 15)));
    }
}
