//! The KV store.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::Zeroed;
use super::kv_block::{clear, put, take};
use crate::backend::{KvPages, KvShape, KvType, Turn};
use crate::error::{Error, Result};
use crate::kernels::attention::{I16_MOST, I16_PIECE, KvLayout, PAGE_LEN, SCALED};
use crate::kernels::{Kernels, KvStore};
use crate::memory::Memory;

/// Keys and values of all layers: of each page `[layer][K, V][n_head_kv]` blocks, which lie as [`KvLayout`] says.
pub struct HostKv {
    /// Its shape.
    pub shape: KvShape,
    bytes: Zeroed<u8>,
}

/// K or V.
#[derive(Clone, Copy)]
pub enum Part {
    /// Keys.
    K,
    /// Values.
    V,
}

impl KvShape {
    /// What a part is rounded to.
    pub(super) fn kv_type(&self, part: Part) -> KvType {
        match part {
            Part::K => self.k_type,
            Part::V => self.v_type,
        }
    }

    /// Bytes of a layer in a page, or none if they cannot be counted.
    fn layer_bytes(&self) -> Option<usize> {
        // The largest block has four bytes for each component.
        self.head_dim.checked_mul(PAGE_LEN * 4 * 2)?.checked_mul(self.n_head_kv)?;
        let block = |kv_type: KvType| kv_type.block_bytes(self.head_dim);
        Some(self.n_head_kv * (block(self.k_type) + block(self.v_type)))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.n_layer * self.layer_bytes().unwrap_or(0)
    }

    /// How pages lie in memory.
    pub fn layout(&self) -> KvLayout {
        let block = self.k_type.block_bytes(self.head_dim).max(self.v_type.block_bytes(self.head_dim));
        KvLayout::new(self.n_pages, self.page_bytes(), block)
    }

    /// Where a layer's K or V begins in a page that is alone.
    fn offset(&self, layer: usize, part: Part) -> usize {
        let begin = layer * self.layer_bytes().unwrap_or(0);
        match part {
            Part::K => begin,
            Part::V => begin + self.n_head_kv * self.k_type.block_bytes(self.head_dim),
        }
    }

    /// The bytes of a block.
    pub fn block(&self, page: usize, layer: usize, part: Part, head: usize) -> Range<usize> {
        let len = self.kv_type(part).block_bytes(self.head_dim);
        let at = self.layout().start(page, self.offset(layer, part) + head * len, len);
        at..at + len
    }

    /// All blocks of a page: where each lies, and where it would if the page were alone.
    fn blocks(&self, page: u32) -> impl Iterator<Item = (Part, Range<usize>, Range<usize>)> + use<> {
        let (shape, alone) = (*self, KvShape { n_pages: 1, ..*self });
        let parts = (0..self.n_layer).flat_map(|layer| [(layer, Part::K), (layer, Part::V)]);
        parts.flat_map(move |(layer, part)| {
            (0..shape.n_head_kv).map(move |head| {
                let range = shape.block(page as usize, layer, part, head);
                (part, range, alone.block(0, layer, part, head))
            })
        })
    }

    /// `InvalidArgument` where heads cannot be cut into pieces of the length that a type asks for.
    fn check_head_dim(&self) -> Result<()> {
        let [k, v] = if self.k_type == self.v_type { ["kv_type"; 2] } else { ["k_type", "v_type"] };
        let takes_i16 = self.head_dim <= I16_MOST && self.head_dim.is_multiple_of(I16_PIECE);
        let others = if takes_i16 { "i16, f16 or f32" } else { "f16 or f32" };
        for (name, kv_type) in [(k, self.k_type), (v, self.v_type)] {
            let (piece, what) = match kv_type {
                KvType::F16 | KvType::F32 => continue,
                KvType::Q8_0 => (SCALED, "q8_0, which has a scale for each 32 components"),
                KvType::I16 if self.head_dim > I16_MOST => {
                    return Err(Error::InvalidArgument(format!(
                        "{name} is i16, which is for heads of up to {I16_MOST} components, but the model's head_dim is {}",
                        self.head_dim
                    )));
                }
                KvType::I16 => (I16_PIECE, "i16, which takes 16 components at a time"),
            };
            if !self.head_dim.is_multiple_of(piece) {
                return Err(Error::InvalidArgument(format!(
                    "{name} is {what}, but the model's head_dim is {}: take {others}",
                    self.head_dim
                )));
            }
        }
        Ok(())
    }
}

impl HostKv {
    /// An empty cache; its memory is handed out by the operating system as it fills.
    /// `InvalidArgument` for a type that does not fit the length of heads, `NoMemory`.
    pub fn new(shape: &KvShape, memory: &Memory) -> Result<HostKv> {
        shape.check_head_dim()?;
        let too_much = || Error::NoMemory(format!("a KV cache of {shape:?} has more bytes than memory"));
        let page_bytes = shape.layer_bytes().and_then(|bytes| shape.n_layer.checked_mul(bytes));
        let len = page_bytes.and_then(|_| shape.layout().total_bytes());
        let mut bytes: Zeroed<u8> = memory.zeroed(len.ok_or_else(too_much)?, "the KV cache")?;
        // Pages are handed out from the front, so what is touched lies together.
        bytes.prefer_large_pages();
        Ok(HostKv { shape: *shape, bytes })
    }

