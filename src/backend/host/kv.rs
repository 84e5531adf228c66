//! The KV store.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::f16;

use super::Zeroed;
use crate::backend::{KvShape, KvType};
use crate::error::{Error, Result};
use crate::kernels::KvStore;

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
