//! A reserve for when the system has no more memory.
//!
//! Rust ends the process when a small allocation fails: a `Vec` that grows, a `Box`, a map. A host must survive that, so the C
//! library's allocator is [`Reserve`]. It passes calls on to another allocator. When that one fails, it takes from a few
//! megabytes of its own, which cost nothing until then. The call under way continues with them to the next place that may fail
//! ([`check`]), and ends there with `NoMemory`. What it had made is dropped, and the reserve is whole again.
//!
//! Large buffers do not come from it: their allocation may fail ([`fallible`]).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use crate::error::{Error, Result};

/// Bytes of the reserve; fewer under Miri, which interprets each search through its units.
const N_BYTES: usize = if cfg!(miri) { 1 << 18 } else { 32 << 20 };
/// Bytes that are handed out together, and their alignment.
const UNIT: usize = 64;
const N_UNITS: usize = N_BYTES / UNIT;
/// Units that one word of the table covers.
const PER_WORD: usize = u64::BITS as usize;

/// How many times a reserve was drawn upon in this process.
static DRAWN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the allocation at hand may fail.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// A moment, to [`check`] later.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

impl Mark {
    /// Before the first draw.
    pub const START: Mark = Mark(0);
}

/// Now.
pub fn mark() -> Mark {
    Mark(DRAWN.load(SeqCst))
}

/// `NoMemory` when any thread had to draw upon the reserve since `mark`: then there is no memory.
pub fn check(mark: Mark) -> Result<()> {
    match mark.0 == DRAWN.load(SeqCst) {
        true => Ok(()),
        false => Err(Error::NoMemory("the system has no more memory".into())),
    }
}

/// Runs `allocate`, whose caller handles a failure: it takes nothing from the reserve.
pub fn fallible<T>(allocate: impl FnOnce() -> T) -> T {
    let before = MAY_FAIL.replace(true);
    let result = allocate();
    MAY_FAIL.set(before);
    result
}

/// `NoMemory` when the system has not `n_bytes` more. The coming work on `what` allocates that much in pieces that must not fail,
/// and any of which may exceed the reserve. Small amounts are not checked: the reserve covers them.
pub fn expect_memory(n_bytes: usize, what: &str) -> Result<()> {
    if n_bytes <= N_BYTES / 4 {
        return Ok(());
    }
    let outcome = fallible(|| Vec::<u8>::new().try_reserve_exact(n_bytes));
    outcome.map_err(|_| {
        Error::NoMemory(format!("the system has no more memory: {what} would need about {n_bytes} bytes"))
    })
}

/// An empty list with capacity for `n` elements, without drawing upon the reserve; `NoMemory` names `what`.
pub fn with_capacity<T>(n: usize, what: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let size = size_of::<T>();
    fallible(|| list.try_reserve_exact(n))
        .map_err(|_| Error::NoMemory(format!("no memory for {what}: {n} elements of {size} bytes")))?;
    Ok(list)
}

/// A list of `n` times `value`, likewise.
pub fn filled<T: Clone>(value: T, n: usize, what: &str) -> Result<Vec<T>> {
    let mut list = with_capacity(n, what)?;
    list.resize(n, value);
    Ok(list)
}

/// A copy of a list, likewise.
pub fn copied<T: Copy>(list: &[T], what: &str) -> Result<Vec<T>> {
    let mut copy = with_capacity(list.len(), what)?;
    copy.extend_from_slice(list);
    Ok(copy)
}

/// A copy of a text, likewise.
pub fn copied_text(text: &str, what: &str) -> Result<String> {
    let mut copy = String::new();
    let n = text.len();
    fallible(|| copy.try_reserve_exact(n))
        .map_err(|_| Error::NoMemory(format!("no memory for {what}: {n} bytes")))?;
    copy.push_str(text);
    Ok(copy)
}

/// A list of the elements of an iterator, `n` at most, likewise; or the first error among them.
pub fn collected<T>(n: usize, what: &str, elements: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut list = with_capacity(n, what)?;
    for element in elements.take(n) {
        list.push(element?);
    }
    Ok(list)
}

/// Appends to a list, whose growth is checked likewise.
pub fn append<T>(list: &mut Vec<T>, element: T, what: &str) -> Result<()> {
    if list.len() == list.capacity() {
        let (n, size) = (list.len(), size_of::<T>());
        fallible(|| list.try_reserve(1)).map_err(|_| {
            Error::NoMemory(format!("no memory for {what}: more than {n} elements of {size} bytes"))
        })?;
    }
    list.push(element);
    Ok(())
}

/// An allocator with a reserve for when `inner` fails. For the allocator of a process, or of a library:
///
/// ```
/// use std::alloc::System;
/// use ember::memory::Reserve;
/// #[global_allocator]
/// static ALLOCATOR: Reserve<System> = Reserve::new(System);
/// ```
pub struct Reserve<A> {
    inner: A,
    /// Held while a thread reads or changes `taken`.
    lock: AtomicBool,
    /// A bit for each unit that is taken.
    taken: [AtomicU64; N_UNITS / PER_WORD],
    /// Where the next search begins: the first word that may have a free unit.
    first: AtomicUsize,
    /// Untouched, so no memory of the system, until it is needed.
    units: UnsafeCell<MaybeUninit<Units>>,
}

