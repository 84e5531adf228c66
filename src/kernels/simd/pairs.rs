//! Attention with keys and values as integers ([`KvBlock::I16`](crate::kernels::KvBlock::I16)), whose pairs one instruction
//! multiplies and adds. Queries, and the weights of a page's values, are rounded as keys and values are. Sums are exact: they fit
//! 32 bits by [`crate::kernels::scalar::int16`], those of values because weights are small (see [`ALL`]).
#![forbid(unsafe_code)]

use std::ops::Range;

use super::Simd;
use super::attention::{BLOCK, Weights, by_blocks, seen_or};
use super::elementwise::exp;
use super::int16::{narrow_i16, unit_of_query};
use super::next_blocks::NextBlocks;
use crate::kernels::AttnTile;
use crate::kernels::attention::{HALF, I16_PIECE, MAX_QUERIES, PAGE_LEN};

/// The sum of a page's weights, times their values' units, as integers, except for rounding: none exceeds 16 bits, and their sum,
/// times 2^15, is less than 2^31.
const ALL: f32 = 32_000.0;
/// Weights with a smaller sum are rounded more coarsely.
const LEAST: f32 = 1e-33;

/// A block of queries in the layout of [`pack_queries`]: pairs of components, `[dim / 2][m]`, then the units, `[m]`.
#[inline(always)]
fn unpack(queries: &[f32], dim: usize, m: usize) -> (&[[i16; 2]], &[f32]) {
    let (pairs, rest) = queries.split_at(dim / 2 * m);
    (bytemuck::cast_slice(pairs), &rest[..m])
}

/// Rounds the queries and copies them into reading order.
#[inline(always)]
pub fn pack_queries<S: Simd>(simd: S, tile: &AttnTile<'_>, queries: &mut [f32]) {
    let (n, dim) = (tile.n_queries(), tile.dims.k);
    for first in (0..n).step_by(BLOCK) {
        let m = BLOCK.min(n - first);
        let (pairs, rest) = queries[first * dim..(first + m) * dim].split_at_mut(dim / 2 * m);
        let pairs: &mut [[i16; 2]] = bytemuck::cast_slice_mut(pairs);
        for (i, to) in rest[..m].iter_mut().enumerate() {
            let query = tile.query(first + i);
            let unit = unit_of_query(simd, query);
            *to = unit;
            let mut pairs = pairs[i..].iter_mut().step_by(m);
            for query in query.as_chunks::<I16_PIECE>().0 {
                let mut codes = [0; I16_PIECE];
                narrow_i16(simd, query, unit, &mut codes);
                pairs.by_ref().zip(codes.as_chunks::<2>().0).for_each(|(to, pair)| *to = *pair);
            }
        }
    }
}

/// Multiplies all queries with the keys of a page, and fetches `blocks`.
#[inline(always)]
pub fn all_scores<S: Simd>(
    simd: S,
    tile: &AttnTile<'_>,
    queries: &[f32],
    keys: (&[i16], &[f32]),
    blocks: NextBlocks<'_>,
    weights: &mut Weights<'_>,
) {
    let (dim, rows) = (tile.dims.k, &mut *weights.rows);
    by_blocks!(tile.n_queries(), i, M => scores::<S, M>(simd, &queries[i * dim..], i, keys, blocks, rows));
}

