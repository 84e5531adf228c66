//! The KV store.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::Zeroed;
use super::kv_block::{clear, put, take};
use crate::backend::{KvHeads, KvPages, KvShape, KvType, Rotation};
use crate::error::{Error, Result};
use crate::kernels::attention::{I16_MOST, I16_PIECE, KvLayout, PAGE_LEN, SCALED};
use crate::kernels::{Kernels, KvStore};
use crate::memory::Memory;

/// Keys and values of all layers. A page has blocks `[layer][K, V][head]`, whose places [`KvLayout`] gives.
pub struct HostKv {
    layers: Vec<KvLayer>,
    bytes: Zeroed<u8>,
}

/// K or V.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Keys.
    K,
    /// Values.
    V,
}

/// Where one layer's keys and values lie.
#[derive(Debug, Clone, Copy)]
pub struct KvLayer {
    /// Its heads.
    pub heads: KvHeads,
    types: [KvType; 2],
    layout: KvLayout,
    /// Where its blocks begin in a page that is alone.
    begin: usize,
}

impl KvLayer {
    /// The type that a part is rounded to.
    pub fn kv_type(&self, part: Part) -> KvType {
        self.types[part as usize]
    }

    /// Length of a vector.
    pub fn dim(&self, part: Part) -> usize {
        match part {
            Part::K => self.heads.dims.k,
            Part::V => self.heads.dims.v,
        }
    }

    /// Whether it stores this part. Values that are parts of keys are not stored again.
    pub fn keeps(&self, part: Part) -> bool {
        part == Part::K || self.heads.dims.v_at.is_none()
    }

    /// Bytes of a block.
    fn block_bytes(&self, part: Part) -> usize {
        if self.keeps(part) { self.kv_type(part).block_bytes(self.dim(part)) } else { 0 }
    }

    /// Where a part begins in a page that is alone.
    fn offset(&self, part: Part) -> usize {
        match part {
            Part::K => self.begin,
            Part::V => self.begin + self.heads.n * self.block_bytes(Part::K),
        }
    }

    /// The bytes of a block.
    pub fn block(&self, page: usize, part: Part, head: usize) -> Range<usize> {
        let len = self.block_bytes(part);
        let at = self.layout.start(page, self.offset(part) + head * len, len);
        at..at + len
    }

    /// The bytes of a block in a page that is alone.
    fn block_alone(&self, part: Part, head: usize) -> Range<usize> {
        let len = self.block_bytes(part);
        let at = self.offset(part) + head * len;
        at..at + len
    }
}

impl KvHeads {
    /// Bytes of a page of a layer, or none if they cannot be counted.
    fn page_bytes(&self, k_type: KvType, v_type: KvType) -> Option<usize> {
        // The largest block has four bytes for each component.
        self.dims.k.checked_add(self.dims.v)?.checked_mul(PAGE_LEN * 4)?.checked_mul(self.n)?;
        Some(self.n * self.blocks(k_type, v_type).sum::<usize>())
    }

    /// Bytes of a block of keys, and of one of values where there are any.
    fn blocks(&self, k_type: KvType, v_type: KvType) -> impl Iterator<Item = usize> {
        let n = if self.dims.v_at.is_some() { 1 } else { 2 };
        self.parts(k_type, v_type).into_iter().take(n).map(|(kv_type, dim)| kv_type.block_bytes(dim))
    }

    /// The type and length of keys and of values. Values that are parts of keys have their type.
    fn parts(&self, k_type: KvType, v_type: KvType) -> [(KvType, usize); 2] {
        let v_type = if self.dims.v_at.is_some() { k_type } else { v_type };
        [(k_type, self.dims.k), (v_type, self.dims.v)]
    }
}

impl KvShape {
    /// Bytes of a page, or none if they cannot be counted.
    fn page_bytes(&self) -> Option<usize> {
        let mut layers = self.layers.iter();
        layers.try_fold(0usize, |sum, heads| sum.checked_add(heads.page_bytes(self.k_type, self.v_type)?))
    }

