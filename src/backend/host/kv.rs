//! The KV store.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::f16;

use super::Zeroed;
use crate::backend::{KvShape, KvType};
use crate::error::{Error, Result};
use crate::kernels::attention::PAGE_LEN;
use crate::kernels::{Kernels, KvStore};

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
        let len = [shape.n_layer, 2, shape.n_pages, shape.n_head_kv, PAGE_LEN, shape.head_dim]
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
        let len = s.n_pages * s.n_head_kv * PAGE_LEN * s.head_dim;
        let store = layer * 2 + part as usize;
        store * len..(store + 1) * len
    }

    /// One layer's K or V store.
    pub fn store(&self, layer: usize, part: Part) -> KvStore<'_> {
        let range = self.store_range(layer, part);
        match &self.data {
            KvData::F16(d) => KvStore::F16(&d[range]),
            KvData::F32(d) => KvStore::F32(&d[range]),
        }
    }

    /// Writes rows of `x`, `[n_head_kv, head_dim]` each, into their `slots`, rounding to the cache's type.
    pub fn append(&mut self, kernels: &Kernels, layer: usize, part: Part, slots: &[u32], x: &[f32]) {
        let range = self.store_range(layer, part);
        let shape = self.shape;
        match &mut self.data {
            KvData::F16(d) => put(&mut d[range], &shape, part, slots, x, kernels.narrow_f16),
            KvData::F32(d) => put(&mut d[range], &shape, part, slots, x, |x, out| out.copy_from_slice(x)),
        }
    }
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
            let at = (page * shape.n_head_kv + head) * PAGE_LEN * dim;
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
