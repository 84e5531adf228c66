//! Products with packed rows of half-precision numbers: a column of sixteen rows fills vector registers, and each lane adds
//! up its row from the first column to the last.
#![forbid(unsafe_code)]

use bytemuck::Pod;

use crate::kernels::simd::{Element, Simd};
use crate::quant::packed::ROWS;

/// Most vector registers that a column fills.
const PARTS: usize = 2;
/// Groups that one vector is multiplied with at a time: sums of one group alone would wait for each other.
const GROUPS: usize = 4;
/// Columns between what a single vector is multiplied with and what is fetched from memory meanwhile.
const AHEAD: usize = 128;

/// The sums of a group's rows.
type Sums<S> = [<S as Simd>::V; PARTS];

/// See [`crate::kernels::PackedNumbers`].
#[inline(always)]
pub fn numbers<S: Simd, E: Element + Pod>(simd: S, groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) {
    if n_cols == 0 {
        return out.fill(0.0);
    }
    let groups = crate::kernels::halves::<E>(groups).expect("groups begin at multiples of 64");
    let columns = groups.as_chunks::<ROWS>().0;
    if x.len() == n_cols {
        return single(simd, columns, x, out);
    }
    let n = x.len() / n_cols;
    let mut first = 0;
    while first < n {
        first += match n - first {
            6.. => several::<S, E, 6>(simd, columns, x, first, out),
            4.. => several::<S, E, 4>(simd, columns, x, first, out),
            3 => several::<S, E, 3>(simd, columns, x, first, out),
            2 => several::<S, E, 2>(simd, columns, x, first, out),
            _ => several::<S, E, 1>(simd, columns, x, first, out),
        };
    }
}

/// One vector times all groups.
#[inline(always)]
fn single<S: Simd, E: Element>(simd: S, mut columns: &[[E; ROWS]], x: &[f32], out: &mut [f32]) {
    let n_cols = x.len();
    for out in out.chunks_mut(GROUPS * ROWS) {
        if columns.len() >= GROUPS * n_cols {
            let (these, rest) = columns.split_at(GROUPS * n_cols);
            let sums = tile::<S, E, 1, GROUPS>(simd, these, [x]);
            store(simd, &sums[0], out);
            columns = rest;
        } else {
            for out in out.chunks_mut(ROWS) {
                let (these, rest) = columns.split_at(n_cols);
                let sums = tile::<S, E, 1, 1>(simd, these, [x]);
                store(simd, &sums[0], out);
                columns = rest;
            }
        }
    }
}

/// Vectors `first..first + T` times one group; returns `T`.
#[inline(always)]
fn several<S: Simd, E: Element, const T: usize>(
    simd: S,
    columns: &[[E; ROWS]],
    x: &[f32],
    first: usize,
    out: &mut [f32],
) -> usize {
    let n_cols = columns.len();
    let mut xs: [&[f32]; T] = [&[]; T];
    for (t, row) in xs.iter_mut().enumerate() {
        *row = &x[(first + t) * n_cols..][..n_cols];
    }
    let sums = tile::<S, E, T, 1>(simd, columns, xs);
    for (sums, out) in sums.iter().zip(out[first * ROWS..].chunks_exact_mut(ROWS)) {
        store(simd, sums, out);
    }
    T
}

/// The sums of `G` groups, which lie one after another, with `T` vectors.
#[inline(always)]
fn tile<S: Simd, E: Element, const T: usize, const G: usize>(
    simd: S,
    columns: &[[E; ROWS]],
    x: [&[f32]; T],
) -> [[Sums<S>; G]; T] {
    let n_cols = columns.len() / G;
    let mut groups: [&[[E; ROWS]]; G] = [&[]; G];
    for (g, group) in groups.iter_mut().enumerate() {
        *group = &columns[g * n_cols..][..n_cols];
    }
    let mut acc = [[[simd.splat(0.0); PARTS]; G]; T];
    for c in 0..n_cols {
        for g in 0..G {
            let column = &groups[g][c];
            if T == 1 && c.is_multiple_of(2) {
                // Behind the last column of a group lies the next one, but what is read next is the first of the next `G`.
                let ahead = if c + AHEAD < n_cols { AHEAD } else { AHEAD + (G - 1) * n_cols };
                simd.prefetch_line(column, ahead * size_of::<[E; ROWS]>());
            }
            let mut w = [simd.splat(0.0); PARTS];
            for v in 0..ROWS / S::LANES {
                w[v] = E::load(simd, &column[v * S::LANES..]);
            }
            for t in 0..T {
                let x = simd.splat(x[t][c]);
                for v in 0..ROWS / S::LANES {
                    acc[t][g][v] = simd.mul_add(x, w[v], acc[t][g][v]);
                }
            }
        }
    }
    acc
}

/// Writes the sums of groups to as many rows as `out` has.
#[inline(always)]
fn store<S: Simd>(simd: S, sums: &[Sums<S>], out: &mut [f32]) {
    for (sums, out) in sums.iter().zip(out.chunks_mut(ROWS)) {
        for (sum, out) in sums.iter().zip(out.chunks_mut(S::LANES)) {
            simd.store_some(*sum, out);
        }
    }
}
