//! Zero-initialised buffers.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::MmapMut;

use super::slab::{MAPPED_BYTES, Slab};
use super::{Allocator, Charge, Memory, reserve};
use crate::error::{Error, Result};

/// Alignment of buffers: a cache line, and the widest vector register.
const ALIGN: usize = 64;

/// A fixed-length, cache-line-aligned array that starts as zeros. The operating system hands zeroed pages out when
/// they are first touched, so a large KV cache costs nothing until it fills. A failed allocation is an error.
pub struct Zeroed<T: Pod> {
    /// The first element, aligned to [`ALIGN`] inside `block`.
    data: NonNull<T>,
    len: usize,
    block: Block,
    /// What was charged for it.
    _charge: Option<Charge>,
}

/// What was allocated.
enum Block {
    /// Nothing.
    Empty,
    /// Memory of the allocator.
    Heap(NonNull<u8>, Layout),
    /// A part of a slab.
    Shared(#[expect(dead_code, reason = "it is kept")] Arc<Slab>),
    /// Pages from the system.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "it is kept, and only Linux is asked for large pages")
    )]
    Mapped(MmapMut),
    /// A block of the host's allocator, and its bytes.
    Hosts(Arc<dyn Allocator>, NonNull<u8>, usize),
}

// SAFETY: `Zeroed` owns its memory and gives access only through `&self`/`&mut self`, like a Vec of plain data.
unsafe impl<T: Pod + Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync> Sync for Zeroed<T> {}

impl<T: Pod> Zeroed<T> {
    /// `len` zeros charged to `memory`, or an error that names `what` and its size.
    pub(super) fn new(memory: &Memory, len: usize, what: &str) -> Result<Zeroed<T>> {
        let too_much = || {
            let size = std::mem::size_of::<T>();
            Error::NoMemory(format!("no memory for {what}: {len} elements of {size} bytes"))
        };
        let layout = Self::layout(len).ok_or_else(too_much)?;
        if len == 0 {
            return Ok(Zeroed::default());
        }
        let charge = Some(memory.charge(layout.size() as u64, what)?);
        if memory.measures() {
            return Ok(Zeroed { _charge: charge, ..Zeroed::default() });
        }
        let (block, start) = Block::new(layout, memory)?.ok_or_else(too_much)?;
        Ok(Zeroed { data: aligned(start), len, block, _charge: charge })
    }

    /// Asks the system for large pages, which are faster to allocate and to read through. For large arrays that are filled from
    /// the front, since touching one byte allocates a whole page. A hint, on Linux only.
    pub fn prefer_large_pages(&mut self) {
        #[cfg(target_os = "linux")]
        if let Block::Mapped(map) = &self.block {
            let _ = map.advise(memmap2::Advice::HugePage);
        }
    }

    /// Locks the array into memory until it is dropped. Small arrays, which share their pages, and those of the host's allocator
    /// are left as they are.
    ///
    /// # Errors
    /// The system's, which limits what a process locks; where it cannot lock memory at all, `Unsupported`.
    pub fn lock(&self) -> std::io::Result<()> {
        match &self.block {
            #[cfg(unix)]
            Block::Mapped(map) => map.lock(),
            #[cfg(windows)]
            Block::Mapped(map) => super::pages::lock(map),
            #[cfg(not(any(unix, windows)))]
            Block::Mapped(_) => Err(std::io::ErrorKind::Unsupported.into()),
            Block::Empty | Block::Heap(..) | Block::Shared(_) | Block::Hosts(..) => Ok(()),
        }
    }

    /// The layout of `len` elements and of space for moving the first to a multiple of [`ALIGN`]. The layout asks for no more
    /// than the element's alignment: for larger ones allocators write the zeros instead of taking fresh pages.
    fn layout(len: usize) -> Option<Layout> {
        let size = len.checked_mul(std::mem::size_of::<T>())?.checked_add(ALIGN)?;
        Layout::from_size_align(size, std::mem::align_of::<T>()).ok()
    }
}

impl<T: Pod> Default for Zeroed<T> {
    /// Nothing.
    fn default() -> Zeroed<T> {
        let data = NonNull::without_provenance(NonZeroUsize::new(ALIGN).unwrap_or(NonZeroUsize::MIN));
        Zeroed { data, len: 0, block: Block::Empty, _charge: None }
    }
}