/// `weights[m] = q[m] · k` for queries `i..i + M` and all tokens of a page.
#[inline(always)]
fn scores<S: Simd, const M: usize>(
    simd: S,
    queries: &[f32],
    i: usize,
    (keys, units): (&[i16], &[f32]),
    blocks: NextBlocks<'_>,
    weights: &mut [f32],
) {
    let keys = keys.as_chunks::<{ 2 * PAGE_LEN }>().0;
    let (queries, query_units) = unpack(queries, 2 * keys.len(), M);
    let queries = &queries.as_chunks::<M>().0[..keys.len()];
    if i == 0 {
        blocks.fetch_units(simd);
    }
    let mut steps = 0;
    for first in (0..PAGE_LEN).step_by(2 * S::LANES) {
        let mut acc = [[simd.zeros(); 2]; M];
        for (key, q) in keys.iter().zip(queries) {
            if i == 0 {
                blocks.fetch_step(simd, steps);
                steps += 1;
            }
            let key = &key[2 * first..][..4 * S::LANES];
            let k = [simd.load_pairs(key), simd.load_pairs(&key[2 * S::LANES..])];
            for m in 0..M {
                let x = simd.splat_pair(q[m]);
                acc[m][0] = simd.add_products(acc[m][0], k[0], x);
                acc[m][1] = simd.add_products(acc[m][1], k[1], x);
            }
        }
        for m in 0..M {
            let row = &mut weights[(i + m) * PAGE_LEN + first..][..2 * S::LANES];
            for (half, acc) in acc[m].into_iter().enumerate() {
                let slots = half * S::LANES..(half + 1) * S::LANES;
                let unit = simd.mul(simd.load(&units[first..][slots.clone()]), simd.splat(query_units[m]));
                simd.store(simd.mul(simd.numbers(acc), unit), &mut row[slots]);
            }
        }
    }
}

/// Makes weights times the values' units of one query's scores, 0 for positions that it does not see. Returns the sums of the
/// weights lane by lane, and the sum of the weights times the units, NaN if a value that is seen has a NaN unit.
#[inline(always)]
pub fn weigh<S: Simd>(
    simd: S,
    units: &[f32],
    seen: Range<usize>,
    row: &mut [f32; PAGE_LEN],
    max: f32,
) -> (S::V, f32) {
    let all = seen.start == 0 && seen.end >= PAGE_LEN;
    let range = (simd.splat(seen.start as f32), simd.splat(seen.end as f32));
    let (max, zero) = (simd.splat(max), simd.splat(0.0));
    let (mut total, mut sum) = (zero, zero);
    for slot in (0..PAGE_LEN).step_by(S::LANES) {
        let mut weight = exp(simd, simd.sub(simd.load(&row[slot..]), max));
        let mut product = simd.mul(weight, simd.load(&units[slot..]));
        if !all {
            weight = seen_or(simd, slot, range, weight, zero);
            product = seen_or(simd, slot, range, product, zero);
        }
        simd.store(product, &mut row[slot..]);
        total = simd.add(total, weight);
        sum = simd.add(sum, product);
    }
    (total, simd.sum(sum))
}

/// Rounds the weights that [`weigh`] gave for `n` queries, in pairs as values are, into the first halves of the rows; their sums
/// become the units of the rounded ones. It is a separate step, where the weights of one query would wait for their sum.
#[inline(always)]
pub fn round_weights<S: Simd>(simd: S, n: usize, weights: &mut Weights<'_>) {
    let mut factors = [0.0; MAX_QUERIES];
    for (sums, factors) in weights
        .units
        .chunks_exact_mut(S::LANES)
        .zip(factors.chunks_exact_mut(S::LANES))
        .take(n.div_ceil(S::LANES))
    {
        let sum = simd.load(sums);
        let all = simd.max(sum, simd.splat(LEAST));
        simd.store(simd.div(simd.splat(ALL), all), factors);
        // NaN stays NaN.
        let none = simd.mul(sum, simd.splat(0.0));
        simd.store(simd.mul_add(all, simd.splat(1.0 / ALL), none), sums);
    }
    let rows = weights.rows.as_chunks_mut::<PAGE_LEN>().0;
    for (row, factor) in rows.iter_mut().zip(&factors).take(n) {
        let factor = simd.splat(*factor);
        for slot in (0..HALF).step_by(S::LANES) {
            let [low, high] = [simd.load(&row[slot..]), simd.load(&row[slot + HALF..])];
            let codes = bytemuck::cast_slice_mut(&mut row[slot..slot + S::LANES]);
            simd.store_pairs(simd.pairs(simd.mul(low, factor), simd.mul(high, factor)), codes);
        }
    }
}

