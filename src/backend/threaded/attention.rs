//! How attention is spread over threads. The tile in which a task computes an element does not change its bits.

use std::ops::Range;

use super::super::cpu::queries;
use super::super::host::{HostPass, Zeroed};
use super::super::{Attention, HeadDims, KvHeads, Limits};
use super::activations::Rounded;
use super::shares::rows_of;
use super::{Activations, ThreadedBackend};
use crate::error::Result;
use crate::kernels::attention::{CHUNK_LEN, FEW_QUERIES, MAX_QUERIES, PAGE_LEN};
use crate::kernels::{AttnState, AttnTile, Kernels};
use crate::memory::Memory;
use crate::quant::Q8Block;
use crate::threads::{DisjointMut, ThreadPool};

/// Approximate queries of a tile, which share one read of a page of keys. A multiple of the six that kernels keep in registers.
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
        let row = AttnState::len(1, HeadDims::widest(limits.head_dim))
            .saturating_mul(limits.n_head)
            .saturating_add(blocks);
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
    AttnState::len(MAX_QUERIES, HeadDims::widest(head_dim)).saturating_mul(2)
}

/// See [`crate::backend::Backend::attention`]. Where a task has whole rows, it rounds them too.
pub(super) fn run(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    scratch: &mut Scratch,
    pass: &HostPass,
    args: &Attention<'_, ThreadedBackend>,
    rounded: &mut Rounded,
    out: &mut Activations,
) {
    let KvHeads { n: n_head_kv, dims } = args.kv.layer(args.layer).heads;
    let group = args.n_head / n_head_kv;
    // Heads of a tile; they read the same keys.
    let heads = (1..=group.min(MAX_QUERIES)).rfind(|heads| group.is_multiple_of(*heads)).unwrap_or(1);
    let n_rows: usize = pass.runs.iter().map(|run| run.len).sum();
    let n_head_tiles = args.n_head / heads;
    if split(kernels, pool, scratch, pass, args, (heads, n_rows), out) {
        return;
    }
    let row_len = args.n_head * dims.v;
    let n_wanted = TASKS_PER_THREAD * pool.n_threads();
    let most = (QUERIES / heads).max(1);
    // Whole rows where tiles become no smaller by that, or where rows have no keys in common.
    let whole = n_rows >= n_wanted && (n_rows / n_wanted >= most || pass.runs.len() == n_rows);
    let even = if whole { n_rows } else { n_rows * n_head_tiles } / n_wanted;
    let rows_per_tile = even.clamp(1, most);
    // Tiles of heads in a task, and tasks for the same rows.
    let (n_tiles, n_parts) = if whole { (n_head_tiles, 1) } else { (1, n_head_tiles) };
    let n_tasks = n_rows.div_ceil(rows_per_tile) * n_parts;
    // Rows without common keys are mostly for the threads that stored their keys (see `super::kv`). Of other rows the later ones
    // see more, and the longest tasks go first.
    let apart = pass.runs.len() == n_rows;
    let n_threads = pool.n_threads();
    let rounds = whole && rounded.takes(n_rows * row_len, row_len);
    rounded.forget();
    let blocks = DisjointMut::new(&mut rounded.blocks);
    let all = DisjointMut::new(&mut *out);
    let tile_len = tile_len(dims.longest());
    let tiles = DisjointMut::new(&mut scratch.tiles);
    pool.run(n_tasks, &|thread, task| {
        let task = match apart {
            true => rows_of(task % n_threads, n_tasks, n_threads).start + task / n_threads,
            false => n_tasks - 1 - task,
        };
        let first = task / n_parts * rows_per_tile;
        let rows = first..n_rows.min(first + rows_per_tile);
        // SAFETY: thread numbers are distinct, and so are their tiles.
        let buffer = unsafe { tiles.slice(thread * tile_len..(thread + 1) * tile_len) };
        for head in (0..n_tiles).map(|tile| (task % n_parts + tile) * heads) {
            if pass.stop.says_so() {
                return;
            }
            tile_of(kernels, pass, args, (rows.clone(), head, heads), buffer, &all);
        }
        if rounds {
            let values = rows.start * row_len..rows.end * row_len;
            let these = values.start / Q8Block::LEN..values.end / Q8Block::LEN;
            // SAFETY: each row belongs to one task, which is done with writing it.
            let values = unsafe { all.slice(values) };
            // SAFETY: of a row the blocks belong to the same task.
            let blocks = unsafe { blocks.slice(these) };
            (kernels.quantize_activations)(values, blocks);
        }
    });
    if rounds {
        rounded.become_those_of(out, n_rows * row_len);
    }
}

