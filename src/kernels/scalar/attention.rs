//! Attention in one pass over the keys, with a running maximum and sum instead of a row of all scores (Milakov and
//! Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135).
#![forbid(unsafe_code)]

use super::dot::{axpy, axpy_f16, dot_f16, dot_f32};
use crate::kernels::{AttnHead, KvStore};

/// Positions whose scores are computed before the running maximum is brought up to date.
const BLOCK: usize = 64;

/// The softmax so far: `out` holds `Σ exp(score - max) * v`, `sum` holds `Σ exp(score - max)`.
struct Running {
    max: f32,
    sum: f32,
}

pub(super) fn attention(head: &AttnHead<'_>, out: &mut [f32]) {
    out.fill(0.0);
    let mut running = Running { max: f32::NEG_INFINITY, sum: 0.0 };
    let mut position = head.begin;
    while position < head.end {
        let slot = position % head.page_len;
        let n = (head.page_len - slot).min(head.end - position).min(BLOCK);
        let page = head.pages[position / head.page_len] as usize;
        // The first of `n` consecutive tokens of this head, counted in rows of head_dim elements.
        let row = (page * head.kv_heads + head.kv_head) * head.page_len + slot;
        add_block(head, row, n, &mut running, out);
        position += n;
    }
    if running.sum != 0.0 {
        let factor = 1.0 / running.sum;
        out.iter_mut().for_each(|out| *out *= factor);
    }
}

/// Adds `n` (at most [`BLOCK`]) consecutive rows of keys and values.
fn add_block(head: &AttnHead<'_>, row: usize, n: usize, running: &mut Running, out: &mut [f32]) {
    let mut buffer = [0.0; BLOCK];
    let scores = &mut buffer[..n];
    score(head, row, scores);
    let max = scores.iter().fold(running.max, |max, &score| max.max(score));
    if max > running.max {
        let factor = libm::expf(running.max - max);
        running.sum *= factor;
        out.iter_mut().for_each(|out| *out *= factor);
        running.max = max;
    }
    for score in &mut *scores {
        *score = libm::expf(*score - running.max);
        running.sum += *score;
    }
    let dim = out.len();
    match head.v {
        KvStore::F32(v) => rows(v, row, n, dim).zip(scores).for_each(|(v, &mut weight)| axpy(out, weight, v)),
        KvStore::F16(v) => {
            rows(v, row, n, dim).zip(scores).for_each(|(v, &mut weight)| axpy_f16(out, weight, v))
        }
    }
}

/// The scores of the query with the keys from `row` on.
fn score(head: &AttnHead<'_>, row: usize, scores: &mut [f32]) {
    let (n, dim) = (scores.len(), head.q.len());
    match head.k {
        KvStore::F32(k) => {
            rows(k, row, n, dim).zip(&mut *scores).for_each(|(k, score)| *score = dot_f32(head.q, k))
        }
        KvStore::F16(k) => {
            rows(k, row, n, dim).zip(&mut *scores).for_each(|(k, score)| *score = dot_f16(head.q, k))
        }
    }
    for score in scores {
        *score *= head.scale;
        if let Some(cap) = head.softcap {
            *score = cap * libm::tanhf(*score / cap);
        }
    }
}

/// Rows `row..row + n` of a store with `dim` elements per row.
fn rows<T>(store: &[T], row: usize, n: usize, dim: usize) -> impl Iterator<Item = &[T]> {
    store[row * dim..][..n * dim].chunks_exact(dim.max(1))
}