impl Block {
    /// Zeros for `layout`, whose size is not 0, and where they begin, if there is memory. `InvalidArgument` when the host's
    /// allocator returns an odd address.
    fn new(layout: Layout, memory: &Memory) -> Result<Option<(Block, NonNull<u8>)>> {
        let size = layout.size();
        if let Some(allocator) = memory.allocator() {
            let Some(start) = allocator.allocate(size, ALIGN) else { return Ok(None) };
            let block = Block::Hosts(Arc::clone(allocator), start, size);
            return match start.addr().get() {
                at if at.is_multiple_of(ALIGN) => Ok(Some((block, start))),
                at => Err(Error::InvalidArgument(format!(
                    "allocate returned the address {at:#x}, which is no multiple of {ALIGN}"
                ))),
            };
        }
        // From the system and not from the allocator, which would write zeros where it reuses memory, and would keep freed
        // memory. Where the system has no such call, the allocator is used.
        if size < MAPPED_BYTES
            && let Some(slabs) = memory.slabs()
            && let Some((slab, start)) = slabs.take(size, ALIGN)
        {
            return Ok(Some((Block::Shared(slab), start)));
        }
        if size >= MAPPED_BYTES
            && let Ok(mut map) = MmapMut::map_anon(size)
            && let Some(start) = NonNull::new(map.as_mut_ptr())
        {
            return Ok(Some((Block::Mapped(map), start)));
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(reserve::fallible(|| unsafe { alloc_zeroed(layout) }));
        Ok(start.map(|start| (Block::Heap(start, layout), start)))
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

impl Drop for Block {
    fn drop(&mut self) {
        match self {
            // SAFETY: `new` allocated the block with this very layout, and nothing uses it any more.
            Block::Heap(start, layout) => unsafe { dealloc(start.as_ptr(), *layout) },
            // SAFETY: `new` had the block from this allocator with these numbers, and nothing uses it any more.
            Block::Hosts(allocator, start, size) => unsafe { allocator.free(*start, *size, ALIGN) },
            Block::Empty | Block::Shared(_) | Block::Mapped(_) => {}
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
            let mut z = Memory::default().zeroed::<f16>(len, "a test").expect("memory");
            assert!(len == 0 || (z.as_ptr() as usize).is_multiple_of(ALIGN));
            // All elements would take Miri an hour.
            let looked_at = || (0..len).step_by(if cfg!(miri) { 4093 } else { 1 }).chain(len.checked_sub(1));
            assert!(z.len() == len && looked_at().all(|i| z[i].to_bits() == 0));
            if !cfg!(miri) {
                z.prefer_large_pages();
            }
            looked_at().for_each(|i| z[i] = f16::ONE);
            assert!(looked_at().all(|i| z[i] == f16::ONE));
        }
    }

    #[test]
    fn a_size_beyond_memory_is_an_error() {
        for len in [usize::MAX, usize::MAX / 4, isize::MAX as usize / 4] {
            let error = Memory::default().zeroed::<f32>(len, "the moon").err().expect("too much");
            assert!(matches!(error, Error::NoMemory(m) if m.contains("the moon")));
        }
    }

    /// Gives memory, at odd addresses.
    struct Odd;

    // SAFETY: what it gives is not used, since it is refused.
    unsafe impl Allocator for Odd {
        fn allocate(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
            let layout = Layout::from_size_align(size + 8, align).expect("a layout");
            // SAFETY: the size is not 0.
            let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            // SAFETY: within the block.
            Some(unsafe { block.add(8) })
        }

        unsafe fn free(&self, block: NonNull<u8>, size: usize, align: usize) {
            let layout = Layout::from_size_align(size + 8, align).expect("a layout");
            let start = block.as_ptr().wrapping_sub(8);
            // SAFETY: the block began there, with this layout.
            unsafe { dealloc(start, layout) };
        }
    }

    #[test]
    fn a_host_that_gives_odd_addresses_is_refused() {
        let options = crate::memory::MemoryOptions { allocator: Some(Arc::new(Odd)), ..Default::default() };
        let error = Memory::new(options).zeroed::<u8>(100, "a test").err().expect("a refusal");
        assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("no multiple of 64")), "{error}");
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
        let z = Memory::default().zeroed::<f32>(1 << 28, "a test").expect("a gibibyte of addresses");
        assert_eq!(z[1 << 27], 0.0);
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 512 * 1024, "{grown} KiB of 1 GiB were written");
    }
}