#[repr(C, align(4096))]
struct Units([u8; N_BYTES]);

// SAFETY: units are only handed out, each to one owner at a time, under the lock.
unsafe impl<A: Sync> Sync for Reserve<A> {}

impl<A> Reserve<A> {
    /// A reserve over `inner`.
    pub const fn new(inner: A) -> Reserve<A> {
        Reserve {
            inner,
            lock: AtomicBool::new(false),
            taken: [const { AtomicU64::new(0) }; N_UNITS / PER_WORD],
            first: AtomicUsize::new(0),
            units: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Bytes that are taken at the moment, in whole units.
    pub fn used(&self) -> usize {
        self.taken.iter().map(|word| word.load(SeqCst).count_ones() as usize * UNIT).sum()
    }

    fn start(&self) -> *mut u8 {
        self.units.get().cast()
    }

    /// The first unit of a block, if it is one of the reserve.
    fn unit_of(&self, block: *mut u8) -> Option<usize> {
        let offset = block.addr().wrapping_sub(self.start().addr());
        (offset < N_BYTES).then_some(offset / UNIT)
    }

    fn is_free(&self, unit: usize) -> bool {
        self.taken[unit / PER_WORD].load(Relaxed) >> (unit % PER_WORD) & 1 == 0
    }

    /// Flips the bits of some units. The lock is held.
    fn flip(&self, units: std::ops::Range<usize>) {
        for unit in units {
            self.taken[unit / PER_WORD].fetch_xor(1 << (unit % PER_WORD), SeqCst);
        }
    }

    fn locked<T>(&self, f: impl FnOnce() -> T) -> T {
        while self.lock.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::hint::spin_loop();
        }
        let result = f();
        self.lock.store(false, Release);
        result
    }

    /// The first place for `n` units at a multiple of `step`.
    fn find(&self, n: usize, step: usize) -> Option<usize> {
        let full = |word: usize| self.taken[word].load(Relaxed) == u64::MAX;
        let mut first = self.first.load(Relaxed);
        while first < self.taken.len() && full(first) {
            first += 1;
        }
        self.first.store(first, Relaxed);
        let mut at = (first * PER_WORD).next_multiple_of(step);
        while at + n <= N_UNITS {
            match (at..at + n).rev().find(|&unit| !self.is_free(unit)) {
                None => return Some(at),
                Some(taken) => at = (taken + 1).next_multiple_of(step),
            }
        }
        None
    }

    /// A block of the reserve, or NULL.
    fn draw(&self, layout: Layout) -> *mut u8 {
        if MAY_FAIL.get() || layout.size() > N_BYTES || layout.align() > align_of::<Units>() {
            return ptr::null_mut();
        }
        let (n, step) = (layout.size().div_ceil(UNIT), layout.align().div_ceil(UNIT));
        let found = self.locked(|| self.find(n, step).inspect(|&at| self.flip(at..at + n)));
        match found {
            None => ptr::null_mut(),
            Some(at) => {
                DRAWN.fetch_add(1, SeqCst);
                self.start().wrapping_add(at * UNIT)
            }
        }
    }

    /// Takes back the block that begins with `unit`.
    fn give_back(&self, unit: usize, size: usize) {
        self.locked(|| {
            self.flip(unit..unit + size.div_ceil(UNIT));
            self.first.fetch_min(unit / PER_WORD, Relaxed);
        });
    }
}

// SAFETY: a block is either one of `inner`, to which its calls are passed on, or some units that nobody else has, at a multiple
// of their alignment; its address says which of the two. Nothing here unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserve<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that this call asks for.
        match NonNull::new(unsafe { self.inner.alloc(layout) }) {
            Some(block) => block.as_ptr(),
            None => self.draw(layout),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if let Some(block) = NonNull::new(unsafe { self.inner.alloc_zeroed(layout) }) {
            return block.as_ptr();
        }
        let block = self.draw(layout);
        if !block.is_null() {
            // SAFETY: the block has that many bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.unit_of(block) {
            Some(unit) => self.give_back(unit, layout.size()),
            // SAFETY: not one of the reserve's, so `inner` gave it, with this layout.
            None => unsafe { self.inner.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let unit = self.unit_of(block);
        if unit.is_none() {
            // SAFETY: as in `dealloc`; the caller's promise for the rest.
            let moved = unsafe { self.inner.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        let moved = match unit {
            None => self.draw(new),
            // SAFETY: the caller promises that the size is not 0.
            Some(_) => unsafe { self.alloc(new) },
        };
        if !moved.is_null() {
            // SAFETY: both blocks have so many bytes, and are two.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: the caller gives the block up, which has this layout.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    /// Always fails.
    struct Empty;

    // SAFETY: it never gives a block.
    unsafe impl GlobalAlloc for Empty {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            ptr::null_mut()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
            unreachable!("it gave none")
        }
    }

    static EMPTY: Reserve<Empty> = Reserve::new(Empty);
    static FULL: Reserve<System> = Reserve::new(System);

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn memory_for_much_is_looked_for() {
        assert!(expect_memory(0, "nothing").is_ok() && expect_memory(16 << 20, "some").is_ok());
        // A 32-bit machine may have the two gigabytes that one allocation can ask for there.
        if usize::BITS == 64 {
            let error =
                expect_memory(isize::MAX as usize - 4096, "a text").expect_err("no machine has as much");
            assert!(matches!(&error, Error::NoMemory(m) if m.contains("a text")), "{error}");
        }
        assert!(expect_memory(usize::MAX, "a text").is_err());
    }

    #[test]
    fn lists_that_no_memory_has_are_refused_by_name() {
        let error = with_capacity::<u64>(usize::MAX, "the numbers").expect_err("no machine has as many");
        assert!(matches!(&error, Error::NoMemory(m) if m.contains("the numbers")), "{error}");
        assert_eq!(filled(7, 3, "sevens"), Ok(vec![7; 3]));
        let mut list = Vec::new();
        assert!(
            (0..9).all(|i| append(&mut list, i, "numbers").is_ok()) && list == (0..9).collect::<Vec<_>>()
        );
        assert_eq!(copied(&[1, 2], "a list"), Ok(vec![1, 2]));
        assert_eq!(copied_text("äb", "a text"), Ok("äb".to_owned()));
    }

    /// One test for all, since the reserve is one.
    #[test]
    fn the_reserve_gives_whole_blocks_and_takes_them_back() {
        let before = mark();
        let mut blocks = Vec::new();
        for (i, (size, align)) in
            [(1, 1), (64, 8), (65, 64), (4000, 4096), (10_000, 16), (7, 1), (N_BYTES / 32, 32)]
                .into_iter()
                .enumerate()
        {
            let layout = layout(size, align);
            // SAFETY: the size is not 0.
            let block = unsafe { EMPTY.alloc_zeroed(layout) };
            assert!(!block.is_null() && block.addr().is_multiple_of(align), "{layout:?}");
            // SAFETY: a block of so many bytes, all of them written.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
            assert!(bytes.iter().all(|&b| b == 0));
            bytes.fill(i as u8 + 1);
            blocks.push((block, layout, i as u8 + 1));
        }
        assert!(check(before).is_err() && check(mark()).is_ok());
        let used = EMPTY.used();
        for (block, old, byte) in blocks.iter_mut().take(4) {
            // SAFETY: a block of this layout; the size is not 0.
            let moved = unsafe { EMPTY.realloc(*block, *old, 300) };
            // SAFETY: so many bytes were copied.
            let bytes = unsafe { std::slice::from_raw_parts(moved, old.size().min(300)) };
            assert!(bytes.iter().all(|b| b == byte));
            (*block, *old) = (moved, layout(300, old.align()));
        }
        assert_ne!(EMPTY.used(), used);
        for (block, layout, byte) in blocks {
            if layout.size() != 300 {
                // SAFETY: the last byte of the block is within it.
                let last = unsafe { block.add(layout.size() - 1) };
                // SAFETY: it was written.
                assert_eq!(unsafe { last.read() }, byte);
            }
            // SAFETY: a block of this layout, used no more.
            unsafe { EMPTY.dealloc(block, layout) };
        }
        assert_eq!(EMPTY.used(), 0);
        // SAFETY: the size is not 0, here and below.
        assert!(unsafe { EMPTY.alloc(layout(N_BYTES + 1, 1)) }.is_null());
        // SAFETY: as above.
        assert!(fallible(|| unsafe { EMPTY.alloc(layout(1, 1)) }).is_null());
        // SAFETY: as above.
        let whole = unsafe { EMPTY.alloc(layout(N_BYTES, 1)) };
        assert!(!whole.is_null());
        // SAFETY: as above.
        assert!(unsafe { EMPTY.alloc(layout(1, 1)) }.is_null());
        // SAFETY: as above.
        unsafe { EMPTY.dealloc(whole, layout(N_BYTES, 1)) };
        assert_eq!(EMPTY.used(), 0);
    }

    #[test]
    fn what_the_inner_one_has_it_gives() {
        let small = layout(10, 8);
        // SAFETY: the size is not 0.
        let block = unsafe { FULL.alloc_zeroed(small) };
        // SAFETY: as above, and a block of this layout.
        let block = unsafe { FULL.realloc(block, small, 1000) };
        assert!(!block.is_null() && FULL.used() == 0);
        // SAFETY: a block of this layout, used no more.
        unsafe { FULL.dealloc(block, layout(1000, 8)) };
    }
}