/// Attention of some rows and heads, which belong to the calling task, into their places of `out`.
fn tile_of(
    kernels: &Kernels,
    pass: &HostPass,
    args: &Attention<'_, ThreadedBackend>,
    (rows, head, heads): (Range<usize>, usize, usize),
    buffer: &mut [f32],
    out: &DisjointMut<'_, f32>,
) {
    let dim = args.kv.layer(args.layer).heads.dims.v;
    let pages = &pass.groups[args.group].pages;
    let runs = &pass.runs[pass.runs.partition_point(|run| run.first + run.len <= rows.start)..];
    for run in runs.iter().take_while(|run| run.first < rows.end) {
        let (first, end) = (rows.start.max(run.first), rows.end.min(run.first + run.len));
        let tile = queries(args, pages, run, (first, end - first), (head, heads));
        let state = attend(kernels, &tile, buffer);
        for i in 0..tile.n_queries() {
            let at = ((first + i / heads) * args.n_head + head + i % heads) * dim;
            // SAFETY: each row and head belongs to one task.
            state.finish(i, args.sink(head + i % heads), unsafe { out.slice(at..at + dim) });
        }
    }
}

/// The whole attention of a tile, chunk by chunk. `buffer` has [`tile_len`] elements.
fn attend<'a>(kernels: &Kernels, tile: &AttnTile<'_>, buffer: &'a mut [f32]) -> AttnState<'a> {
    let (n, dims) = (tile.n_queries(), tile.dims);
    let (state, part) = buffer.split_at_mut(AttnState::len(MAX_QUERIES, dims));
    let (mut state, mut part) = (AttnState::of(state, n, dims), AttnState::of(part, n, dims));
    state.clear();
    for chunk in tile.chunks() {
        (kernels.attention)(tile, tile.positions(chunk), &mut part);
        state.merge(&part);
    }
    state
}

