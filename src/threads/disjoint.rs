//! A slice that the tasks of a job write side by side.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice whose disjoint parts several tasks write.
pub struct DisjointMut<'a, T> {
    data: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: the methods that reach the data are unsafe and require disjoint parts.
unsafe impl<T: Send> Sync for DisjointMut<'_, T> {}

impl<'a, T> DisjointMut<'a, T> {
    /// Takes the slice for the time of the tasks.
    pub fn new(data: &'a mut [T]) -> Self {
        DisjointMut { data: data.as_mut_ptr(), len: data.len(), owner: PhantomData }
    }

    /// Elements in the whole slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first element, for code that writes a part with strides.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// The part `range`; panics when it leaves the slice.
    ///
    /// # Safety
    /// No other part that overlaps `range` may be alive.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's promise, stated above")]
    pub unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "part {range:?} of a slice of {}",
            self.len
        );
        // SAFETY: the start was checked to lie inside the slice.
        let start = unsafe { self.data.add(range.start) };
        // SAFETY: the range was checked, the slice is exclusively borrowed for 'a, and the caller promises that
        // no overlapping part is alive.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }
}
