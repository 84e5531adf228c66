//! Attention of a tile of queries, page by page: scores of all queries, their softmax, then the sums of values. Both products
//! keep a few queries times two vectors in registers. Where there are more queries, a page is widened first.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::f16;

use super::elementwise::exp;
use super::next_blocks::NextBlocks;
use super::parts_of_keys::values_of;
use super::{Element, Simd, load_some, pairs};
use crate::kernels::attention::{FEW_QUERIES, MAX_QUERIES, PAGE_LEN, SCALED, SUM_LANES, Scratch};
use crate::kernels::{AttnState, AttnTile, KvBlock, KvType};

/// Queries whose sums are kept in registers.
pub(super) const BLOCK: usize = FEW_QUERIES;

/// Runs a block for each `$n` queries: `$i` is the first, and `$m`, a constant, how many they are.
macro_rules! by_blocks {
    ($n:expr, $i:ident, $m:ident => $what:expr) => {{
        let n = $n;
        let mut $i = 0;
        while $i < n {
            // The rest, one by one.
            const { assert!(BLOCK == 6) };
            by_blocks!(n - $i, $m, $what, 1 2 3 4 5);
            $i += BLOCK.min(n - $i);
        }
    }};
    ($n:expr, $m:ident, $what:expr, $($fewer:literal)*) => {
        match $n {
            $($fewer => {
                const $m: usize = $fewer;
                $what
            })*
            _ => {
                const $m: usize = BLOCK;
                $what
            }
        }
    };
}
pub(super) use by_blocks;

/// The weights of a page: those of each query, and the factors on the earlier sums.
pub(super) struct Weights<'a> {
    /// `[n_queries, PAGE_LEN]`.
    pub rows: &'a mut [f32],
    pub factors: [f32; MAX_QUERIES],
    /// The units of the weights, where they are integers.
    pub units: [f32; MAX_QUERIES],
}

