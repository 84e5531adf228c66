//! How much memory a test takes at most. The module brings the process's allocator: only a test that counts has it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The system's allocator. It counts bytes as the C library's blocks take them: with 8 bytes before each, in steps of 16.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn piece(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: both calls go to the system's allocator unchanged; `realloc` and `alloc_zeroed` are made of them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(piece(layout), SeqCst) + piece(layout), SeqCst);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(piece(layout), SeqCst);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How much memory `f` takes at most.
pub fn most(f: impl FnOnce()) -> usize {
    let before = NOW.load(SeqCst);
    MOST.store(before, SeqCst);
    f();
    MOST.load(SeqCst) - before
}
