//! System memory that the small buffers of a [`Memory`](super::Memory) share, so that a context's memory goes back to the system
//! when the context is gone. The allocator of the C library would keep it: freed blocks between others in use, and, once a large
//! block was freed, up to 64 MB at a time and for each thread.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use memmap2::MmapMut;

/// Bytes of a slab: address space, and memory only as far as it is used.
const SLAB_BYTES: usize = 512 << 10;
/// A buffer of at least this many bytes has a mapping of its own.
pub(super) const MAPPED_BYTES: usize = SLAB_BYTES / 4;

/// Some pages, which go back to the system when their last buffer is freed.
pub(super) struct Slab {
    start: NonNull<u8>,
    _map: MmapMut,
}

// SAFETY: it is an owner of memory, of which each part has one user.
unsafe impl Send for Slab {}
// SAFETY: as above; nothing is done through `&self`.
unsafe impl Sync for Slab {}

/// The slab that has free bytes left, and how many of its bytes are taken.
#[derive(Default)]
pub(super) struct Slabs(Mutex<Option<(Arc<Slab>, usize)>>);

impl Slabs {
    /// `size` untouched zeros at a multiple of `align`, and their slab. `None` where the system has no such mappings, has no
    /// memory left, or another thread is in this call (perhaps one that does not exist after `fork`).
    pub(super) fn take(&self, size: usize, align: usize) -> Option<(Arc<Slab>, NonNull<u8>)> {
        if size > SLAB_BYTES {
            return None;
        }
        let mut current = self.0.try_lock().ok()?;
        let begin = |used: usize| used.next_multiple_of(align);
        if current.as_ref().is_none_or(|(_, used)| begin(*used) + size > SLAB_BYTES) {
            let mut map = MmapMut::map_anon(SLAB_BYTES).ok()?;
            let start = NonNull::new(map.as_mut_ptr())?;
            *current = Some((Arc::new(Slab { start, _map: map }), 0));
        }
        let (slab, used) = current.as_mut()?;
        let at = begin(*used);
        *used = at + size;
        // SAFETY: within the mapping, which has SLAB_BYTES.
        let start = unsafe { slab.start.add(at) };
        Some((Arc::clone(slab), start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zero_and_apart_and_slabs_go_with_the_last() {
        let slabs = Slabs::default();
        let mut parts = Vec::new();
        for size in [1, 64, 1000, MAPPED_BYTES, MAPPED_BYTES, MAPPED_BYTES, 4096, MAPPED_BYTES] {
            let Some((slab, start)) = slabs.take(size, 64) else { return };
            assert!(start.addr().get().is_multiple_of(64));
            // SAFETY: it has so many bytes, and nobody else uses them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), size) };
            assert!(bytes.iter().all(|&b| b == 0));
            bytes.fill(parts.len() as u8 + 1);
            parts.push((slab, start, size));
        }
        for (i, (_, start, size)) in parts.iter().enumerate() {
            // SAFETY: as above, written.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), *size) };
            assert!(bytes.iter().all(|&b| b == i as u8 + 1));
        }
        let (first, last) = (Arc::downgrade(&parts[0].0), Arc::downgrade(&parts[7].0));
        drop(parts);
        assert_eq!((first.strong_count(), last.strong_count()), (0, 1), "the last has space left");
        drop(slabs);
        assert_eq!(last.strong_count(), 0);
    }
}
