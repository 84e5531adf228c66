//! The arguments of the attention kernels, and the layout of the KV cache's pages.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::f16;

/// Tokens in a page of the KV cache.
pub const PAGE_LEN: usize = 32;
/// Half of it.
pub const HALF: usize = PAGE_LEN / 2;
/// Positions that one step attends to, beginning at a multiple of this number; the results are then merged in ascending order. So
/// they have the same bits whether one thread walks a sequence or several share it.
pub const CHUNK_LEN: usize = 512;
/// Most queries of one call.
pub const MAX_QUERIES: usize = 64;
/// Most queries for which kernels read keys and values in place; for more it pays to widen a block first.
pub const FEW_QUERIES: usize = 6;
/// Partial sums that a kernel may keep for a query.
pub const SUM_LANES: usize = 16;

/// Components of a head that share a scale in [`KvType::Q8_0`].
pub const SCALED: usize = 32;
/// Components of a head that are taken together in [`KvType::I16`].
pub const I16_PIECE: usize = 16;
/// Most components of such a head: see [`super::scalar::int16`].
pub const I16_MOST: usize = 2048;

/// Lengths of a head's vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadDims {
    /// Of a query and of a key.
    pub k: usize,
    /// Of a value, and of what attention gives.
    pub v: usize,
    /// If given, a value is the part of its key that begins with this component, and is not stored again; an even number.
    pub v_at: Option<usize>,
}

impl HeadDims {
    /// All of one length.
    pub const fn all(dim: usize) -> HeadDims {
        HeadDims::new(dim, dim)
    }

    /// Values of their own.
    pub const fn new(k: usize, v: usize) -> HeadDims {
        HeadDims { k, v, v_at: None }
    }

    /// The format that needs as much scratch as any for vectors up to `dim`.
    pub const fn widest(dim: usize) -> HeadDims {
        HeadDims { v_at: Some(0), ..HeadDims::all(dim) }
    }

    /// The longer of the two.
    pub const fn longest(self) -> usize {
        if self.k > self.v { self.k } else { self.v }
    }
}

/// Number format of keys or of values in a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// binary16.
    F16,
    /// binary32: twice the memory, no rounding.
    F32,
    /// Bytes with a binary16 scale for each [`SCALED`] components of a head, rounded as the weight format Q8_0 is
    /// ([`crate::quant::q8_0`]): a little more than half the memory of F16. Heads are a multiple of 32 components long.
    Q8_0,
    /// 16-bit integers times a power of two for each head's vector, rounded as in [`super::Kernels::unit_i16`] and
    /// [`super::Kernels::narrow_i16`]. They are about as exact as F16, need hardly more memory, and are multiplied without being
    /// widened. Heads are a multiple of 16 components long, 2048 at most.
    I16,
}

impl KvType {
    /// The default type of keys and values of heads of `head_dim` components. Instruction sets of x86-64 multiply integers in
    /// half the time of f32, to which [`KvType::F16`] is widened; those of Arm do not.
    pub const fn usual(head_dim: usize) -> KvType {
        let whole = head_dim.is_multiple_of(I16_PIECE) && head_dim <= I16_MOST;
        if cfg!(target_arch = "x86_64") && whole { KvType::I16 } else { KvType::F16 }
    }

    /// Bytes of a block: of one head's vectors of [`PAGE_LEN`] tokens.
    pub const fn block_bytes(self, head_dim: usize) -> usize {
        match self {
            KvType::F16 => PAGE_LEN * head_dim * 2,
            KvType::F32 => PAGE_LEN * head_dim * 4,
            KvType::Q8_0 => PAGE_LEN * (head_dim + head_dim / SCALED * 2),
            KvType::I16 => PAGE_LEN * (head_dim * 2 + 4),
        }
    }

