//! Attention over caches of binary16, of bytes with scales and of integers, for four query heads to a head of keys and values.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

use std::hint::black_box;

use ember::kernels::attention::{KvLayout, PAGE_LEN};
use ember::kernels::{AttnState, AttnTile, HeadDims, Kernels, KvStore, KvType};
use half::f16;

use crate::peaks::shortest;

/// Query heads to a head of keys and values.
const GROUP: usize = 4;
/// Heads of keys and values.
const KV_HEADS: usize = 8;
/// Positions that no cache holds with all heads, and that the innermost caches hold with one.
const FAR: usize = 65_536;
/// See [`FAR`].
const NEAR: usize = 512;
/// Tokens of a prompt that run in one batch.
const TOKENS: usize = 16;

/// What keys and values are stored as.
const TYPES: [KvType; 3] = [KvType::F16, KvType::Q8_0, KvType::I16];

/// Prints a line for each length of a head: what one token reads from memory, how many positions of one head it passes there
/// and in caches, and what the tokens of a prompt multiply over `2 * NEAR` positions.
pub fn measure(kernels: &'static Kernels, threads: usize) {
    println!("{:>16} {:>10} {:>10} {:>10} {:>10}", "attention", "GB/s", "Mtokens/s", "of cache", "GMAC/s");
    for (head_dim, kv_type) in [64, 128, 256].into_iter().flat_map(|dim| TYPES.map(|kv_type| (dim, kv_type)))
    {
        let far = FAR * 64 / head_dim;
        // Each thread has pages of its own.
        let part = KV_HEADS * kv_type.block_bytes(head_dim);
        let layout = KvLayout::new(far / PAGE_LEN, 2 * part, kv_type.block_bytes(head_dim));
        // As codes these are 0 and 56, as scales a half.
        let data = vec![f16::from_f32(0.5); layout.total_bytes().unwrap_or(0) / 2];
        let bytes = bytemuck::cast_slice(&data);
        let store = |offset| KvStore { bytes, kv_type, layout, offset };
        let q: Vec<f32> = (0..TOKENS * GROUP * head_dim).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
        let seconds = |n_tokens: usize, n_positions: usize, kv_heads: usize, n_times: usize| {
            shortest(threads, 5, |thread| {
                let n_pages = n_positions / PAGE_LEN;
                let pages: Vec<u32> = (thread * n_pages..(thread + 1) * n_pages).map(|p| p as u32).collect();
                for kv_head in (0..kv_heads).cycle().take(kv_heads * n_times) {
                    let tile = AttnTile {
                        q: &q,
                        stride: GROUP * head_dim,
                        group: GROUP,
                        n_tokens,
                        dims: HeadDims::all(head_dim),
                        k: store(0),
                        v: store(part),
                        pages: &pages,
                        kv_head,
                        position: n_positions - n_tokens,
                        causal: true,
                        from: 0,
                        end: n_positions,
                        window: None,
                        scale: 0.125,
                        growth: None,
                        chunked: false,
                        bias: None,
                        head: 0,
                        softcap: None,
                    };
                    attend(kernels, &tile);
                }
            })
        };
        let bytes =
            |positions: usize| (2 * kv_type.block_bytes(head_dim) / PAGE_LEN * positions * threads) as f64;
        let far = far / threads / PAGE_LEN * PAGE_LEN;
        let macs = (2 * head_dim * GROUP * TOKENS * 2 * NEAR * 100 * threads) as f64;
        let from_memory = seconds(1, far, KV_HEADS, 1);
        println!(
            "{:>16} {:10.1} {:10.1} {:10.1} {:10.1}",
            format!("{kv_type:?}, {head_dim}"),
            bytes(far * KV_HEADS) / from_memory / 1e9,
            (far * KV_HEADS * threads) as f64 / from_memory / 1e6,
            (NEAR * 500 * threads) as f64 / seconds(1, NEAR, 1, 500) / 1e6,
            macs / seconds(TOKENS, 2 * NEAR, 1, 100) / 1e9
        );
    }
}

/// All positions that the queries of `tile` see, chunk by chunk as the backend does.
fn attend(kernels: &Kernels, tile: &AttnTile<'_>) {
    let (n, dims) = (tile.n_queries(), tile.dims);
    let mut buffers = [(); 2].map(|()| vec![0.0; AttnState::len(n, dims)]);
    let [state, part] = &mut buffers;
    let (mut state, mut part) = (AttnState::of(state, n, dims), AttnState::of(part, n, dims));
    state.clear();
    for chunk in tile.chunks() {
        (kernels.attention)(tile, tile.positions(chunk), &mut part);
        state.merge(&part);
    }
    black_box(state.out);
}
