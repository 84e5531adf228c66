//! Zero-initialised buffers.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Pod;
use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Alignment of buffers: a cache line, and the widest vector register.
const ALIGN: usize = 64;

/// From how many bytes on memory comes from the system and not from the allocator, which would write the zeros itself
/// where it reuses memory, and keep what is freed.
const MAPPED_BYTES: usize = 1 << 20;

/// A fixed-length, cache-line-aligned array that starts as zeros. The operating system hands zeroed pages out when
/// they are first touched, so a large KV cache costs nothing until it fills. A failed allocation is an error.
pub struct Zeroed<T: Pod> {
    /// The first element, aligned to [`ALIGN`] inside `memory`.
    data: NonNull<T>,
    len: usize,
    memory: Memory,
}

/// What was allocated.
enum Memory {
    /// Nothing.
    Empty,
    /// Memory of the allocator.
    Heap(NonNull<u8>, Layout),
    /// Pages of the system's.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "it is kept, and only Linux is asked for large pages")
    )]
    Mapped(MmapMut),
}

// SAFETY: `Zeroed` owns its memory and gives access only through `&self`/`&mut self`, like a Vec of plain data.
unsafe impl<T: Pod + Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync> Sync for Zeroed<T> {}

impl<T: Pod> Zeroed<T> {
    /// `len` zeros, or an error that names `what` and its size.
    pub fn new(len: usize, what: &str) -> Result<Zeroed<T>> {
        let too_much = || {
            let size = std::mem::size_of::<T>();
            Error::NoMemory(format!("no memory for {what}: {len} elements of {size} bytes"))
        };
        let layout = Self::layout(len).ok_or_else(too_much)?;
        if len == 0 {
            return Ok(Zeroed { data: NonNull::dangling(), len, memory: Memory::Empty });
        }
        // Where the system has no such thing, the allocator has memory all the same.
        if layout.size() >= MAPPED_BYTES
            && let Ok(mut map) = MmapMut::map_anon(layout.size())
            && let Some(start) = NonNull::new(map.as_mut_ptr())
        {
            return Ok(Zeroed { data: aligned(start), len, memory: Memory::Mapped(map) });
        }
        // SAFETY: the layout's size is not 0.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_much)?;
        Ok(Zeroed { data: aligned(block), len, memory: Memory::Heap(block, layout) })
    }

    /// Asks the system for large pages, which are faster to take and to walk through: for large arrays that are filled
    /// from the front, since such a page is taken as soon as one byte of it is touched. A hint, on Linux only.
    pub fn prefer_large_pages(&mut self) {
        #[cfg(target_os = "linux")]
        if let Memory::Mapped(map) = &self.memory {
            let _ = map.advise(memmap2::Advice::HugePage);
        }
    }

    /// Room for `len` elements and for moving the first to a multiple of [`ALIGN`]. The layout itself asks for no more
    /// than the element's alignment: for larger ones allocators write the zeros instead of taking fresh pages.
    fn layout(len: usize) -> Option<Layout> {
        let size = len.checked_mul(std::mem::size_of::<T>())?.checked_add(ALIGN)?;
        Layout::from_size_align(size, std::mem::align_of::<T>()).ok()
    }
}

/// The first multiple of [`ALIGN`] in memory that has [`ALIGN`] bytes more than its elements need.
fn aligned<T>(block: NonNull<u8>) -> NonNull<T> {
    let up = |at: NonZeroUsize| NonZeroUsize::new(at.get().next_multiple_of(ALIGN)).unwrap_or(at);
    block.map_addr(up).cast::<T>()
}

impl<T: Pod> Deref for Zeroed<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `data` points to `len` elements that were zeroed, and zeros are a valid T.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl<T: Pod> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if let Memory::Heap(block, layout) = self.memory {
            // SAFETY: `new` allocated `block` with this very layout, and nothing uses it any more.
            unsafe { dealloc(block.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn zeroed_memory_is_aligned_zero_and_freed_whole() {
        for len in [0, 1, 7, 100_000, MAPPED_BYTES] {
            let mut z = Zeroed::<f16>::new(len, "a test").expect("memory");
            assert!(len == 0 || (z.as_ptr() as usize).is_multiple_of(ALIGN));
            assert!(z.len() == len && z.iter().all(|x| x.to_bits() == 0));
            z.prefer_large_pages();
            z.fill(f16::ONE);
            assert!(z.iter().all(|&x| x == f16::ONE));
        }
    }

    #[test]
    fn a_size_beyond_memory_is_an_error() {
        for len in [usize::MAX, usize::MAX / 4, isize::MAX as usize / 4] {
            let error = Zeroed::<f32>::new(len, "the moon").err().expect("too much");
            assert!(matches!(error, Error::NoMemory(m) if m.contains("the moon")));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn zeroed_memory_is_taken_when_it_is_touched() {
        fn resident_kib() -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
            let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
            line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
        }
        let before = resident_kib();
        let z = Zeroed::<f32>::new(1 << 28, "a test").expect("a gibibyte of addresses");
        assert_eq!(z[1 << 27], 0.0);
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 512 * 1024, "{grown} KiB of 1 GiB were written");
    }
}
