//! Memory of the CPU backends: zero-initialised buffers, weights in the file's mapping, the KV store.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use half::f16;

use super::{KvShape, KvType, WeightRole, WeightSource};
use crate::error::{Error, Result};
use crate::gguf::FileBytes;
use crate::kernels::{Kernels, KvStore};
use crate::quant::Format;
use crate::quant::packed::{self, Group};
use crate::threads::ThreadPool;

/// Alignment of buffers: a cache line, and the widest vector register.
const ALIGN: usize = 64;

/// A fixed-length, cache-line-aligned array that starts as zeros. The operating system hands zeroed pages out when
/// they are first touched, so a large KV cache costs nothing until it fills. A failed allocation is an error.
pub struct Zeroed<T: Pod> {
    /// The first element, aligned to [`ALIGN`] inside `block`.
    data: NonNull<T>,
    len: usize,
    /// What was allocated; dangling when its layout is empty.
    block: NonNull<u8>,
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
            return Ok(Zeroed { data: NonNull::dangling(), len, block: NonNull::dangling() });
        }
        // SAFETY: the layout's size is not 0.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_much)?;
        let skip = block.as_ptr().align_offset(ALIGN);
        // SAFETY: the layout has ALIGN bytes more than the elements need, and `skip` is below ALIGN.
        let data = unsafe { block.add(skip) }.cast::<T>();
        Ok(Zeroed { data, len, block })
    }

    /// Room for `len` elements and for moving the first to a multiple of [`ALIGN`]. The layout itself asks for no more
    /// than the element's alignment: for larger ones allocators write the zeros instead of taking fresh pages.
    fn layout(len: usize) -> Option<Layout> {
        let size = len.checked_mul(std::mem::size_of::<T>())?.checked_add(ALIGN)?;
        Layout::from_size_align(size, std::mem::align_of::<T>()).ok()
    }
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
        match Self::layout(self.len) {
            Some(layout) if self.len > 0 => {
                // SAFETY: `new` allocated `block` with this very layout, and nothing uses it any more.
                unsafe { dealloc(self.block.as_ptr(), layout) }
            }
            _ => {}
        }
    }
}

/// A weight of the CPU backends: rows in the model file's own bytes, or an owned f32 copy where the file's cannot be
/// used in place.
pub struct HostWeight {
    /// Number format of the rows.
    pub format: Format,
    /// Rows.
    pub n_rows: usize,
    /// Length of a row in elements.
    pub n_cols: usize,
    row_bytes: usize,
    storage: Storage,
    /// Rows rearranged for this machine's products, sixteen to a group; the file's are then only looked up.
    packed: Option<Zeroed<u8>>,
}

enum Storage {
    File { file: Arc<FileBytes>, range: Range<usize> },
    Owned(Zeroed<f32>),
}

impl HostWeight {
    /// Refers to the file where possible; vectors in another format than f32, and f32 data at an address that is no
    /// multiple of 4, become an owned f32 copy.
    pub fn new(src: &WeightSource<'_>) -> Result<HostWeight> {
        let row_bytes = src.format.row_bytes(src.n_cols);
        let range = src.offset..src.offset + row_bytes * src.n_rows;
        let bytes = &src.file[range.clone()];
        let in_place = match (src.format, src.role) {
            (Format::F32, _) => bytemuck::try_cast_slice::<u8, f32>(bytes).is_ok(),
            (_, WeightRole::Matrix | WeightRole::Table) => true,
            (_, WeightRole::Vector) => false,
        };
        let (n_rows, n_cols) = (src.n_rows, src.n_cols);
        if in_place {
            let storage = Storage::File { file: Arc::clone(src.file), range };
            return Ok(HostWeight { format: src.format, n_rows, n_cols, row_bytes, storage, packed: None });
        }
        let mut copy = Zeroed::<f32>::new(n_rows * n_cols, "a weight's f32 copy")?;
        (src.format.info().dequantize)(bytes, &mut copy);
        let row_bytes = Format::F32.row_bytes(n_cols);
        Ok(HostWeight {
            format: Format::F32,
            n_rows,
            n_cols,
            row_bytes,
            storage: Storage::Owned(copy),
            packed: None,
        })
    }

