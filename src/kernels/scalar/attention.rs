//! Attention in one pass over the keys, with a running maximum and sum instead of a row of all scores (Milakov and
//! Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135).
#![forbid(unsafe_code)]

use std::ops::Range;

use super::dot::{axpy, axpy_f16};
use crate::kernels::attention::{HALF, PAGE_LEN, SCALED, factor};
use crate::kernels::{AttnState, AttnTile, KvBlock};

/// Query by query, page by page.
pub(super) fn attention(tile: &AttnTile<'_>, positions: Range<usize>, state: &mut AttnState<'_>) {
    state.clear();
    for i in 0..tile.n_queries() {
        let seen = tile.seen_by(i);
        let (mut position, end) = (seen.start.max(positions.start), seen.end.min(positions.end));
        while position < end {
            let n = (PAGE_LEN - position % PAGE_LEN).min(end - position);
            add_page(tile, i, position, n, state);
            position += n;
        }
    }
}

/// Adds `n` positions of one page, from `position` on, to the state of query `i`.
fn add_page(tile: &AttnTile<'_>, i: usize, position: usize, n: usize, state: &mut AttnState<'_>) {
    let dim = tile.dims.v;
    let (keys, values) = tile.blocks(position / PAGE_LEN);
    let keys = tile.k.kv_type.block(keys, tile.dims.k);
    let values = tile.dims.v_at.is_none().then(|| tile.v.kv_type.block(values, dim));
    let slot = position % PAGE_LEN;
    let mut buffer = [0.0; PAGE_LEN];
    let scores = &mut buffer[..n];
    for (d, &q) in tile.query(i).iter().enumerate() {
        let at = d * PAGE_LEN + slot;
        match keys {
            KvBlock::F32(k) => axpy(scores, q, &k[at..at + n]),
            KvBlock::F16(k) => axpy_f16(scores, q, &k[at..at + n]),
            KvBlock::Q8_0(k, scales) => {
                let scales = &scales[d / SCALED * PAGE_LEN + slot..];
                for ((score, &code), scale) in scores.iter_mut().zip(&k[at..at + n]).zip(scales) {
                    *score += q * (f32::from(code) * scale.to_f32());
                }
            }
            KvBlock::I16(k, units) => {
                let pairs = k[d / 2 * 2 * PAGE_LEN..].as_chunks::<2>().0;
                for ((score, pair), unit) in scores.iter_mut().zip(&pairs[slot..]).zip(&units[slot..]) {
                    *score += q * (f32::from(pair[d % 2]) * unit);
                }
            }
        }
    }
    let scale = tile.scale_of(i);
    for score in &mut *scores {
        *score *= scale;
        if let Some(cap) = tile.softcap {
            *score = cap * libm::tanhf(*score / cap);
        }
    }
    tile.add_bias(i, position, scores);
    let max = scores.iter().fold(state.max[i], |max, &score| max.max(score));
    let out = &mut state.out[i * dim..(i + 1) * dim];
    let factor = factor(state.max[i], max);
    state.max[i] = max;
    state.sum[i] *= factor;
    out.iter_mut().for_each(|out| *out *= factor);
    for (t, &score) in scores.iter().enumerate() {
        let weight = libm::expf(score - max);
        state.sum[i] += weight;
        let at = (slot + t) * dim;
        let Some(values) = values else {
            add_part_of_key(keys, tile.dims.v_at.unwrap_or(0), slot + t, weight, out);
            continue;
        };
        match values {
            KvBlock::F32(v) => axpy(out, weight, &v[at..at + dim]),
            KvBlock::F16(v) => axpy_f16(out, weight, &v[at..at + dim]),
            KvBlock::Q8_0(v, scales) => {
                for (d, (out, &code)) in out.iter_mut().zip(&v[at..at + dim]).enumerate() {
                    let scale = scales[d / SCALED * PAGE_LEN + slot + t].to_f32();
                    *out += weight * (f32::from(code) * scale);
                }
            }
            KvBlock::I16(v, units) => {
                let (token, pairs) = (slot + t, v.as_chunks::<2>().0);
                for (out, pair) in out.iter_mut().zip(&pairs[token % HALF * dim..]) {
                    *out += weight * (f32::from(pair[token / HALF]) * units[token]);
                }
            }
        }
    }
}

/// `out += weight * k[at..]` for the key of `token`.
fn add_part_of_key(keys: KvBlock<'_>, at: usize, token: usize, weight: f32, out: &mut [f32]) {
    for (d, out) in (at..).zip(out) {
        let i = d * PAGE_LEN + token;
        *out += weight
            * match keys {
                KvBlock::F32(k) => k[i],
                KvBlock::F16(k) => k[i].to_f32(),
                KvBlock::Q8_0(k, scales) => f32::from(k[i]) * scales[d / SCALED * PAGE_LEN + token].to_f32(),
                KvBlock::I16(k, units) => f32::from(k[(d / 2 * PAGE_LEN + token) * 2 + d % 2]) * units[token],
            };
    }
}
