//! What is multiplied after what. Every pass through a model takes its weights in the same order, so the beginning of the next
//! ones can come from memory while the last ones are multiplied; at the beginning of a product the machine would wait for it.
#![forbid(unsafe_code)]

use super::products::MOST;
use super::shares::Shares;

/// Where the weights of a call lie whose groups of rows are numbered through.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Call {
    places: [Place; MOST],
    n_places: usize,
    n_groups: usize,
}

/// Where a packed weight lies.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Of the first group; never read through. 0 for weights that are not packed.
    address: usize,
    group_bytes: usize,
    /// The number of its first group in the call.
    first_group: usize,
}

impl Call {
    /// Adds a weight of `n_groups` groups, which begin with `first` and lie `group_bytes` apart.
    pub fn push(&mut self, first: Option<&[u8]>, group_bytes: usize, n_groups: usize) {
        let address = first.map_or(0, |first| first.as_ptr().addr());
        self.places[self.n_places] = Place { address, group_bytes, first_group: self.n_groups };
        self.n_places += 1;
        self.n_groups += n_groups;
    }

    /// The address of a group; 0 for one that is not packed.
    pub fn address(&self, group: usize) -> usize {
        let places = &self.places[..self.n_places];
        let i = places.partition_point(|place| place.first_group <= group);
        match i.checked_sub(1).map(|i| places[i]) {
            Some(place) if place.address != 0 && group < self.n_groups => {
                place.address + (group - place.first_group) * place.group_bytes
            }
            _ => 0,
        }
    }

    /// Where a thread's first task of this call begins.
    fn beginning(&self, thread: usize, n_threads: usize) -> usize {
        let shares = Shares::new(self.n_groups, n_threads);
        if thread < shares.n_tasks() { self.address(shares.groups(thread).start) } else { 0 }
    }

    /// Where a thread goes on that has come to the end of `task`, as far as can be foreseen: in its next small task of those of
    /// `shares`, or in the call that comes `next`. 0 where that is not known.
    pub fn after(
        &self,
        shares: &Shares,
        task: usize,
        next: Option<&Call>,
        (thread, n_threads): (usize, usize),
    ) -> usize {
        let following = shares.after(task, thread, n_threads);
        match following {
            Some(task) => self.address(shares.groups(task).start),
            None => next.map_or(0, |next| next.beginning(thread, n_threads)),
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
            return None;
        }
        let is_it = |i: &usize| self.calls[*i].call.places[0].address == key;
        let expected = self.at.and_then(|at| self.calls[at].next).filter(is_it);
        let i = match expected.or_else(|| (0..self.calls.len()).find(is_it)) {
            Some(i) => i,
            None => {
                // Without memory nothing is foreseen.
                self.calls.try_reserve(1).ok()?;
                self.calls.push(Known { call: *call, next: None });
                self.calls.len() - 1
            }
        };
        if let Some(before) = self.at.replace(i) {
            self.calls[before].next = Some(i);
        }
        self.calls[i].next.map(|next| self.calls[next].call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of weights with so many groups each, of a byte; they lie one after another.
    fn call(bytes: &[u8], n_groups: &[usize]) -> Call {
        let mut call = Call::default();
        let mut first = 0;
        for n in n_groups {
            call.push(Some(&bytes[first..]), 1, *n);
            first += n;
        }
        call
    }

    #[test]
    fn what_came_after_a_call_is_foreseen() {
        let bytes = [0; 64];
        let calls = [call(&bytes, &[8, 2]), call(&bytes[10..], &[4]), call(&bytes[20..], &[30])];
        let mut course = Course::default();
        let start = |call: Option<Call>| call.map(|call| call.address(0));
        let first = bytes.as_ptr().addr();
        assert!(calls.iter().all(|call| course.take(call).is_none()));
        let foreseen = calls.each_ref().map(|call| start(course.take(call)));
        // What comes after the last one is known when it has come once.
        assert_eq!(foreseen, [Some(first + 10), Some(first + 20), Some(first)]);
        assert_eq!(start(course.take(&calls[0])), Some(first + 10));
        // Left out once; so it is what is foreseen afterwards.
        assert_eq!(start(course.take(&calls[2])), Some(first));
        assert_eq!(start(course.take(&calls[0])), Some(first + 20));
    }

    #[test]
    fn a_weight_that_is_not_packed_has_no_place() {
        let mut call = Call::default();
        call.push(None, 1, 4);
        assert_eq!((call.address(0), call.address(4)), (0, 0));
        assert!(Course::default().take(&call).is_none());
    }

    #[test]
    fn threads_go_on_with_small_tasks_and_then_with_the_next_call() {
        let bytes = [0; 96];
        let (now, next) = (call(&bytes, &[30, 6]), call(&bytes[40..], &[36]));
        let shares = Shares::new(36, 2);
        // Tasks of 15, 15, 2, 2 and 2 groups.
        let after = |task: usize, thread: usize| {
            now.after(&shares, task, Some(&next), (thread, 2)).checked_sub(bytes.as_ptr().addr())
        };
        assert_eq!([after(0, 0), after(1, 1), after(2, 0), after(3, 1)], [30, 32, 34, 55].map(Some));
        assert_eq!(after(4, 0), Some(40));
        assert_eq!(now.after(&shares, 4, None, (0, 2)), 0);
    }
}
