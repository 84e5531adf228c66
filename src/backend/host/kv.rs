//! The KV store.
#![forbid(unsafe_code)]

use half::f16;

use super::Zeroed;
use crate::backend::{KvShape, KvType};
use crate::error::{Error, Result};
use crate::kernels::attention::PAGE_LEN;
use crate::kernels::{Kernels, KvData, KvStore};

/// Keys and values of all layers, `[page][layer][K, V][n_head_kv]` blocks: what a page holds lies together.
pub struct HostKv {
    /// Its shape.
    pub shape: KvShape,
    data: Data,
}

enum Data {
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
        let len = [shape.n_layer, 2, shape.n_pages, shape.n_head_kv, PAGE_LEN, shape.head_dim]
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .ok_or_else(|| {
                Error::NoMemory(format!("a KV cache of {shape:?} has more elements than memory"))
            })?;
        let data = match shape.kv_type {
            KvType::F16 => Data::F16(Zeroed::new(len, "the KV cache")?),
            KvType::F32 => Data::F32(Zeroed::new(len, "the KV cache")?),
        };
        Ok(HostKv { shape: *shape, data })
    }

    /// One layer's K or V.
    pub fn store(&self, layer: usize, part: Part) -> KvStore<'_> {
        let data = match &self.data {
            Data::F16(d) => KvData::F16(d),
            Data::F32(d) => KvData::F32(d),
        };
        KvStore { data, page_stride: page_stride(&self.shape), offset: offset(&self.shape, layer, part) }
    }

    /// Writes rows of `x`, `[n_head_kv, head_dim]` each, into their `slots`, rounding to the cache's type.
    pub fn append(&mut self, kernels: &Kernels, layer: usize, part: Part, slots: &[u32], x: &[f32]) {
        let shape = self.shape;
        let at = offset(&shape, layer, part);
        match &mut self.data {
            Data::F16(d) => put(&mut d[at..], &shape, part, slots, x, kernels.narrow_f16),
            Data::F32(d) => put(&mut d[at..], &shape, part, slots, x, |x, out| out.copy_from_slice(x)),
        }
    }
}

/// Elements of a page.
fn page_stride(shape: &KvShape) -> usize {
    shape.n_layer * 2 * shape.n_head_kv * PAGE_LEN * shape.head_dim
}

/// Where a layer's K or V begins in a page.
fn offset(shape: &KvShape, layer: usize, part: Part) -> usize {
    (layer * 2 + part as usize) * shape.n_head_kv * PAGE_LEN * shape.head_dim
}

/// Most elements that are converted at a time.
const CONVERTED: usize = 64;

/// See [`HostKv::append`]; [`KvStore`] says where elements lie.
fn put<T: Copy + Default>(
    store: &mut [T],
    shape: &KvShape,
    part: Part,
    slots: &[u32],
    x: &[f32],
    convert: impl Fn(&[f32], &mut [T]),
) {
    let dim = shape.head_dim;
    for (&slot, row) in slots.iter().zip(x.chunks_exact(shape.n_head_kv * dim)) {
        let (page, slot) = (slot as usize / PAGE_LEN, slot as usize % PAGE_LEN);
        for (head, x) in row.chunks_exact(dim).enumerate() {
            let at = page * page_stride(shape) + head * PAGE_LEN * dim;
            let page = &mut store[at..at + PAGE_LEN * dim];
            match part {
                Part::V => convert(x, &mut page[slot * dim..(slot + 1) * dim]),
                Part::K => {
                    let mut buffer = [T::default(); CONVERTED];
                    for (columns, x) in page.chunks_mut(CONVERTED * PAGE_LEN).zip(x.chunks(CONVERTED)) {
                        convert(x, &mut buffer[..x.len()]);
                        for (column, &x) in columns.chunks_exact_mut(PAGE_LEN).zip(&buffer) {
                            column[slot] = x;
                        }
                    }
                }
            }
        }
    }
}
