//! How attention is spread over threads. What a task computes has the same bits in whatever tile it is computed.

use super::super::cpu::queries;
use super::super::host::Zeroed;
use super::super::{Attention, Limits};
use super::ThreadedBackend;
use crate::error::Result;
use crate::kernels::attention::{CHUNK_LEN, FEW_QUERIES, MAX_QUERIES, PAGE_LEN};
use crate::kernels::{AttnState, AttnTile, Kernels};
use crate::memory::Memory;
use crate::threads::{DisjointMut, ThreadPool};

/// Queries of a tile, about: a page of keys is read once for all of them. A multiple of the six that kernels keep in
/// registers.
const QUERIES: usize = 60;
/// Tasks that each thread gets at least, where there is so much to do.
const TASKS_PER_THREAD: usize = 4;
/// Most rows whose sequences are cut into chunks for several threads.
const MAX_SPLIT_ROWS: usize = 4;

/// Memory for states.
pub(super) struct Scratch {
    /// Two states of a tile for each thread.
    tiles: Zeroed<f32>,
    /// States of one row, `[chunks, n_head]`.
    chunks: Zeroed<f32>,
}

impl Scratch {
    pub fn new(n_threads: usize, limits: &Limits, memory: &Memory) -> Result<Scratch> {
        let n_chunks = limits.n_ctx.div_ceil(CHUNK_LEN);
        // Each tile of more than a few heads has a block of its own.
        let blocks = limits.head_dim.saturating_mul(PAGE_LEN * (limits.n_head / (FEW_QUERIES + 1)));
        let row = AttnState::len(1, limits.head_dim).saturating_mul(limits.n_head).saturating_add(blocks);
        Ok(Scratch {
            tiles: memory
                .zeroed(tile_len(limits.head_dim).saturating_mul(n_threads), "the sums of attention")?,
            chunks: memory.zeroed(
                if n_threads > 1 { n_chunks.saturating_mul(row) } else { 0 },
                "the sums of attention",
            )?,
        })
    }
}

/// Scratch of a thread.
fn tile_len(head_dim: usize) -> usize {
    AttnState::len(MAX_QUERIES, head_dim).saturating_mul(2)
}

/// See [`crate::backend::Backend::attention`].
pub(super) fn run(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    scratch: &mut Scratch,
    args: &Attention<'_, ThreadedBackend>,
    out: &mut [f32],
) {
    let group = args.n_head / args.kv.shape.n_head_kv;
    // Heads of a tile; they read the same keys.
    let heads = (1..=group.min(MAX_QUERIES)).rfind(|heads| group.is_multiple_of(*heads)).unwrap_or(1);
    let n_rows: usize = args.runs.iter().map(|run| run.len).sum();
    let n_head_tiles = args.n_head / heads;
    if split(kernels, pool, scratch, args, (heads, n_rows), out) {
        return;
    }
    let even = n_rows * n_head_tiles / (TASKS_PER_THREAD * pool.n_threads());
    let rows_per_tile = even.clamp(1, (QUERIES / heads).max(1));
    let n_tasks = n_rows.div_ceil(rows_per_tile) * n_head_tiles;
    let dim = args.kv.shape.head_dim;
    let out = DisjointMut::new(out);
    let tiles = DisjointMut::new(&mut scratch.tiles);
    pool.run(n_tasks, &|thread, task| {
        // Later rows see more; the longest tasks go first.
        let task = n_tasks - 1 - task;
        let (first, head) = (task / n_head_tiles * rows_per_tile, task % n_head_tiles * heads);
        let end = n_rows.min(first + rows_per_tile);
        // SAFETY: thread numbers are distinct, and so are their tiles.
        let buffer = unsafe { tiles.slice(thread * tile_len(dim)..(thread + 1) * tile_len(dim)) };
        let runs = &args.runs[args.runs.partition_point(|run| run.first + run.len <= first)..];
        for run in runs.iter().take_while(|run| run.first < end) {
            let (first, end) = (first.max(run.first), end.min(run.first + run.len));
            let tile = queries(args, run, (first, end - first), (head, heads));
            let state = attend(kernels, &tile, buffer);
            for i in 0..tile.n_queries() {
                let at = ((first + i / heads) * args.n_head + head + i % heads) * dim;
                // SAFETY: each row and head belongs to one task.
                state.finish(i, unsafe { out.slice(at..at + dim) });
            }
        }
    });
}

