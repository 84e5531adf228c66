//! What the attention kernel is told about one query head.
#![forbid(unsafe_code)]

use half::f16;

/// The keys or the values of one layer, all pages: `[page][kv_head][token in page][head_dim]`.
#[derive(Debug, Clone, Copy)]
pub enum KvStore<'a> {
    /// Elements of binary32.
    F32(&'a [f32]),
    /// Elements of binary16.
    F16(&'a [f16]),
}

/// One query head and the positions it attends to:
/// `out = Σ softmax(cap(scale * q·k[p])) * v[p]` over `p` in `begin..end`; zeros if that range is empty.
///
/// The keys' dimension is `q.len()`, the values' is `out.len()`.
#[derive(Debug, Clone, Copy)]
pub struct AttnHead<'a> {
    /// The query, `[head_dim]`.
    pub q: &'a [f32],
    /// The layer's keys.
    pub k: KvStore<'a>,
    /// The layer's values.
    pub v: KvStore<'a>,
    /// The sequence's page table: position `p` is in page `pages[p / page_len]`. Entries outside the range of
    /// positions are not looked at.
    pub pages: &'a [u32],
    /// Tokens per page.
    pub page_len: usize,
    /// Heads of keys and values in a page.
    pub kv_heads: usize,
    /// The head this query reads.
    pub kv_head: usize,
    /// The first position attended to (above 0 with a sliding window).
    pub begin: usize,
    /// One past the last position attended to.
    pub end: usize,
    /// What scores are multiplied with, usually `1 / √head_dim`.
    pub scale: f32,
    /// If given, a score `s` becomes `cap * tanh(s / cap)`.
    pub softcap: Option<f32>,
}