    /// A block's memory as its elements.
    #[inline(always)]
    pub fn block(self, bytes: &[u8], head_dim: usize) -> KvBlock<'_> {
        match self {
            KvType::F16 => KvBlock::F16(bytemuck::cast_slice(bytes)),
            KvType::F32 => KvBlock::F32(bytemuck::cast_slice(bytes)),
            KvType::Q8_0 => {
                let (codes, scales) = bytes.split_at(PAGE_LEN * head_dim);
                KvBlock::Q8_0(bytemuck::cast_slice(codes), bytemuck::cast_slice(scales))
            }
            KvType::I16 => {
                let (codes, units) = bytes.split_at(PAGE_LEN * head_dim * 2);
                KvBlock::I16(bytemuck::cast_slice(codes), bytemuck::cast_slice(units))
            }
        }
    }
}

/// One head's keys or values of the [`PAGE_LEN`] tokens of a page. Keys lie `[head_dim][token]`, so that one component of all
/// tokens fills a register; values `[token][head_dim]`.
#[derive(Debug, Clone, Copy)]
pub enum KvBlock<'a> {
    /// Numbers.
    F32(&'a [f32]),
    /// Numbers.
    F16(&'a [f16]),
    /// Codes, and their scales, `[head_dim / SCALED][token]` of keys and values alike.
    Q8_0(&'a [i8], &'a [f16]),
    /// Integers, and their units, `[token]`. Of keys two components lie side by side, `[head_dim / 2][token][2]`, and of values
    /// two tokens that are half a page apart, `[token % HALF][head_dim][token / HALF]`: instructions add the products of such
    /// pairs.
    I16(&'a [i16], &'a [f32]),
}

/// Most bytes of one head's blocks of consecutive pages that lie together. Processors prefetch contiguous memory; separate blocks
/// arrive at less than half the speed.
const RUN_BYTES: usize = 32 << 10;
/// Each run begins this many bytes after a multiple of [`SETS_BYTES`] from the one before. If runs began at multiples, they would
/// compete for a few sets of the second-level cache.
const STAGGER: usize = 36 << 10;
/// Half of the distance at which addresses map to the same set of such a cache, of 1 MiB in 8 ways.
const SETS_BYTES: usize = 64 << 10;
/// Runs of at least this many bytes are staggered.
const LONG_RUN: usize = 1 << 20;

/// The layout of pages in memory. The pages of a run follow one another: first the first block of each, then the second of each,
/// and so on. The last run may be shorter. There may be a gap between runs.
#[derive(Debug, Clone, Copy)]
pub struct KvLayout {
    /// Pages in all.
    pub n_pages: usize,
    /// Bytes of a page: of all its blocks.
    pub page_bytes: usize,
    /// Pages of a run.
    pub run: usize,
    /// Bytes between runs.
    pub gap: usize,
}

impl KvLayout {
    /// `n_pages` pages of `page_bytes` in blocks of up to `block_bytes`.
    pub fn new(n_pages: usize, page_bytes: usize, block_bytes: usize) -> KvLayout {
        let run = (RUN_BYTES / block_bytes.max(1)).max(1);
        let long = Some(page_bytes.saturating_mul(run)).filter(|&bytes| bytes >= LONG_RUN);
        let gap = long.map_or(0, |bytes| (STAGGER + SETS_BYTES - bytes % SETS_BYTES) % SETS_BYTES);
        KvLayout { n_pages, page_bytes, run, gap }
    }

    /// Bytes of all pages, or none if they cannot be counted.
    pub fn total_bytes(&self) -> Option<usize> {
        let gaps = self.n_pages.div_ceil(self.run).saturating_sub(1).checked_mul(self.gap)?;
        self.n_pages.checked_mul(self.page_bytes)?.checked_add(gaps)
    }

    /// Where the block of `len` bytes begins that would be `offset` bytes from the beginning of page `page` if the page were
    /// contiguous.
    #[inline(always)]
    pub fn start(&self, page: usize, offset: usize, len: usize) -> usize {
        let first = page / self.run * self.run;
        let run = self.run.min(self.n_pages - first);
        first * self.page_bytes + page / self.run * self.gap + run * offset + (page - first) * len
    }
}

/// The keys or the values of one layer.
#[derive(Debug, Clone, Copy)]
pub struct KvStore<'a> {
    /// All pages of all layers; its address is aligned for f32.
    pub bytes: &'a [u8],
    /// The type of its elements.
    pub kv_type: KvType,
    /// The layout of the pages.
    pub layout: KvLayout,
    /// Where the blocks of this part would begin in a contiguous page; they follow one another.
    pub offset: usize,
}