/// Adds the weighted values of a page to all queries' sums, and fetches `blocks`. `slots` are those that any query sees.
#[inline(always)]
pub fn add_all_values<S: Simd>(
    simd: S,
    tile: &AttnTile<'_>,
    values: &[i16],
    (slots, blocks): (Range<usize>, NextBlocks<'_>),
    weights: &Weights<'_>,
    out: &mut [f32],
) {
    let dim = tile.dims.v;
    // The pairs with both tokens, or with one.
    let Range { start, end } = slots;
    let pairs = match (start < HALF, end > HALF) {
        (true, true) => 0..HALF,
        (true, false) => start..end,
        (false, _) => start - HALF..end - HALF,
    };
    by_blocks!(tile.n_queries(), i, M => {
        let out = &mut out[i * dim..(i + M) * dim];
        add_values::<S, M>(simd, dim, values, blocks, pairs.clone(), (i, weights), out)
    });
}

/// `out[m] = factor[m] * out[m] + Σ weight[m] * v` for queries `i..i + M` over some pairs of tokens of a page, while `blocks` are
/// fetched.
#[inline(always)]
fn add_values<S: Simd, const M: usize>(
    simd: S,
    dim: usize,
    values: &[i16],
    blocks: NextBlocks<'_>,
    pairs: Range<usize>,
    (i, weights): (usize, &Weights<'_>),
    out: &mut [f32],
) {
    if i == 0 {
        blocks.fetch_units(simd);
    }
    let mut first = 0;
    while first + 2 * S::LANES <= dim {
        add_columns::<S, M, 2>(
            simd,
            (dim, first),
            values,
            Some(blocks).filter(|_| i == 0),
            pairs.clone(),
            (i, weights),
            out,
        );
        first += 2 * S::LANES;
    }
    if first < dim {
        add_columns::<S, M, 1>(simd, (dim, first), values, None, pairs, (i, weights), out);
    }
}

/// As [`add_values`] for `W` vectors of components from `first` on.
#[inline(always)]
fn add_columns<S: Simd, const M: usize, const W: usize>(
    simd: S,
    (dim, first): (usize, usize),
    values: &[i16],
    blocks: Option<NextBlocks<'_>>,
    pairs: Range<usize>,
    (i, weights): (usize, &Weights<'_>),
    out: &mut [f32],
) {
    // A row's second half is not used.
    let rows = bytemuck::cast_slice::<f32, [i16; 2]>(weights.rows).as_chunks::<PAGE_LEN>().0;
    let (rows, _) = rows[i..].as_chunks::<M>();
    let rows = &rows[0];
    let mut acc = [[simd.zeros(); W]; M];
    for (pair, row) in pairs.clone().zip(values[pairs.start * 2 * dim..].chunks_exact(2 * dim)) {
        if let Some(blocks) = blocks {
            blocks.fetch_step(simd, first / (2 * S::LANES) * HALF + pair % HALF);
        }
        let row = &row[2 * first..][..2 * W * S::LANES];
        let mut v = [simd.zeros(); W];
        for (v, row) in v.iter_mut().zip(row.chunks_exact(2 * S::LANES)) {
            *v = simd.load_pairs(row);
        }
        for m in 0..M {
            let weight = simd.splat_pair(rows[m][pair % HALF]);
            for w in 0..W {
                acc[m][w] = simd.add_products(acc[m][w], v[w], weight);
            }
        }
    }
    for m in 0..M {
        let (factor, unit) = (simd.splat(weights.factors[i + m]), simd.splat(weights.units[i + m]));
        let out = &mut out[m * dim + first..][..W * S::LANES];
        for (acc, out) in acc[m].into_iter().zip(out.chunks_exact_mut(S::LANES)) {
            simd.store(simd.mul_add(simd.numbers(acc), unit, simd.mul(simd.load(out), factor)), out);
        }
    }
}
