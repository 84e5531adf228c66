//! Attention of one query head, in the one pass of the scalar definition.

use std::arch::x86_64::*;

use half::f16;

use super::elementwise::{exp, load, mask, store};
use crate::kernels::{AttnHead, KvStore};

/// Elements in a register.
const LANES: usize = 16;
/// Positions whose scores are computed before the running maximum is brought up to date.
const BLOCK: usize = 64;

/// An element of the cache.
trait Element: Copy {
    /// Up to sixteen of them as numbers; the others are 0.
    ///
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn load(x: &[Self]) -> __m512;
}

impl Element for f32 {
    #[inline(always)]
    unsafe fn load(x: &[f32]) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { load(x) }
    }
}

impl Element for f16 {
    #[inline(always)]
    unsafe fn load(x: &[f16]) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { load_f16(x) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn load_f16(x: &[f16]) -> __m512 {
    // SAFETY: lanes beyond the slice are masked off.
    _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(mask(x.len()), x.as_ptr().cast()) })
}

pub fn attention(head: &AttnHead<'_>, out: &mut [f32]) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
    fn inner(head: &AttnHead<'_>, out: &mut [f32]) {
        match (head.k, head.v) {
            (KvStore::F32(k), KvStore::F32(v)) => run(head, k, v, out),
            (KvStore::F32(k), KvStore::F16(v)) => run(head, k, v, out),
            (KvStore::F16(k), KvStore::F32(v)) => run(head, k, v, out),
            (KvStore::F16(k), KvStore::F16(v)) => run(head, k, v, out),
        }
    }
    // SAFETY: this function is reached through the table of this level only, which is handed out on machines that have
    // its instructions.
    unsafe { inner(head, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn run<K: Element, V: Element>(head: &AttnHead<'_>, k: &[K], v: &[V], out: &mut [f32]) {
    out.fill(0.0);
    let (dim, v_dim) = (head.q.len(), out.len());
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
    let mut position = head.begin;
    while position < head.end {
        let slot = position % head.page_len;
        let n = (head.page_len - slot).min(head.end - position).min(BLOCK);
        let page = head.pages[position / head.page_len] as usize;
        let row = (page * head.kv_heads + head.kv_head) * head.page_len + slot;
        let mut scores = [0.0; BLOCK];
        let scores = &mut scores[..n];
        for (score, key) in scores.iter_mut().zip(k[row * dim..][..n * dim].chunks_exact(dim.max(1))) {
            *score = head.scale * dot(head.q, key);
        }
        if let Some(cap) = head.softcap {
            scores.iter_mut().for_each(|score| *score = cap * libm::tanhf(*score / cap));
        }
        let new_max = scores.iter().fold(max, |max, &score| max.max(score));
        if new_max > max {
            let factor = libm::expf(max - new_max);
            sum *= factor;
            out.iter_mut().for_each(|out| *out *= factor);
            max = new_max;
        }
        for chunk in scores.chunks_mut(LANES) {
            let weights = exp(_mm512_sub_ps(load(chunk), _mm512_set1_ps(max)));
            store(chunk, weights);
            sum += _mm512_mask_reduce_add_ps(mask(chunk.len()), weights);
        }
        for (first, out) in out.chunks_mut(LANES).enumerate() {
            let mut acc = load(out);
            let values = v[row * v_dim..][..n * v_dim].chunks_exact(v_dim.max(1));
            for (&weight, value) in scores.iter().zip(values) {
                // SAFETY: this function runs with the instructions.
                let value = unsafe { V::load(&value[first * LANES..][..out.len()]) };
                acc = _mm512_fmadd_ps(_mm512_set1_ps(weight), value, acc);
            }
            store(out, acc);
        }
        position += n;
    }
    if sum != 0.0 {
        let factor = 1.0 / sum;
        out.iter_mut().for_each(|out| *out *= factor);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn dot<K: Element>(q: &[f32], key: &[K]) -> f32 {
    let mut acc = _mm512_setzero_ps();
    for (q, key) in q.chunks(LANES).zip(key.chunks(LANES)) {
        // SAFETY: this function runs with the instructions.
        acc = _mm512_fmadd_ps(load(q), unsafe { K::load(key) }, acc);
    }
    _mm512_reduce_add_ps(acc)
}