/// See [`crate::kernels::Kernels::attention`].
#[inline(always)]
pub fn attention<S: Simd>(simd: S, tile: &AttnTile<'_>, positions: Range<usize>, state: &mut AttnState<'_>) {
    state.clear();
    let n = tile.n_queries();
    assert!(n <= MAX_QUERIES, "{n} queries in one tile, at most {MAX_QUERIES} are planned for");
    if positions.is_empty() {
        return;
    }
    let AttnState { out, max, sum, scratch: Scratch { queries, weights, sums, block } } = state;
    let mut weights = Weights { rows: weights, factors: [0.0; MAX_QUERIES], units: [0.0; MAX_QUERIES] };
    sums.fill(0.0);
    match tile.k.kv_type {
        KvType::I16 => pairs::pack_queries(simd, tile, queries),
        KvType::F16 | KvType::F32 | KvType::Q8_0 => pack_queries(tile, queries),
    }
    let last_page = (tile.seen().end - 1) / PAGE_LEN;
    for page in positions.start / PAGE_LEN..positions.end.div_ceil(PAGE_LEN) {
        let first = page * PAGE_LEN;
        // The slots of the page that any query sees.
        let slots = positions.start.max(first) - first..positions.end.min(first + PAGE_LEN) - first;
        let (keys, values) = tile.blocks(page);
        // After the last page there is nothing to fetch.
        let (next_keys, next_values) = tile.blocks(if page < last_page { page + 1 } else { page });
        match tile.k.kv_type.block(keys, tile.dims.k) {
            KvBlock::F32(k) => all_scores::<S, f32>(simd, tile, queries, (k, &[]), values, &mut weights),
            KvBlock::F16(k) if n > FEW_QUERIES => all_scores::<S, f32>(
                simd,
                tile,
                queries,
                (widened(simd, k, block), &[]),
                values,
                &mut weights,
            ),
            KvBlock::F16(k) => all_scores::<S, f16>(simd, tile, queries, (k, &[]), values, &mut weights),
            KvBlock::Q8_0(k, scales) if n > FEW_QUERIES => {
                let keys = (widened(simd, k, block), scales);
                all_scores::<S, f32>(simd, tile, queries, keys, values, &mut weights)
            }
            KvBlock::Q8_0(k, scales) => {
                all_scores::<S, i8>(simd, tile, queries, (k, scales), values, &mut weights)
            }
            KvBlock::I16(k, units) => {
                let blocks = NextBlocks { next: values, then: next_keys };
                pairs::all_scores(simd, tile, queries, (k, units), blocks, &mut weights)
            }
        }
        let all_see_all = tile.all_see(&(first + slots.start..first + slots.end));
        let seen_in_page = |i: usize| match all_see_all {
            true => slots.clone(),
            false => {
                let seen = tile.seen_by(i);
                seen.start.max(positions.start).saturating_sub(first)
                    ..seen.end.min(positions.end).saturating_sub(first)
            }
        };
        weights.factors = [f32::NEG_INFINITY; MAX_QUERIES];
        weights.factors[..n].copy_from_slice(max);
        let rows = weights.rows.as_chunks_mut::<PAGE_LEN>().0;
        for (i, (row, max)) in rows.iter_mut().zip(&mut **max).enumerate() {
            *max = scale_scores(simd, tile, (i, first), seen_in_page(i), row, *max);
        }
        bring_factors(simd, &mut weights.factors, max);
        let (values, block) = match tile.dims.v_at {
            Some(_) => {
                let keys = tile.k.kv_type.block(keys, tile.dims.k);
                (values_of(simd, tile.dims, keys, block), &mut [][..])
            }
            None => (tile.v.kv_type.block(values, tile.dims.v), &mut **block),
        };
        let rows = weights.rows.as_chunks_mut::<PAGE_LEN>().0.iter_mut().zip(&mut weights.units);
        let sums = sums.as_chunks_mut::<SUM_LANES>().0.iter_mut().zip(&weights.factors);
        for (i, (((row, unit), max), (sum, factor))) in rows.zip(&**max).zip(sums).enumerate() {
            let total = match values {
                KvBlock::I16(_, units) => {
                    let (total, with_units) = pairs::weigh(simd, units, seen_in_page(i), row, *max);
                    *unit = with_units;
                    total
                }
                _ => weigh(simd, seen_in_page(i), row, *max),
            };
            simd.store(simd.mul_add(simd.load(sum), simd.splat(*factor), total), sum);
        }
        let page = Page { first, slots: slots.clone(), all_see_all, next_keys };
        match values {
            KvBlock::F32(v) => add_all_values::<S, f32>(simd, tile, (v, &[]), page, &weights, out),
            KvBlock::F16(v) if n > FEW_QUERIES => {
                add_all_values::<S, f32>(simd, tile, (widened(simd, v, block), &[]), page, &weights, out)
            }
            KvBlock::F16(v) => add_all_values::<S, f16>(simd, tile, (v, &[]), page, &weights, out),
            KvBlock::Q8_0(v, scales) if n > FEW_QUERIES => {
                let values = (widened(simd, v, block), scales);
                add_all_values::<S, f32>(simd, tile, values, page, &weights, out)
            }
            KvBlock::Q8_0(v, scales) => add_all_values::<S, i8>(simd, tile, (v, scales), page, &weights, out),
            KvBlock::I16(v, _) => {
                pairs::round_weights(simd, n, &mut weights);
                let blocks = NextBlocks { next: next_keys, then: next_values };
                pairs::add_all_values(simd, tile, v, (slots, blocks), &weights, out);
            }
        }
    }
    for (sum, lanes) in sum.iter_mut().zip(sums.chunks_exact(SUM_LANES)) {
        *sum = simd.sum(simd.load(lanes));
    }
}

/// `x` as numbers, in `block`; of codes the numbers without their scales.
#[inline(always)]
fn widened<'a, S: Simd, E: Element>(simd: S, x: &[E], block: &'a mut [f32]) -> &'a [f32] {
    for (x, out) in x.chunks_exact(S::LANES).zip(block.chunks_exact_mut(S::LANES)) {
        simd.store(E::load(simd, x), out);
    }
    block
}

/// Copies the queries into reading order: those of a block side by side, component by component.
#[inline(always)]
fn pack_queries(tile: &AttnTile<'_>, queries: &mut [f32]) {
    let (n, dim) = (tile.n_queries(), tile.dims.k);
    for first in (0..n).step_by(BLOCK) {
        let m = BLOCK.min(n - first);
        let block = &mut queries[first * dim..(first + m) * dim];
        for i in 0..m {
            block[i..].iter_mut().step_by(m).zip(tile.query(first + i)).for_each(|(to, from)| *to = *from);
        }
    }
}