/// Few rows with long sequences: the chunks are tasks of their own. Returns whether it paid off.
fn split(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    scratch: &mut Scratch,
    pass: &HostPass,
    args: &Attention<'_, ThreadedBackend>,
    (heads, n_rows): (usize, usize),
    out: &mut [f32],
) -> bool {
    let n_head_tiles = args.n_head / heads;
    let dims = args.kv.layer(args.layer).heads.dims;
    let enough = TASKS_PER_THREAD * pool.n_threads();
    if pool.n_threads() == 1 || n_rows > MAX_SPLIT_ROWS || n_rows * n_head_tiles >= enough {
        return false;
    }
    let row_tile = |row: usize, head_tile: usize| {
        let run = &pass.runs[pass.runs.partition_point(|run| run.first + run.len <= row)];
        queries(args, &pass.groups[args.group].pages, run, (row, 1), (head_tile * heads, heads))
    };
    let n_chunks = (0..n_rows).map(|row| row_tile(row, 0).chunks().len()).max().unwrap_or(0);
    let state_len = AttnState::len(heads, dims);
    let n_tasks = n_rows * n_head_tiles * n_chunks;
    if n_chunks < 2 || n_tasks * state_len > scratch.chunks.len() {
        return false;
    }
    let states = &mut scratch.chunks[..n_tasks * state_len];
    pool.for_parts(states, state_len, |task, state| {
        if pass.stop.says_so() {
            return;
        }
        let tile = row_tile(task / n_chunks / n_head_tiles, task / n_chunks % n_head_tiles);
        let chunks = tile.chunks();
        let mut state = AttnState::of(state, heads, dims);
        match chunks.start + task % n_chunks {
            chunk if chunk < chunks.end => (kernels.attention)(&tile, tile.positions(chunk), &mut state),
            _ => state.clear(),
        }
    });
    let mut merged = AttnState::of(&mut scratch.tiles, heads, dims);
    for (i, states) in states.chunks_exact_mut(n_chunks * state_len).enumerate() {
        merged.clear();
        for state in states.chunks_exact_mut(state_len) {
            merged.merge(&AttnState::of(state, heads, dims));
        }
        let (row, head) = (i / n_head_tiles, i % n_head_tiles * heads);
        for j in 0..heads {
            let at = (row * args.n_head + head + j) * dims.v;
            merged.finish(j, args.sink(head + j), &mut out[at..at + dims.v]);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::backend::tests::{Host, buffer, noise, weight};
    use crate::backend::threaded::F32Products;
    use crate::backend::{KvAppend, KvRows, KvShape, PageTables, Pass, Product, Run, Sees, WeightRole};
    use crate::kernels::{Isa, KvType};
    use crate::quant::Format;
    use crate::threads::ThreadPool;

    #[test]
    fn a_row_of_the_longest_sequence_can_be_cut_into_chunks() {
        for (n_head, heads, head_dim) in [(9, 3, 64), (14, 7, 64), (32, 8, 128), (48, 48, 80), (64, 64, 256)]
        {
            let limits = Limits { n_ctx: 32_768, n_head, head_dim, ..Limits::default() };
            let scratch = Scratch::new(2, &limits, &Memory::default()).expect("memory");
            let states =
                AttnState::len(heads, HeadDims::all(head_dim)) * (n_head / heads) * (32_768 / CHUNK_LEN);
            assert!(scratch.chunks.len() >= states, "{n_head} heads, {heads} to a tile");
        }
    }

    /// Attention of `runs` rows of `len` each, sequences of their own, and the product of that with a matrix; and the product
    /// with a copy, which nobody has rounded.
    fn attended<B: Host>(b: &mut B, (runs, len): (usize, usize)) -> [Vec<f32>; 3] {
        let (n, pages) = (runs * len, len.div_ceil(PAGE_LEN));
        let limits =
            Limits { n_tokens: n, n_cols: 128, head_dim: 32, n_head: 4, n_ctx: 256, ..Limits::default() };
        b.reserve(&limits).expect("memory");
        let (k_type, v_type) = (KvType::F16, KvType::F16);
        let heads = KvHeads { n: 2, dims: HeadDims::all(32) };
        let shape = KvShape { layers: vec![heads], n_pages: runs * pages, k_type, v_type };
        let mut kv = b.alloc_kv(&shape).expect("memory");
        let slots: Vec<_> = (0..n).map(|i| (i / len * pages * PAGE_LEN + i % len) as u32).collect();
        let [k, v] = [1, 2].map(|seed| buffer(b, &noise(n * 64, seed)));
        let runs: Vec<_> = (0..runs)
            .map(|i| Run { first: i * len, len, position: 0, encoded: 0, pages: i * pages })
            .collect();
        let pages: Vec<_> = (0..shape.n_pages as u32).collect();
        let groups = &[PageTables { slots, pages }];
        b.begin(&Pass { runs: &runs, groups, ..Pass::default() }).expect("a pass");
        let rows = KvRows::New { group: 0, k: &k, v: &v };
        b.kv_append(KvAppend { kv: &mut kv, layer: 0, rows });
        let q = &buffer(b, &noise(n * 128, 3));
        let w = weight(b, Format::Q8_0, 40, 128, 4, WeightRole::Matrix);
        let [mut out, mut product, mut of_copy] =
            [128, 40, 40].map(|n_cols| b.alloc(n * n_cols).expect("memory"));
        // A backend may round what it makes once it knows that products want it.
        b.matmul(q, 1, Product { weight: &w, out: &mut product });
        let (window, softcap, causal, scale) = (None, None, true, 0.25);
        let kv = &kv;
        let args = Attention {
            kv,
            group: 0,
            layer: 0,
            q,
            n_head: 4,
            scale,
            sees: Sees::All,
            causal,
            window,
            chunked: false,
            growth: None,
            softcap,
            bias: None,
            sinks: None,
        };
        b.attention(&args, &mut out);
        b.matmul(&out, n, Product { weight: &w, out: &mut product });
        let copy = buffer(b, &out);
        b.matmul(&copy, n, Product { weight: &w, out: &mut of_copy });
        [out.to_vec(), product.to_vec(), of_copy.to_vec()]
    }

    #[test]
    fn what_is_rounded_with_attention_is_what_is_rounded_later() {
        // Many sequences with a row each, a long one, and rows that are shared by heads.
        for case in [(40, 1), (1, if cfg!(miri) { 70 } else { 250 }), (3, 5)] {
            let [want, ..] = attended(&mut CpuBackend::new(Memory::default()), case);
            for isa in Isa::supported() {
                let mut first = None;
                for n_threads in [1, 2, 7] {
                    let pool = ThreadPool::new(n_threads, None).expect("threads");
                    let (kernels, memory) = (Kernels::select(Some(isa)), Memory::default());
                    let mut b =
                        ThreadedBackend::new(kernels, pool, F32Products::Dots, memory).expect("memory");
                    let [out, product, of_copy] = attended(&mut b, case);
                    let what = format!("{case:?}, {isa:?}, {n_threads} threads");
                    let far = out.iter().zip(&want).find(|(a, b)| (*a - *b).abs() > 1e-3);
                    assert!(far.is_none() && out.len() == want.len(), "{what}: {far:?}");
                    assert!(product == of_copy && product.iter().any(|&y| y != 0.0), "{what}");
                    assert!(*first.get_or_insert_with(|| out.clone()) == out, "{what}");
                }
            }
        }
    }
}