    /// How pages lie in memory.
    pub fn layout(&self) -> KvLayout {
        let blocks = self.layers.iter().flat_map(|heads| heads.blocks(self.k_type, self.v_type));
        let block = blocks.max().unwrap_or(0);
        KvLayout::new(self.n_pages, self.page_bytes().unwrap_or(0), block)
    }

    /// `InvalidArgument` where the length of heads is no multiple of what a type needs.
    fn check_dims(&self) -> Result<()> {
        let [k, v] = if self.k_type == self.v_type { ["kv_type"; 2] } else { ["k_type", "v_type"] };
        for heads in &self.layers {
            if heads.dims.v_at.is_some() && self.k_type != self.v_type {
                return Err(Error::InvalidArgument(format!(
                    "v_type is {}, but the model's values are parts of its keys, whose k_type is {}",
                    format!("{:?}", self.v_type).to_lowercase(),
                    format!("{:?}", self.k_type).to_lowercase()
                )));
            }
            let takes_i16 = heads.takes(KvType::I16);
            let others = if takes_i16 { "i16, f16 or f32" } else { "f16 or f32" };
            for (name, (kv_type, dim)) in [k, v].into_iter().zip(heads.parts(self.k_type, self.v_type)) {
                let (piece, what) = match kv_type {
                    KvType::F16 | KvType::F32 => continue,
                    KvType::Q8_0 => (SCALED, "q8_0, which has a scale for each 32 components"),
                    KvType::I16 if dim > I16_MOST => {
                        return Err(Error::InvalidArgument(format!(
                            "{name} is i16, which is for heads of up to {I16_MOST} components, but the model's head_dim is {dim}"
                        )));
                    }
                    KvType::I16 => (I16_PIECE, "i16, which takes 16 components at a time"),
                };
                if !dim.is_multiple_of(piece) {
                    return Err(Error::InvalidArgument(format!(
                        "{name} is {what}, but the model's head_dim is {dim}: take {others}"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl KvHeads {
    /// Whether keys and values of these lengths can be rounded to `kv_type`.
    pub fn takes(&self, kv_type: KvType) -> bool {
        self.parts(kv_type, kv_type).into_iter().all(|(_, dim)| match kv_type {
            KvType::F16 | KvType::F32 => true,
            KvType::Q8_0 => dim.is_multiple_of(SCALED),
            KvType::I16 => dim <= I16_MOST && dim.is_multiple_of(I16_PIECE),
        })
    }
}

impl HostKv {
    /// An empty cache; its memory is handed out by the operating system as it fills.
    /// `InvalidArgument` for a type that does not fit the length of heads, `NoMemory`.
    pub fn new(shape: &KvShape, memory: &Memory) -> Result<HostKv> {
        shape.check_dims()?;
        let too_much = || Error::NoMemory(format!("a KV cache of {shape:?} has more bytes than memory"));
        let layout = shape.page_bytes().map(|_| shape.layout()).ok_or_else(too_much)?;
        let mut bytes: Zeroed<u8> =
            memory.zeroed(layout.total_bytes().ok_or_else(too_much)?, "the KV cache")?;
        // Pages are handed out from the front, so touched memory is contiguous.
        bytes.prefer_large_pages();
        let types = [shape.k_type, shape.v_type];
        let mut begin = 0;
        let layers = shape.layers.iter().map(|&heads| {
            let layer = KvLayer { heads, types, layout, begin };
            begin += heads.page_bytes(types[0], types[1]).unwrap_or(0);
            layer
        });
        Ok(HostKv { layers: layers.collect(), bytes })
    }

    /// Where one layer's keys and values lie.
    pub fn layer(&self, layer: usize) -> KvLayer {
        self.layers[layer]
    }

    /// One layer's K or V.
    pub fn store(&self, layer: usize, part: Part) -> KvStore<'_> {
        let layer = &self.layers[layer];
        KvStore {
            bytes: &self.bytes,
            kv_type: layer.kv_type(part),
            layout: layer.layout,
            offset: layer.offset(part),
        }
    }

    /// The memory. [`KvLayer::block`] gives the place of each block.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Writes rows of `k` and of `v`, a vector of each head, into their `slots`, rounding to the cache's types.
    pub fn append(&mut self, kernels: &Kernels, layer: usize, slots: &[u32], (k, v): (&[f32], &[f32])) {
        let layer = self.layers[layer];
        for (part, x) in [(Part::K, k), (Part::V, v)].into_iter().filter(|(part, _)| layer.keeps(*part)) {
            let dim = layer.dim(part);
            for (&slot, row) in slots.iter().zip(x.chunks_exact(layer.heads.n * dim)) {
                for (head, x) in row.chunks_exact(dim).enumerate() {
                    let block = layer.block(slot as usize / PAGE_LEN, part, head);
                    put(kernels, &layer, part, slot, x, &mut self.bytes[block]);
                }
            }
        }
    }

    /// Moves the rows of the slots `from` to those of `to`, one after another; keys are rotated by `rotation`. `x` has space for
    /// a head.
    pub fn relocate(
        &mut self,
        kernels: &Kernels,
        layer: usize,
        (from, to): (&[u32], &[u32]),
        rotation: Option<Rotation<'_>>,
        x: &mut [f32],
    ) {
        let layer = self.layers[layer];
        for (part, rotation) in
            [(Part::K, rotation), (Part::V, None)].into_iter().filter(|(part, _)| layer.keeps(*part))
        {
            let x = &mut x[..layer.dim(part)];
            for (&from, &to) in from.iter().zip(to) {
                for head in 0..layer.heads.n {
                    let block = |slot: u32| layer.block(slot as usize / PAGE_LEN, part, head);
                    take(&layer, part, from, &self.bytes[block(from)], x);
                    rotate_head(kernels, rotation, x);
                    put(kernels, &layer, part, to, x, &mut self.bytes[block(to)]);
                }
            }
        }
    }

    /// All blocks of all layers.
    fn blocks(layers: &[KvLayer]) -> impl Iterator<Item = (&KvLayer, Part, usize)> {
        let parts = layers.iter().flat_map(|layer| [(layer, Part::K), (layer, Part::V)]);
        let parts = parts.filter(|(layer, part)| layer.keeps(*part));
        parts.flat_map(|(layer, part)| (0..layer.heads.n).map(move |head| (layer, part, head)))
    }
}

/// Rotates the pairs of one head's vector.
pub fn rotate_head(kernels: &Kernels, rotation: Option<Rotation<'_>>, x: &mut [f32]) {
    if let Some(rotation) = rotation {
        (kernels.rope)(x, rotation.cos, rotation.sin, rotation.style);
    }
}

impl KvPages for HostKv {
    fn usual_type(layers: &[KvHeads], head_dim: usize) -> KvType {
        // Another type would save little memory in a single layer.
        let usual = KvType::usual(head_dim);
        let takes_it = |heads: &KvHeads| {
            let [k, v] = heads.parts(usual, usual).map(|(_, dim)| KvType::usual(dim));
            k == v && heads.takes(usual)
        };
        if layers.iter().all(takes_it) { usual } else { KvType::F16 }
    }

    fn bytes(shape: &KvShape) -> Option<(usize, usize)> {
        let layout = shape.layout();
        layout.total_bytes().map(|bytes| (bytes, layout.page_bytes))
    }

    fn page_bytes(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.layout.page_bytes)
    }

    fn copy_page(&mut self, from: u32, to: u32) {
        for (layer, part, head) in HostKv::blocks(&self.layers) {
            let [from, to] = [from, to].map(|page| layer.block(page as usize, part, head));
            self.bytes.copy_within(from, to.start);
        }
    }

    fn read_page(&self, page: u32, used: Range<usize>, out: &mut [u8]) {
        for (layer, part, head) in HostKv::blocks(&self.layers) {
            let out = &mut out[layer.block_alone(part, head)];
            out.copy_from_slice(&self.bytes[layer.block(page as usize, part, head)]);
            for others in [0..used.start, used.end..PAGE_LEN].into_iter().filter(|others| !others.is_empty())
            {
                clear(layer, part, others, out);
            }
        }
    }

    fn write_page(&mut self, page: u32, bytes: &[u8]) {
        for (layer, part, head) in HostKv::blocks(&self.layers) {
            let range = layer.block(page as usize, part, head);
            self.bytes[range].copy_from_slice(&bytes[layer.block_alone(part, head)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::HeadDims;

    /// Three layers of eight heads, and one of two: runs of eight pages are longer than a megabyte, so there is a gap between them.
    #[test]
    fn pages_of_several_runs_are_copied_and_kept_whole() {
        let (k_type, v_type) = (KvType::F16, KvType::Q8_0);
        let dims = HeadDims::new(64, 96);
        let (few, many) = (KvHeads { n: 2, dims }, KvHeads { n: 8, dims: HeadDims::all(64) });
        let shape = KvShape { layers: vec![many, few, many, many], n_pages: 19, k_type, v_type };
        assert!(shape.layout().gap > 0 && shape.layout().run == 8);
        let kernels = Kernels::select(None);
        let mut kv = HostKv::new(&shape, &Memory::default()).expect("memory");
        let row: Vec<f32> = (0..8 * 64).map(|i| i as f32 - 200.0).collect();
        let slots: Vec<u32> = (9 * 32 + 5..9 * 32 + 7).collect();
        for (layer, heads) in shape.layers.iter().enumerate() {
            let rows = [&row[..], &row.iter().map(|x| x * layer as f32).collect::<Vec<_>>()].concat();
            let [k, v] = [heads.dims.k, heads.dims.v].map(|dim| &rows[..2 * heads.n * dim]);
            kv.append(kernels, layer, &slots, (k, v));
        }
        let read = |kv: &HostKv, page: u32, used: Range<usize>| {
            let mut bytes = vec![0xAA; kv.page_bytes()];
            kv.read_page(page, used, &mut bytes);
            bytes
        };
        let whole = read(&kv, 9, 0..32);
        assert!(whole == read(&kv, 9, 5..7) && whole.iter().any(|&byte| byte != 0), "two tokens");
        kv.copy_page(9, 2);
        kv.write_page(18, &whole);
        for page in 0..19 {
            let expected = if [2, 9, 18].contains(&page) { &whole[..] } else { &vec![0; whole.len()] };
            assert!(read(&kv, page, 0..32) == expected, "page {page}");
        }
        let mut x = [0.0; 64];
        for (part, head) in [(Part::K, 0), (Part::V, 7)] {
            let layer = kv.layer(2);
            take(&layer, part, 18 * 32 + 5, &kv.bytes_mut()[layer.block(18, part, head)], &mut x);
            let near = x.iter().zip(&row[head * 64..]).all(|(x, expected)| (x - expected).abs() < 2.0);
            assert!(near, "{x:?}");
        }
        assert!(read(&kv, 9, 6..7) != whole && read(&kv, 9, 0..5).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn heads_that_whole_numbers_do_not_fit_are_refused() {
        for (head_dim, why) in [(24, "16 components at a time"), (4096, "up to 2048 components")] {
            let (k_type, v_type) = (KvType::F16, KvType::I16);
            let layers = vec![KvHeads { n: 1, dims: HeadDims::all(head_dim) }];
            let shape = KvShape { layers, n_pages: 1, k_type, v_type };
            let error = HostKv::new(&shape, &Memory::default()).err().expect("a refusal").to_string();
            assert!(error.contains("v_type is i16") && error.contains(why), "{error}");
        }
        // The sentence names the option that sets both, and all types that would fit.
        for (head_dim, others) in [(48, "take i16, f16 or f32"), (24, "take f16 or f32")] {
            let (k_type, v_type) = (KvType::Q8_0, KvType::Q8_0);
            let layers = vec![KvHeads { n: 1, dims: HeadDims::all(head_dim) }];
            let shape = KvShape { layers, n_pages: 1, k_type, v_type };
            let error = HostKv::new(&shape, &Memory::default()).err().expect("a refusal").to_string();
            assert!(error.contains("kv_type is q8_0") && error.contains(others), "{error}");
        }
    }
}