    /// One layer's K or V.
    pub fn store(&self, layer: usize, part: Part) -> KvStore<'_> {
        KvStore {
            bytes: &self.bytes,
            kv_type: self.shape.kv_type(part),
            layout: self.shape.layout(),
            offset: self.shape.offset(layer, part),
        }
    }

    /// The memory, in which [`KvShape::block`] says where what is.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Writes rows of `k` and of `v`, `[n_head_kv, head_dim]` each, into their `slots`, rounding to the cache's types.
    pub fn append(&mut self, kernels: &Kernels, layer: usize, slots: &[u32], (k, v): (&[f32], &[f32])) {
        let shape = self.shape;
        for (part, x) in [(Part::K, k), (Part::V, v)] {
            for (&slot, row) in slots.iter().zip(x.chunks_exact(shape.n_head_kv * shape.head_dim)) {
                for (head, x) in row.chunks_exact(shape.head_dim).enumerate() {
                    let block = shape.block(slot as usize / PAGE_LEN, layer, part, head);
                    put(kernels, &shape, part, slot, x, &mut self.bytes[block]);
                }
            }
        }
    }
}

impl HostKv {
    /// Moves the rows of the slots `from` to those of `to`, one after another; keys are turned by `turn`. `x` has room for
    /// a head.
    pub fn relocate(
        &mut self,
        kernels: &Kernels,
        layer: usize,
        (from, to): (&[u32], &[u32]),
        turn: Option<Turn<'_>>,
        x: &mut [f32],
    ) {
        let shape = self.shape;
        let x = &mut x[..shape.head_dim];
        for (part, turn) in [(Part::K, turn), (Part::V, None)] {
            for (&from, &to) in from.iter().zip(to) {
                for head in 0..shape.n_head_kv {
                    let block = |slot: u32| shape.block(slot as usize / PAGE_LEN, layer, part, head);
                    take(&shape, part, from, &self.bytes[block(from)], x);
                    turn_head(kernels, turn, x);
                    put(kernels, &shape, part, to, x, &mut self.bytes[block(to)]);
                }
            }
        }
    }
}

/// Turns the pairs of one head's vector.
pub fn turn_head(kernels: &Kernels, turn: Option<Turn<'_>>, x: &mut [f32]) {
    if let Some(turn) = turn {
        (kernels.rope)(x, turn.cos, turn.sin, turn.style);
    }
}

impl KvPages for HostKv {
    fn page_bytes(&self) -> usize {
        self.shape.page_bytes()
    }

    fn copy_page(&mut self, from: u32, to: u32) {
        for ((_, from, _), (_, to, _)) in self.shape.blocks(from).zip(self.shape.blocks(to)) {
            self.bytes.copy_within(from, to.start);
        }
    }

    fn read_page(&self, page: u32, used: Range<usize>, out: &mut [u8]) {
        for (part, range, alone) in self.shape.blocks(page) {
            let out = &mut out[alone];
            out.copy_from_slice(&self.bytes[range]);
            for others in [0..used.start, used.end..PAGE_LEN].into_iter().filter(|others| !others.is_empty())
            {
                clear(&self.shape, part, others, out);
            }
        }
    }

    fn write_page(&mut self, page: u32, bytes: &[u8]) {
        for (_, range, alone) in self.shape.blocks(page) {
            self.bytes[range].copy_from_slice(&bytes[alone]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three layers of eight heads: runs of eight pages are longer than a megabyte, so there is a gap between them.
    #[test]
    fn pages_of_several_runs_are_copied_and_kept_whole() {
        let (k_type, v_type) = (KvType::F16, KvType::Q8_0);
        let shape = KvShape { n_layer: 3, n_pages: 19, n_head_kv: 8, head_dim: 64, k_type, v_type };
        assert!(shape.layout().gap > 0 && shape.layout().run == 8);
        let kernels = Kernels::select(None);
        let mut kv = HostKv::new(&shape, &Memory::default()).expect("memory");
        let row: Vec<f32> = (0..8 * 64).map(|i| i as f32 - 200.0).collect();
        let slots: Vec<u32> = (9 * 32 + 5..9 * 32 + 7).collect();
        for layer in 0..3 {
            let rows = [&row[..], &row.iter().map(|x| x * layer as f32).collect::<Vec<_>>()].concat();
            kv.append(kernels, layer, &slots, (&rows, &rows));
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
            take(&shape, part, 18 * 32 + 5, &kv.bytes_mut()[shape.block(18, 2, part, head)], &mut x);
            let near = x.iter().zip(&row[head * 64..]).all(|(x, expected)| (x - expected).abs() < 2.0);
            assert!(near, "{x:?}");
        }
        assert!(read(&kv, 9, 6..7) != whole && read(&kv, 9, 0..5).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn heads_that_whole_numbers_do_not_fit_are_refused() {
        for (head_dim, why) in [(24, "16 components at a time"), (4096, "up to 2048 components")] {
            let (k_type, v_type) = (KvType::F16, KvType::I16);
            let shape = KvShape { n_layer: 1, n_pages: 1, n_head_kv: 1, head_dim, k_type, v_type };
            let error = HostKv::new(&shape, &Memory::default()).err().expect("a refusal").to_string();
            assert!(error.contains("v_type is i16") && error.contains(why), "{error}");
        }
        // By the name of the option that sets both, with all that would do.
        for (head_dim, others) in [(48, "take i16, f16 or f32"), (24, "take f16 or f32")] {
            let (k_type, v_type) = (KvType::Q8_0, KvType::Q8_0);
            let shape = KvShape { n_layer: 1, n_pages: 1, n_head_kv: 1, head_dim, k_type, v_type };
            let error = HostKv::new(&shape, &Memory::default()).err().expect("a refusal").to_string();
            assert!(error.contains("kv_type is q8_0") && error.contains(others), "{error}");
        }
    }
}
