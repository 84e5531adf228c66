//! The host's part: its allocator and its callbacks.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};

use ember::capi;
use ember::error::ember_status::{EMBER_E_INTERNAL, EMBER_OK};

/// The allocator: how many blocks are allocated, and after how many more it fails.
#[derive(Default)]
pub struct Heap {
    living: AtomicI64,
    left: AtomicU32,
}

impl Heap {
    /// Fails after `n` more blocks.
    pub fn refill(&self, n: u32) {
        self.left.store(n, SeqCst);
    }

    /// Blocks that were not freed.
    pub fn n_living(&self) -> i64 {
        self.living.load(SeqCst)
    }
}

/// An ember_allocate_callback over a [`Heap`].
pub unsafe extern "C" fn allocate(size: usize, alignment: usize, heap: *mut c_void) -> *mut c_void {
    // SAFETY: the heap outlives all models.
    let heap = unsafe { &*heap.cast::<Heap>() };
    let take = |left: u32| left.checked_sub(1);
    let layout = Layout::from_size_align(size, alignment).expect("a size and a power of two");
    if size > 64 << 20 || heap.left.try_update(SeqCst, SeqCst, take).is_err() {
        return null_mut();
    }
    heap.living.fetch_add(1, SeqCst);
    assert!(size > 0);
    // SAFETY: the size is not 0.
    unsafe { alloc_zeroed(layout) }.cast()
}

/// An ember_deallocate_callback over a [`Heap`].
pub unsafe extern "C" fn deallocate(block: *mut c_void, size: usize, alignment: usize, heap: *mut c_void) {
    // SAFETY: as above.
    let heap = unsafe { &*heap.cast::<Heap>() };
    heap.living.fetch_sub(1, SeqCst);
    let layout = Layout::from_size_align(size, alignment).expect("what it was allocated with");
    // SAFETY: Ember gives back what it got, with the same numbers.
    unsafe { dealloc(block.cast(), layout) };
}

/// The user data of a callback.
pub struct Callback {
    /// Calls after which it stops.
    left: AtomicU32,
    /// The context at work, perhaps.
    context: *mut capi::ember_context,
}

impl Callback {
    /// One that stops after `n` calls, and calls back with `context`, which lives while it may be called.
    pub fn new(n: u32, context: *mut capi::ember_context) -> Box<Callback> {
        Box::new(Callback { left: n.into(), context })
    }

    /// As the user data of C.
    pub fn user_data(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }

    /// Whether it wants to go on.
    fn next(&self) -> bool {
        let mut n_past = 0;
        // SAFETY: the context lives; it is at work, which is an error and no more.
        let status = unsafe { capi::ember_context_n_past(self.context, 0, &mut n_past, null_mut()) };
        assert!(status != EMBER_E_INTERNAL && status != EMBER_OK, "a context at work is busy: {status:?}");
        self.left.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

/// The callback's data.
///
/// # Safety
/// The user data is that of a [`Callback`], which lives.
unsafe fn callback<'a>(user_data: *mut c_void) -> &'a Callback {
    // SAFETY: promised.
    unsafe { &*user_data.cast::<Callback>() }
}

/// An ember_event_callback.
pub unsafe extern "C" fn event(event: *const capi::ember_event, user_data: *mut c_void) -> i32 {
    // SAFETY: valid during the call.
    look_at(unsafe { &*event });
    // SAFETY: given with it.
    i32::from(!unsafe { callback(user_data) }.next())
}

/// Reads all that an event points to.
pub fn look_at(event: &capi::ember_event) {
    // SAFETY: so many bytes, says the header.
    let text = unsafe { std::slice::from_raw_parts(event.text.cast::<u8>(), event.text_len) };
    assert!(std::str::from_utf8(text).is_ok(), "whole code points");
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts(event.bytes, event.n_bytes) };
    std::hint::black_box(bytes.iter().fold(0u8, |sum, &b| sum.wrapping_add(b)));
    if event.n_tops > 0 {
        // SAFETY: as above.
        let tops = unsafe { std::slice::from_raw_parts(event.tops, event.n_tops) };
        assert!(tops.iter().all(|top| top.logprob.is_nan() || top.logprob <= 0.0));
    }
}

/// An ember_write_callback.
pub unsafe extern "C" fn write(data: *const u8, len: usize, user_data: *mut c_void) -> i32 {
    // SAFETY: so many bytes, says the header.
    let data = unsafe { std::slice::from_raw_parts(data, len) };
    std::hint::black_box(data.iter().fold(0u8, |sum, &b| sum.wrapping_add(b)));
    // SAFETY: given with it.
    i32::from(!unsafe { callback(user_data) }.next())
}

/// An ember_read_callback: zeros, the end, a stop, or more bytes than fit.
pub unsafe extern "C" fn read(buffer: *mut u8, capacity: usize, user_data: *mut c_void) -> i64 {
    // SAFETY: given with it.
    let callback = unsafe { callback(user_data) };
    let left = callback.left.load(SeqCst);
    if !callback.next() {
        return -1;
    }
    let n = capacity.min(left as usize);
    // SAFETY: there is space for so many.
    unsafe { buffer.write_bytes(0, n) };
    if left == 7 { i64::MAX } else { n as i64 }
}

/// An ember_progress_callback.
pub unsafe extern "C" fn progress(done: f32, user_data: *mut c_void) -> i32 {
    assert!((0.0..=1.0).contains(&done));
    // SAFETY: given with it.
    i32::from(!unsafe { callback(user_data) }.next())
}

/// An ember_candidates_callback that negates the logits, and sometimes makes them NaN.
pub unsafe extern "C" fn candidates(tokens: *const u32, logits: *mut f32, n: usize, _: *mut c_void) -> i32 {
    // SAFETY: so many, says the header, here and below.
    let tokens = unsafe { std::slice::from_raw_parts(tokens, n) };
    // SAFETY: as above.
    let logits = unsafe { std::slice::from_raw_parts_mut(logits, n) };
    logits.iter_mut().for_each(|x| *x = -*x);
    match tokens.first() {
        Some(5) => logits[0] = f32::NAN,
        Some(6) => return 1,
        _ => {}
    }
    0
}

/// An ember_log_callback.
pub unsafe extern "C" fn log(level: i32, text: *const c_char, len: usize, _: *mut c_void) {
    // SAFETY: so many bytes, says the header.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    assert!((1..=4).contains(&level) && std::str::from_utf8(text).is_ok());
}

/// An ember_release_callback that frees a copy of the tiny model.
pub unsafe extern "C" fn release(user_data: *mut c_void) {
    // SAFETY: what was lent is a Vec in a Box; this is called once.
    drop(unsafe { Box::from_raw(user_data.cast::<Vec<u8>>()) });
}

/// An address at which no object lies, for handles of which only the address counts.
pub fn misaligned<T>() -> *mut T {
    without_provenance_mut(1)
}
