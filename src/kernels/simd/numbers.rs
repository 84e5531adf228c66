//! Products with packed rows of numbers: a column of sixteen rows fills vector registers, and each lane adds up its row from the
//! first column to the last.
#![forbid(unsafe_code)]

use bytemuck::Pod;

use crate::kernels::simd::{Element, Simd};
use crate::quant::packed::ROWS;

/// Most vector registers that a column fills.
const PARTS: usize = 2;
/// Groups that one vector is multiplied with at a time, twice as many with 16 lanes: additions to one group alone would wait for
/// each other.
const GROUPS: usize = 4;
/// Columns between the current ones of a single vector's product and those that are fetched meanwhile.
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
        return match S::LANES {
            16 => single::<S, E, { 2 * GROUPS }>(simd, columns, x, out),
            _ => single::<S, E, GROUPS>(simd, columns, x, out),
        };
    }
    let n = x.len() / n_cols;
    let (mut columns, mut out) = (columns, out);
    // Levels with 16 lanes have 32 registers: enough for the sums of two groups.
    while S::LANES == 16 && columns.len() >= 2 * n_cols && out.len() >= 2 * n * ROWS {
        let (these, rest) = columns.split_at(2 * n_cols);
        let (low, high) = out.split_at_mut(n * ROWS);
        let (high, others) = high.split_at_mut(n * ROWS);
        let mut outs = [low, high];
        let mut first = 0;
        while first < n {
            first += match n - first {
                8.. => several::<S, E, 8, 2>(simd, these, x, first, &mut outs),
                4.. => several::<S, E, 4, 2>(simd, these, x, first, &mut outs),
                3 => several::<S, E, 3, 2>(simd, these, x, first, &mut outs),
                2 => several::<S, E, 2, 2>(simd, these, x, first, &mut outs),
                _ => several::<S, E, 1, 2>(simd, these, x, first, &mut outs),
            };
        }
        (columns, out) = (rest, others);
    }
    for (these, out) in columns.chunks_exact(n_cols).zip(out.chunks_mut((n * ROWS).max(1))) {
        let mut outs = [out];
        let mut first = 0;
        while first < n {
            first += match n - first {
                8.. if S::LANES == 16 => several::<S, E, 8, 1>(simd, these, x, first, &mut outs),
                6.. => several::<S, E, 6, 1>(simd, these, x, first, &mut outs),
                4.. => several::<S, E, 4, 1>(simd, these, x, first, &mut outs),
                3 => several::<S, E, 3, 1>(simd, these, x, first, &mut outs),
                2 => several::<S, E, 2, 1>(simd, these, x, first, &mut outs),
                _ => several::<S, E, 1, 1>(simd, these, x, first, &mut outs),
            };
        }
    }
}

/// One vector times all groups.
#[inline(always)]
fn single<S: Simd, E: Element, const G: usize>(
    simd: S,
    mut columns: &[[E; ROWS]],
    x: &[f32],
    out: &mut [f32],
) {
    let n_cols = x.len();
    for out in out.chunks_mut(G * ROWS) {
        if columns.len() >= G * n_cols {
            let (these, rest) = columns.split_at(G * n_cols);
            let sums = tile::<S, E, 1, G>(simd, these, [x]);
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

/// Vectors `first..first + T` times some groups; returns `T`.
#[inline(always)]
fn several<S: Simd, E: Element, const T: usize, const G: usize>(
    simd: S,
    columns: &[[E; ROWS]],
    x: &[f32],
    first: usize,
    outs: &mut [&mut [f32]; G],
) -> usize {
    let n_cols = columns.len() / G;
    let mut xs: [&[f32]; T] = [&[]; T];
    for (t, row) in xs.iter_mut().enumerate() {
        *row = &x[(first + t) * n_cols..][..n_cols];
    }
    let sums = tile::<S, E, T, G>(simd, columns, xs);
    for (t, sums) in sums.iter().enumerate() {
        for (sums, out) in sums.iter().zip(&mut *outs) {
            store(simd, &[*sums], &mut out[(first + t) * ROWS..][..ROWS]);
        }
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
                // The next group follows the last column of a group, but the next read is the first column of the next `G`
                // groups.
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
                    acc[t][g][v] = simd.mul_add(w[v], x, acc[t][g][v]);
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
