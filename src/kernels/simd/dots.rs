//! Products of f32 rows with several vectors, and the widening of half-precision rows.
#![forbid(unsafe_code)]

use half::{bf16, f16};

use super::{Element, Simd};

/// Bytes between the current weights of a single vector's product and those that are fetched meanwhile.
const AHEAD: usize = 4096;

/// See [`crate::kernels::Kernels::dot_f32`].
#[inline(always)]
pub fn dot_f32<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len(), "the vectors differ in length");
    let n = a.len().min(b.len());
    tile::<S, f32, 1, 1>(simd, [&a[..n]], [&b[..n]])[0][0]
}

/// See [`crate::kernels::Kernels::dots_f32`].
#[inline(always)]
pub fn dots<S: Simd, E: Element>(simd: S, rows: &[E], x: &[f32], n_cols: usize, out: &mut [f32]) {
    if rows.is_empty() || x.is_empty() || n_cols == 0 {
        return out.fill(0.0);
    }
    let n = x.len() / n_cols;
    let mut first = 0;
    while first < n {
        first += match n - first {
            1 => vectors::<S, E, 1, 4>(simd, rows, x, n_cols, first, out),
            2 => vectors::<S, E, 2, 4>(simd, rows, x, n_cols, first, out),
            3 => vectors::<S, E, 3, 2>(simd, rows, x, n_cols, first, out),
            // Levels with 16 lanes have 32 registers.
            _ if S::LANES == 16 => vectors::<S, E, 4, 4>(simd, rows, x, n_cols, first, out),
            _ => vectors::<S, E, 4, 2>(simd, rows, x, n_cols, first, out),
        };
    }
}

/// All rows, `R` at a time, times vectors `first..first + T`; returns `T`.
#[inline(always)]
fn vectors<S: Simd, E: Element, const T: usize, const R: usize>(
    simd: S,
    rows: &[E],
    x: &[f32],
    n_cols: usize,
    first: usize,
    out: &mut [f32],
) -> usize {
    let n_rows = rows.len() / n_cols;
    let mut xs: [&[f32]; T] = [&[]; T];
    for (t, row) in xs.iter_mut().enumerate() {
        *row = &x[(first + t) * n_cols..][..n_cols];
    }
    let mut r = 0;
    while r + R <= n_rows {
        let mut some: [&[E]; R] = [&[]; R];
        for (i, row) in some.iter_mut().enumerate() {
            *row = &rows[(r + i) * n_cols..][..n_cols];
        }
        let sums = tile::<S, E, R, T>(simd, some, xs);
        for t in 0..T {
            for (i, sums) in sums.iter().enumerate() {
                out[(first + t) * n_rows + r + i] = sums[t];
            }
        }
        r += R;
    }
    while r < n_rows {
        let sums = tile::<S, E, 1, T>(simd, [&rows[r * n_cols..][..n_cols]], xs);
        for t in 0..T {
            out[(first + t) * n_rows + r] = sums[0][t];
        }
        r += 1;
    }
    T
}

/// The products of `R` rows with `T` vectors, all of one length. Element `i` goes to lane `i % LANES` of a sum, whatever
/// `R` and `T` are.
#[inline(always)]
fn tile<S: Simd, E: Element, const R: usize, const T: usize>(
    simd: S,
    rows: [&[E]; R],
    x: [&[f32]; T],
) -> [[f32; T]; R] {
    let n = rows[0].len();
    let mut acc = [[simd.splat(0.0); T]; R];
    let mut at = 0;
    while n - at >= S::LANES {
        let mut w = [simd.splat(0.0); R];
        for (w, row) in w.iter_mut().zip(rows) {
            let row = &row[at..n];
            if T == 1 && (at * size_of::<E>()).is_multiple_of(64) {
                simd.prefetch_line(row, AHEAD);
            }
            *w = E::load(simd, row);
        }
        for (t, x) in x.iter().enumerate() {
            let x = simd.load(&x[at..n]);
            for (acc, w) in acc.iter_mut().zip(w) {
                acc[t] = simd.mul_add(w, x, acc[t]);
            }
        }
        at += S::LANES;
    }
    if at < n {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let w = super::load_some(simd, &row[at..n]);
            for (acc, x) in acc.iter_mut().zip(x) {
                *acc = simd.mul_add(w, simd.load_some(&x[at..n], 0.0), *acc);
            }
        }
    }
    let mut sums = [[0.0; T]; R];
    for (acc, sums) in acc.as_flattened().chunks(8).zip(sums.as_flattened_mut().chunks_mut(8)) {
        match acc.try_into() {
            Ok(acc) => sums.copy_from_slice(&simd.sums(acc)),
            Err(_) => acc.iter().zip(sums).for_each(|(acc, sum)| *sum = simd.sum(*acc)),
        }
    }
    sums
}

/// See [`crate::kernels::Kernels::narrow_f16`].
#[inline(always)]
pub fn narrow_f16<S: Simd>(simd: S, x: &[f32], out: &mut [f16]) {
    debug_assert_eq!(x.len(), out.len(), "the vectors differ in length");
    for (x, out) in x.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
        let n = x.len().min(out.len());
        let mut halves = [f16::ZERO; super::MAX_LANES];
        simd.store_f16(simd.load_some(x, 0.0), &mut halves);
        out[..n].copy_from_slice(&halves[..n]);
    }
}

/// Widens a row of half-precision numbers of either kind.
macro_rules! expand {
    ($name:ident, $half:ident, $load:ident) => {
        #[doc = concat!("Widens a row of ", stringify!($half), " numbers.")]
        #[inline(always)]
        pub fn $name<S: Simd>(simd: S, row: &[u8], out: &mut [f32]) {
            debug_assert_eq!(row.len(), 2 * out.len(), "row bytes and number of values do not agree");
            let mut done = 0;
            // Rows of a file may lie at odd addresses.
            if let Some(row) = crate::kernels::halves::<$half>(row) {
                for (row, out) in row.chunks_exact(S::LANES).zip(out.chunks_exact_mut(S::LANES)) {
                    simd.store(simd.$load(row), out);
                }
                done = row.len().min(out.len()) / S::LANES * S::LANES;
            }
            for (out, &bytes) in out.iter_mut().zip(row.as_chunks::<2>().0).skip(done) {
                *out = $half::from_le_bytes(bytes).to_f32();
            }
        }
    };
}

expand!(expand_f16, f16, load_f16);
expand!(expand_bf16, bf16, load_bf16);