/// The products of all queries with the keys of a page.
#[inline(always)]
fn all_scores<S: Simd, E: Element>(
    simd: S,
    tile: &AttnTile<'_>,
    queries: &[f32],
    keys: (&[E], &[f16]),
    values: &[u8],
    weights: &mut Weights<'_>,
) {
    let (dim, rows) = (tile.dims.k, &mut *weights.rows);
    by_blocks!(tile.n_queries(), i, M => scores::<S, E, M>(simd, &queries[i * dim..], i, keys, values, rows));
}

/// A page and its values.
struct Page<'a> {
    /// Its first position.
    first: usize,
    /// The slots that any query sees.
    slots: Range<usize>,
    /// Whether every query sees all of these slots.
    all_see_all: bool,
    /// The next page's keys, to fetch.
    next_keys: &'a [u8],
}

/// Adds the weighted values of a page to all queries' sums.
#[inline(always)]
fn add_all_values<S: Simd, E: Element>(
    simd: S,
    tile: &AttnTile<'_>,
    values: (&[E], &[f16]),
    page: Page<'_>,
    weights: &Weights<'_>,
    out: &mut [f32],
) {
    let (n, dim) = (tile.n_queries(), tile.dims.v);
    let Page { first, slots, all_see_all, next_keys } = page;
    // A weight of 0 hides a value unless it is infinite or NaN.
    if all_see_all || all_finite(simd, dim, values, slots.clone()) {
        by_blocks!(n, i, M => {
            add_values::<S, E, M>(simd, dim, values, next_keys, slots.clone(), (i, weights), out)
        });
    } else {
        for i in 0..n {
            let seen = tile.seen_by(i);
            let own = seen.start.saturating_sub(first).max(slots.start)
                ..seen.end.saturating_sub(first).min(slots.end);
            let own = own.start.min(own.end)..own.end;
            add_values::<S, E, 1>(simd, dim, values, next_keys, own, (i, weights), out);
        }
    }
}

/// Whether a page's values in `slots` are finite.
#[inline(always)]
fn all_finite<S: Simd, E: Element>(
    simd: S,
    dim: usize,
    (values, scales): (&[E], &[f16]),
    slots: Range<usize>,
) -> bool {
    let mut finite = !scales.is_empty() || are_finite(simd, &values[slots.start * dim..slots.end * dim]);
    for scales in scales.chunks_exact(PAGE_LEN) {
        finite &= are_finite(simd, &scales[slots.clone()]);
    }
    finite
}

/// `weights[m] = q[m] · k` for queries `i..i + M` and all tokens of a page, whose values are fetched meanwhile. Codes that share
/// a scale are summed first.
#[inline(always)]
fn scores<S: Simd, E: Element, const M: usize>(
    simd: S,
    queries: &[f32],
    i: usize,
    (keys, scales): (&[E], &[f16]),
    values: &[u8],
    weights: &mut [f32],
) {
    let keys = keys.as_chunks::<PAGE_LEN>().0;
    let dim = keys.len();
    let queries = &queries.as_chunks::<M>().0[..dim];
    let mut values = values.chunks_exact((values.len() / dim.max(1)).max(1));
    let has_scales = !scales.is_empty();
    let run = if has_scales { SCALED } else { dim };
    for first in (0..PAGE_LEN).step_by(2 * S::LANES) {
        let mut begin = 0;
        while begin < dim {
            let mut acc = [[simd.splat(0.0); 2]; M];
            for (key, q) in keys[begin..begin + run].iter().zip(&queries[begin..begin + run]) {
                if first == 0
                    && i == 0
                    && let Some(values) = values.next()
                {
                    simd.prefetch(values);
                }
                let k = [E::load(simd, &key[first..]), E::load(simd, &key[first + S::LANES..])];
                for m in 0..M {
                    let x = simd.splat(q[m]);
                    acc[m][0] = simd.mul_add(x, k[0], acc[m][0]);
                    acc[m][1] = simd.mul_add(x, k[1], acc[m][1]);
                }
            }
            for m in 0..M {
                let row = &mut weights[(i + m) * PAGE_LEN + first..][..2 * S::LANES];
                if has_scales {
                    let scales = &scales[begin / SCALED * PAGE_LEN + first..][..2 * S::LANES];
                    for (half, acc) in acc[m].iter_mut().enumerate() {
                        let scale = simd.load_f16(&scales[half * S::LANES..]);
                        *acc = match begin {
                            0 => simd.mul(scale, *acc),
                            _ => simd.mul_add(scale, *acc, simd.load(&row[half * S::LANES..])),
                        };
                    }
                }
                simd.store(acc[m][0], row);
                simd.store(acc[m][1], &mut row[S::LANES..]);
            }
            begin += run;
        }
    }
}