/// The whole attention of a tile, chunk by chunk. `buffer` has [`tile_len`] elements.
fn attend<'a>(kernels: &Kernels, tile: &AttnTile<'_>, buffer: &'a mut [f32]) -> AttnState<'a> {
    let (n, dim) = (tile.n_queries(), tile.head_dim);
    let (state, part) = buffer.split_at_mut(AttnState::len(MAX_QUERIES, dim));
    let (mut state, mut part) = (AttnState::of(state, n, dim), AttnState::of(part, n, dim));
    state.clear();
    for chunk in tile.chunks() {
        (kernels.attention)(tile, tile.positions(chunk), &mut part);
        state.merge(&part, dim);
    }
    state
}

/// Few rows with long sequences: the chunks are tasks of their own. Returns whether it was worth it.
fn split(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    scratch: &mut Scratch,
    args: &Attention<'_, ThreadedBackend>,
    (heads, n_rows): (usize, usize),
    out: &mut [f32],
) -> bool {
    let n_head_tiles = args.n_head / heads;
    let dim = args.kv.shape.head_dim;
    let enough = TASKS_PER_THREAD * pool.n_threads();
    if pool.n_threads() == 1 || n_rows > MAX_SPLIT_ROWS || n_rows * n_head_tiles >= enough {
        return false;
    }
    let row_tile = |row: usize, head_tile: usize| {
        let run = &args.runs[args.runs.partition_point(|run| run.first + run.len <= row)];
        queries(args, run, (row, 1), (head_tile * heads, heads))
    };
    let n_chunks = (0..n_rows).map(|row| row_tile(row, 0).chunks().len()).max().unwrap_or(0);
    let state_len = AttnState::len(heads, dim);
    let n_tasks = n_rows * n_head_tiles * n_chunks;
    if n_chunks < 2 || n_tasks * state_len > scratch.chunks.len() {
        return false;
    }
    let states = &mut scratch.chunks[..n_tasks * state_len];
    pool.for_parts(states, state_len, |task, state| {
        let tile = row_tile(task / n_chunks / n_head_tiles, task / n_chunks % n_head_tiles);
        let chunks = tile.chunks();
        let mut state = AttnState::of(state, heads, dim);
        match chunks.start + task % n_chunks {
            chunk if chunk < chunks.end => (kernels.attention)(&tile, tile.positions(chunk), &mut state),
            _ => state.clear(),
        }
    });
    let mut merged = AttnState::of(&mut scratch.tiles, heads, dim);
    for (i, states) in states.chunks_exact_mut(n_chunks * state_len).enumerate() {
        merged.clear();
        for state in states.chunks_exact_mut(state_len) {
            merged.merge(&AttnState::of(state, heads, dim), dim);
        }
        let (row, head) = (i / n_head_tiles, i % n_head_tiles * heads);
        for j in 0..heads {
            let at = (row * args.n_head + head + j) * dim;
            merged.finish(j, &mut out[at..at + dim]);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_longest_sequence_can_be_cut_into_chunks() {
        for (n_head, heads, head_dim) in [(9, 3, 64), (14, 7, 64), (32, 8, 128), (48, 48, 80), (64, 64, 256)]
        {
            let limits = Limits { n_ctx: 32_768, n_head, head_dim, ..Limits::default() };
            let scratch = Scratch::new(2, &limits, &Memory::default()).expect("memory");
            let states = AttnState::len(heads, head_dim) * (n_head / heads) * (32_768 / CHUNK_LEN);
            assert!(scratch.chunks.len() >= states, "{n_head} heads, {heads} to a tile");
        }
    }
}