impl<'a> KvStore<'a> {
    /// Block `kv_head` of page `page`.
    #[inline(always)]
    pub fn block(&self, page: usize, kv_head: usize, head_dim: usize) -> &'a [u8] {
        let len = self.kv_type.block_bytes(head_dim);
        &self.bytes[self.layout.start(page, self.offset + kv_head * len, len)..][..len]
    }
}

/// Query heads that read the same head of keys and values, for some consecutive tokens:
/// `out = Σ exp(s[p] - max) * v[p]`, `sum = Σ exp(s[p] - max)`, where `s[p] = cap(scale * q·k[p])` and `max` is the
/// largest of them, over the positions of `chunk` that a query sees.
#[derive(Debug, Clone, Copy)]
pub struct AttnTile<'a> {
    /// Queries of the first token; query `g` of token `t` is `q[t * stride + g * dims.k..][..dims.k]`.
    pub q: &'a [f32],
    /// Elements from one token's queries to the next one's.
    pub stride: usize,
    /// Query heads of a token.
    pub group: usize,
    /// Tokens; `group * n_tokens` is at most [`MAX_QUERIES`].
    pub n_tokens: usize,
    /// Lengths of a head's vectors.
    pub dims: HeadDims,
    /// The layer's keys.
    pub k: KvStore<'a>,
    /// The layer's values.
    pub v: KvStore<'a>,
    /// The sequence's page table: position `p` is in page `pages[p / PAGE_LEN]`. Entries of positions that no query sees are not
    /// read.
    pub pages: &'a [u32],
    /// The head these queries read.
    pub kv_head: usize,
    /// Position of the first token.
    pub position: usize,
    /// Whether token `t` sees no position beyond its own, `position + t`.
    pub causal: bool,
    /// The first position that any query sees, before `window` applies.
    pub from: usize,
    /// One past the last position any query sees.
    pub end: usize,
    /// A token sees only its last `window` positions, its own included. Where attention is not causal, it sees as many from its
    /// own on.
    pub window: Option<usize>,
    /// Whether it sees only the positions of its own stretch of `window` positions instead.
    pub chunked: bool,
    /// The factor on scores, usually `1 / √head_dim`.
    pub scale: f32,
    /// If given, scores grow with the query's position.
    pub growth: Option<Growth>,
    /// If given, a score `s` becomes `cap * tanh(s / cap)`.
    pub softcap: Option<f32>,
    /// If given, what is added to scores after that.
    pub bias: Option<DistanceBias<'a>>,
    /// Number of the first query head among those that `bias` is for.
    pub head: usize,
}

/// What is added to the scores of each query head, by the distance between key and query.
#[derive(Debug, Clone, Copy)]
pub enum DistanceBias<'a> {
    /// Each head's factor on the distance, which is subtracted, `[n_head]`: ALiBi (Press et al. 2022).
    Slopes(&'a [f32]),
    /// For each head a number for each distance, `[n_head, len]` with an odd `len`. The middle one is for the query's own
    /// position, those before it for earlier keys. Keys beyond the table get the number of the farthest.
    Table(&'a [f32], usize),
}

impl DistanceBias<'_> {
    /// Adds it to the scores of a query of head `head` at `query` with the keys from position `first` on.
    fn add(&self, head: usize, query: usize, first: usize, scores: &mut [f32]) {
        match *self {
            DistanceBias::Slopes(slopes) => {
                for (key, score) in (first..).zip(scores) {
                    *score -= slopes[head] * key.abs_diff(query) as f32;
                }
            }
            DistanceBias::Table(table, len) => {
                let table = &table[head * len..(head + 1) * len];
                for (key, score) in (first..).zip(scores) {
                    *score += table[(key + len / 2).saturating_sub(query).min(len - 1)];
                }
            }
        }
    }
}