/// `0, 1, 2 …`
const SLOTS: [f32; PAGE_LEN] = {
    let mut slots = [0.0; PAGE_LEN];
    let mut i = 0;
    while i < PAGE_LEN {
        slots[i] = i as f32;
        i += 1;
    }
    slots
};

/// `x` in the lanes of slots in `from..to`, `other` in the others.
#[inline(always)]
pub(super) fn seen_or<S: Simd>(simd: S, slot: usize, (from, to): (S::V, S::V), x: S::V, other: S::V) -> S::V {
    let slots = simd.load(&SLOTS[slot..]);
    simd.select_less(slots, from, other, simd.select_less(slots, to, x, other))
}

/// Makes scores of the products of query `i` with the keys of a page, whose first position is `first`; returns the larger of
/// `max` and the largest score that the query sees.
#[inline(always)]
fn scale_scores<S: Simd>(
    simd: S,
    tile: &AttnTile<'_>,
    (i, first): (usize, usize),
    seen: Range<usize>,
    row: &mut [f32; PAGE_LEN],
    max: f32,
) -> f32 {
    let all = seen.start == 0 && seen.end >= PAGE_LEN;
    let range = (simd.splat(seen.start as f32), simd.splat(seen.end as f32));
    let (scale, lowest) = (simd.splat(tile.scale_of(i)), simd.splat(f32::NEG_INFINITY));
    let mut largest = simd.splat(max);
    for slot in (0..PAGE_LEN).step_by(S::LANES) {
        let row = &mut row[slot..slot + S::LANES];
        let mut score = simd.mul(simd.load(row), scale);
        if let Some(cap) = tile.softcap {
            simd.store(score, row);
            row.iter_mut().for_each(|score| *score = cap * libm::tanhf(*score / cap));
            score = simd.load(row);
        }
        if tile.bias.is_some() {
            simd.store(score, row);
            tile.add_bias(i, first + slot, row);
            score = simd.load(row);
        }
        simd.store(score, row);
        let seen = if all { score } else { seen_or(simd, slot, range, score, lowest) };
        largest = simd.max(seen, largest);
    }
    simd.largest(largest)
}

/// Makes factors on the earlier sums of `factors`, which are the largest scores so far, given the largest scores now.
#[inline(always)]
fn bring_factors<S: Simd>(simd: S, factors: &mut [f32; MAX_QUERIES], max: &[f32]) {
    for (factors, max) in factors.chunks_mut(S::LANES).zip(max.chunks(S::LANES)) {
        let (from, to) = (simd.load(factors), simd.load_some(max, f32::NEG_INFINITY));
        let factor = exp(simd, simd.sub(from, to));
        simd.store(simd.select_less(from, to, factor, simd.splat(1.0)), factors);
    }
}

/// Makes weights of one query's scores, 0 for positions that it does not see; returns their sums lane by lane. It is separate
/// from [`scale_scores`], where the exponentials of one query would wait for its largest score.
#[inline(always)]
fn weigh<S: Simd>(simd: S, seen: Range<usize>, row: &mut [f32; PAGE_LEN], max: f32) -> S::V {
    let all = seen.start == 0 && seen.end >= PAGE_LEN;
    let range = (simd.splat(seen.start as f32), simd.splat(seen.end as f32));
    let mut total = simd.splat(0.0);
    for slot in (0..PAGE_LEN).step_by(S::LANES) {
        let row = &mut row[slot..slot + S::LANES];
        let mut weight = exp(simd, simd.sub(simd.load(row), simd.splat(max)));
        if !all {
            weight = seen_or(simd, slot, range, weight, simd.splat(0.0));
        }
        simd.store(weight, row);
        total = simd.add(total, weight);
    }
    total
}