    /// Rearranges the rows for the products of `kernels`, where they have some for the format.
    pub fn pack(&mut self, kernels: &Kernels, pool: &mut ThreadPool) -> Result<()> {
        let info = self.format.info();
        let (Some(packing), Some(_)) = (&info.packing, kernels.packed[self.format as usize]) else {
            return Ok(());
        };
        let group_bytes = packing.group_bytes(self.n_cols);
        let n_groups = self.n_rows.div_ceil(packed::ROWS);
        let mut groups = Zeroed::<u8>::new(n_groups * group_bytes, "packed weights")?;
        let this = &*self;
        pool.for_parts(&mut groups, group_bytes, |g, group| {
            let first = g * packed::ROWS;
            let rows = (first..this.n_rows.min(first + packed::ROWS)).map(|i| this.row(i));
            packing.pack(info, rows, this.n_cols, group);
        });
        self.packed = Some(groups);
        Ok(())
    }

    /// Whether there are groups.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Rows `16 g` to `16 g + 16`, packed; `None` when the weight is not.
    pub fn group(&self, g: usize) -> Option<Group<'_>> {
        let packing = self.format.info().packing.as_ref()?;
        let group_bytes = packing.group_bytes(self.n_cols);
        let bytes = &self.packed.as_ref()?[g * group_bytes..(g + 1) * group_bytes];
        Some(Group { format: self.format, bytes, n_pieces: self.n_cols / packed::COLS })
    }

    fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::File { file, range } => &file[range.clone()],
            Storage::Owned(data) => bytemuck::cast_slice(data),
        }
    }

    /// The bytes of row `i`.
    pub fn row(&self, i: usize) -> &[u8] {
        &self.bytes()[i * self.row_bytes..(i + 1) * self.row_bytes]
    }

    /// All elements of a weight in format F32, row after row.
    pub fn f32s(&self) -> &[f32] {
        bytemuck::cast_slice(self.bytes())
    }
}

/// Keys and values of all layers, `[n_layer][K, V]`.
pub struct HostKv {
    /// Its shape.
    pub shape: KvShape,
    data: KvData,
}

enum KvData {
    F16(Zeroed<f16>),
    F32(Zeroed<f32>),
}

/// K or V.
#[derive(Clone, Copy)]
pub enum Part {
    /// Keys.
    K,
    /// Values.
    V,
}

impl HostKv {
    /// An empty cache; its memory is handed out by the operating system as it fills.
    pub fn new(shape: &KvShape) -> Result<HostKv> {
        let len = [shape.n_layer, 2, shape.n_pages, shape.n_head_kv, shape.page_len, shape.head_dim]
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .ok_or_else(|| {
                Error::NoMemory(format!("a KV cache of {shape:?} has more elements than memory"))
            })?;
        let data = match shape.kv_type {
            KvType::F16 => KvData::F16(Zeroed::new(len, "the KV cache")?),
            KvType::F32 => KvData::F32(Zeroed::new(len, "the KV cache")?),
        };
        Ok(HostKv { shape: *shape, data })
    }

    fn store_range(&self, layer: usize, part: Part) -> Range<usize> {
        let s = &self.shape;
        let len = s.n_pages * s.n_head_kv * s.page_len * s.head_dim;
        let store = layer * 2 + part as usize;
        store * len..(store + 1) * len
    }

    /// One layer's K or V store, `[n_pages, n_head_kv, page_len, head_dim]`.
    pub fn store(&self, layer: usize, part: Part) -> KvStore<'_> {
        let range = self.store_range(layer, part);
        match &self.data {
            KvData::F16(d) => KvStore::F16(&d[range]),
            KvData::F32(d) => KvStore::F32(&d[range]),
        }
    }

    /// Writes one row, `[n_head_kv, head_dim]`, into slot `slot`, rounding to the cache's type.
    pub fn append(&mut self, layer: usize, part: Part, slot: usize, row: &[f32]) {
        let s = self.shape;
        let range = self.store_range(layer, part);
        let (page, index) = (slot / s.page_len, slot % s.page_len);
        for (head, x) in row.chunks_exact(s.head_dim).enumerate() {
            let at = ((page * s.n_head_kv + head) * s.page_len + index) * s.head_dim;
            match &mut self.data {
                KvData::F16(d) => {
                    for (dst, &x) in d[range.clone()][at..at + s.head_dim].iter_mut().zip(x) {
                        *dst = f16::from_f32(x);
                    }
                }
                KvData::F32(d) => d[range.clone()][at..at + s.head_dim].copy_from_slice(x),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_aligned_zero_and_freed_whole() {
        for len in [0, 1, 7, 100_000] {
            let mut z = Zeroed::<f16>::new(len, "a test").expect("memory");
            assert!(len == 0 || (z.as_ptr() as usize).is_multiple_of(ALIGN));
            assert!(z.len() == len && z.iter().all(|x| x.to_bits() == 0));
            z.fill(f16::ONE);
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