/// Scores that grow with the position of their query, one step for every `len` positions: a factor of `1 + factor * ln(1 +
/// floor((position + ahead) / len))`, the temperature of Llama 4.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Positions of a step; at least 1.
    pub len: usize,
    /// Factor on the logarithm of the steps.
    pub factor: f32,
    /// Added to the position.
    pub ahead: usize,
}

impl AttnTile<'_> {
    /// Queries: `group` of each token, token by token.
    pub fn n_queries(&self) -> usize {
        self.group * self.n_tokens
    }

    /// Query `i`.
    pub fn query(&self, i: usize) -> &[f32] {
        &self.q[i / self.group * self.stride + i % self.group * self.dims.k..][..self.dims.k]
    }

    /// The factor on the scores of query `i`.
    pub fn scale_of(&self, i: usize) -> f32 {
        match self.growth {
            Some(Growth { len, factor, ahead }) => {
                let steps = (self.position + i / self.group + ahead) / len;
                self.scale * (1.0 + factor * libm::log1pf(steps as f32))
            }
            None => self.scale,
        }
    }

    /// Adds the bias to the scores of query `i` with the keys from position `first` on, if there is one.
    pub fn add_bias(&self, i: usize, first: usize, scores: &mut [f32]) {
        if let Some(bias) = &self.bias {
            bias.add(self.head + i % self.group, self.position + i / self.group, first, scores);
        }
    }

    /// The memory of the keys and of the values of page number `page` of the sequence; values that are parts of keys have none.
    #[inline(always)]
    pub fn blocks(&self, page: usize) -> (&[u8], &[u8]) {
        let page = self.pages[page] as usize;
        let keys = self.k.block(page, self.kv_head, self.dims.k);
        match self.dims.v_at {
            Some(_) => (keys, &[]),
            None => (keys, self.v.block(page, self.kv_head, self.dims.v)),
        }
    }

    /// The positions that query `i` sees.
    pub fn seen_by(&self, i: usize) -> Range<usize> {
        let position = self.position + i / self.group;
        let begin = match self.window {
            Some(len) if self.chunked => position / len * len,
            Some(len) => (position + 1).saturating_sub(len),
            None => 0,
        };
        let ahead = if self.causal { 1 } else { self.window.unwrap_or(self.end) };
        begin.max(self.from)..self.end.min(position + ahead)
    }

    /// The positions that any query sees.
    pub fn seen(&self) -> Range<usize> {
        let last = self.n_queries().saturating_sub(1);
        self.seen_by(0).start..self.seen_by(last).end
    }

    /// Whether every query sees all of `positions`.
    pub fn all_see(&self, positions: &Range<usize>) -> bool {
        let last = self.n_queries().saturating_sub(1);
        self.seen_by(last).start <= positions.start && self.seen_by(0).end >= positions.end
    }

    /// The numbers of the chunks of [`CHUNK_LEN`] positions that any query sees.
    pub fn chunks(&self) -> Range<usize> {
        let seen = self.seen();
        seen.start / CHUNK_LEN..seen.end.div_ceil(CHUNK_LEN)
    }

    /// The positions of chunk number `chunk` that any query sees.
    pub fn positions(&self, chunk: usize) -> Range<usize> {
        let seen = self.seen();
        seen.start.max(chunk * CHUNK_LEN)..seen.end.min((chunk + 1) * CHUNK_LEN)
    }
}

/// The softmax over some positions, for each query. Without positions it is [`AttnState::EMPTY`].
pub struct AttnState<'a> {
    /// `Σ exp(score - max) * v`, `[n_queries, dims.v]`.
    pub out: &'a mut [f32],
    /// The largest score, `[n_queries]`.
    pub max: &'a mut [f32],
    /// `Σ exp(score - max)`, `[n_queries]`.
    pub sum: &'a mut [f32],
    /// Scratch for kernels.
    pub scratch: Scratch<'a>,
}