/// `out[m] = factor[m] * out[m] + Σ weight[m] * v` for queries `i..i + M` over `slots` of a page, while the next page's keys are
/// fetched. A value's scale is multiplied into its weight.
#[inline(always)]
fn add_values<S: Simd, E: Element, const M: usize>(
    simd: S,
    dim: usize,
    (values, scales): (&[E], &[f16]),
    next_keys: &[u8],
    slots: Range<usize>,
    (i, weights): (usize, &Weights<'_>),
    out: &mut [f32],
) {
    let (rows, _) = weights.rows.as_chunks::<PAGE_LEN>().0[i..].as_chunks::<M>();
    let rows = &rows[0];
    let factors = &weights.factors[i..i + M];
    let has_scales = !scales.is_empty();
    let mut scaled = [[0.0; PAGE_LEN]; M];
    let mut next_keys = next_keys.chunks_exact((next_keys.len() / PAGE_LEN).max(1));
    let out = &mut out[i * dim..(i + M) * dim];
    let mut first = 0;
    while first + 2 * S::LANES <= dim {
        if has_scales && first % SCALED == 0 {
            let scales = &scales[first / SCALED * PAGE_LEN..][..PAGE_LEN];
            for slot in (0..PAGE_LEN).step_by(S::LANES) {
                let scale = simd.load_f16(&scales[slot..]);
                for m in 0..M {
                    simd.store(simd.mul(simd.load(&rows[m][slot..]), scale), &mut scaled[m][slot..]);
                }
            }
        }
        let weights = if has_scales { &scaled } else { rows };
        let mut acc = [[simd.splat(0.0); 2]; M];
        for m in 0..M {
            let (row, factor) = (&out[m * dim + first..][..2 * S::LANES], simd.splat(factors[m]));
            acc[m] = [simd.mul(simd.load(row), factor), simd.mul(simd.load(&row[S::LANES..]), factor)];
        }
        for (slot, row) in slots.clone().zip(values[slots.start * dim..slots.end * dim].chunks_exact(dim)) {
            if i == 0
                && first == 0
                && let Some(next) = next_keys.next()
            {
                simd.prefetch(next);
            }
            let row = &row[first..first + 2 * S::LANES];
            let v = [E::load(simd, row), E::load(simd, &row[S::LANES..])];
            for m in 0..M {
                let weight = simd.splat(weights[m][slot % PAGE_LEN]);
                acc[m][0] = simd.mul_add(weight, v[0], acc[m][0]);
                acc[m][1] = simd.mul_add(weight, v[1], acc[m][1]);
            }
        }
        for m in 0..M {
            let row = &mut out[m * dim + first..][..2 * S::LANES];
            simd.store(acc[m][0], row);
            simd.store(acc[m][1], &mut row[S::LANES..]);
        }
        first += 2 * S::LANES;
    }
    // Heads with scales leave no remainder here.
    while first < dim {
        let n = S::LANES.min(dim - first);
        for m in 0..M {
            let out = &mut out[m * dim + first..][..n];
            let mut acc = simd.mul(simd.load_some(out, 0.0), simd.splat(factors[m]));
            for slot in slots.clone() {
                let v = load_some(simd, &values[slot * dim + first..][..n]);
                acc = simd.mul_add(simd.splat(rows[m][slot % PAGE_LEN]), v, acc);
            }
            simd.store_some(acc, out);
        }
        first += n;
    }
}

#[inline(always)]
fn are_finite<S: Simd, E: Element>(simd: S, values: &[E]) -> bool {
    let (zero, mut sum) = (simd.splat(0.0), simd.splat(0.0));
    let chunks = values.chunks_exact(S::LANES);
    let rest_is = chunks.remainder().iter().all(|x| x.widen().is_finite());
    for chunk in chunks {
        sum = simd.mul_add(E::load(simd, chunk), zero, sum);
    }
    rest_is && simd.sum(sum) == 0.0
}