/// Memory that a kernel may use for a tile; nothing in it outlasts a call.
pub struct Scratch<'a> {
    /// `[n_queries, dims.k]`: the queries as they are read.
    pub queries: &'a mut [f32],
    /// `[n_queries, PAGE_LEN]`: the scores of a page, then its weights.
    pub weights: &'a mut [f32],
    /// `[n_queries, SUM_LANES]`: the sums of weights, lane by lane.
    pub sums: &'a mut [f32],
    /// A block of keys or values, where there are more queries than [`FEW_QUERIES`] or values are parts of keys; otherwise empty.
    pub block: &'a mut [f32],
}

impl<'a> AttnState<'a> {
    /// The f32s that a state takes.
    pub const fn len(n_queries: usize, dims: HeadDims) -> usize {
        n_queries * (dims.k + dims.v + 2 + PAGE_LEN + SUM_LANES) + block_len(n_queries, dims)
    }

    /// A state in [`AttnState::len`] elements of `buffer`, with their old content.
    pub fn of(buffer: &'a mut [f32], n_queries: usize, dims: HeadDims) -> AttnState<'a> {
        let (out, rest) = buffer.split_at_mut(n_queries * dims.v);
        let (max, rest) = rest.split_at_mut(n_queries);
        let (sum, rest) = rest.split_at_mut(n_queries);
        let (queries, rest) = rest.split_at_mut(n_queries * dims.k);
        let (weights, rest) = rest.split_at_mut(n_queries * PAGE_LEN);
        let (sums, rest) = rest.split_at_mut(n_queries * SUM_LANES);
        let block = &mut rest[..block_len(n_queries, dims)];
        AttnState { out, max, sum, scratch: Scratch { queries, weights, sums, block } }
    }

    /// The state of no positions.
    pub fn clear(&mut self) {
        self.out.fill(0.0);
        self.max.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
    }

    /// Adds the positions of `other`.
    pub fn merge(&mut self, other: &AttnState<'_>) {
        let dim = self.out.len() / self.max.len().max(1);
        for i in 0..self.max.len() {
            let max = self.max[i].max(other.max[i]);
            let (a, b) = (factor(self.max[i], max), factor(other.max[i], max));
            let range = i * dim..(i + 1) * dim;
            for (x, y) in self.out[range.clone()].iter_mut().zip(&other.out[range]) {
                *x = *x * a + *y * b;
            }
            self.sum[i] = self.sum[i] * a + other.sum[i] * b;
            self.max[i] = max;
        }
    }

    /// Query `i`'s attention: the weighted mean of the values that it sees, zeros if it sees none. `sink` is a further score, for
    /// a value of zeros.
    pub fn finish(&self, i: usize, sink: Option<f32>, out: &mut [f32]) {
        let (sum, max) = (self.sum[i], self.max[i]);
        let factor = match sink {
            Some(sink) if sink > max => 1.0 / (sum * factor(max, sink) + 1.0) * factor(max, sink),
            Some(sink) => 1.0 / (sum + factor(sink, max)),
            None if sum == 0.0 => 1.0,
            None => 1.0 / sum,
        };
        let row = &self.out[i * out.len()..(i + 1) * out.len()];
        for (out, x) in out.iter_mut().zip(row) {
            *out = x * factor;
        }
    }
}

/// Numbers in [`Scratch::block`].
const fn block_len(n_queries: usize, dims: HeadDims) -> usize {
    if n_queries > FEW_QUERIES || dims.v_at.is_some() { PAGE_LEN * dims.longest() } else { 0 }
}

/// The factor that makes sums relative to `to` of sums relative to `from`; `to` is at least as large.
pub fn factor(from: f32, to: f32) -> f32 {
    if from == to { 1.0 } else { libm::expf(from - to) }
}
