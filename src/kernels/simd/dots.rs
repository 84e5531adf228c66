//! Products of f32 rows with several vectors, and the widening of half-precision rows.
#![forbid(unsafe_code)]

use half::{bf16, f16};

use super::Simd;

/// See [`crate::kernels::Kernels::dot_f32`].
#[inline(always)]
pub fn dot_f32<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len(), "the vectors differ in length");
    let n = a.len().min(b.len());
    tile::<S, 1, 1>(simd, [&a[..n]], [&b[..n]])[0][0]
}

/// See [`crate::kernels::Kernels::dots_f32`].
#[inline(always)]
pub fn dots_f32<S: Simd>(simd: S, rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]) {
    if rows.is_empty() || x.is_empty() || n_cols == 0 {
        return out.fill(0.0);
    }
    let n = x.len() / n_cols;
    let mut first = 0;
    while first < n {
        first += match n - first {
            1 => vectors::<S, 1, 8>(simd, rows, x, n_cols, first, out),
            2 => vectors::<S, 2, 4>(simd, rows, x, n_cols, first, out),
            _ => vectors::<S, 3, 4>(simd, rows, x, n_cols, first, out),
        };
    }
}

/// All rows, `R` at a time, times vectors `first..first + T`; returns `T`.
#[inline(always)]
fn vectors<S: Simd, const T: usize, const R: usize>(
    simd: S,
    rows: &[f32],
    x: &[f32],
    n_cols: usize,
    first: usize,
    out: &mut [f32],
) -> usize {
    let n_rows = rows.len() / n_cols;
    let x: [&[f32]; T] = std::array::from_fn(|t| &x[(first + t) * n_cols..][..n_cols]);
    let mut r = 0;
    while r < n_rows {
        let many = r + R <= n_rows;
        if many {
            let rows: [&[f32]; R] = std::array::from_fn(|i| &rows[(r + i) * n_cols..][..n_cols]);
            let sums = tile::<S, R, T>(simd, rows, x);
            for (i, t) in (0..R).flat_map(|i| (0..T).map(move |t| (i, t))) {
                out[(first + t) * n_rows + r + i] = sums[i][t];
            }
            r += R;
        } else {
            let sums = tile::<S, 1, T>(simd, [&rows[r * n_cols..][..n_cols]], x);
            for t in 0..T {
                out[(first + t) * n_rows + r] = sums[0][t];
            }
            r += 1;
        }
    }
    T
}

/// The products of `R` rows with `T` vectors, all of one length. Element `i` goes to lane `i % LANES` of a sum, whatever
/// `R` and `T` are.
#[inline(always)]
fn tile<S: Simd, const R: usize, const T: usize>(
    simd: S,
    rows: [&[f32]; R],
    x: [&[f32]; T],
) -> [[f32; T]; R] {
    let n = rows[0].len();
    let mut acc = [[simd.splat(0.0); T]; R];
    let whole = n - n % S::LANES;
    let mut at = 0;
    while at < whole {
        let mut loaded = [simd.splat(0.0); T];
        for (loaded, x) in loaded.iter_mut().zip(x) {
            *loaded = simd.load(&x[at..at + S::LANES]);
        }
        for (acc, row) in acc.iter_mut().zip(rows) {
            let w = simd.load(&row[at..at + S::LANES]);
            for (acc, x) in acc.iter_mut().zip(loaded) {
                *acc = simd.mul_add(w, x, *acc);
            }
        }
        at += S::LANES;
    }
    if whole < n {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let w = simd.load_some(&row[whole..n], 0.0);
            for (acc, x) in acc.iter_mut().zip(x) {
                *acc = simd.mul_add(w, simd.load_some(&x[whole..n], 0.0), *acc);
            }
        }
    }
    let mut sums = [[0.0; T]; R];
    for (sums, acc) in sums.iter_mut().zip(acc) {
        for (sum, acc) in sums.iter_mut().zip(acc) {
            *sum = simd.sum(acc);
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

/// Widens a row of half-precision numbers of either kind; rows of a file may lie at odd addresses.
macro_rules! expand {
    ($name:ident, $half:ident, $load:ident) => {
        #[doc = concat!("Widens a row of ", stringify!($half), " numbers.")]
        #[inline(always)]
        pub fn $name<S: Simd>(simd: S, row: &[u8], out: &mut [f32]) {
            debug_assert_eq!(row.len(), 2 * out.len(), "row bytes and number of values do not agree");
            let row = row.as_chunks::<2>().0;
            for (row, out) in row.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
                let mut halves = [$half::ZERO; super::MAX_LANES];
                for (half, &bytes) in halves.iter_mut().zip(row) {
                    *half = $half::from_le_bytes(bytes);
                }
                let n = row.len().min(out.len());
                simd.store_some(simd.$load(&halves), &mut out[..n]);
            }
        }
    };
}

expand!(expand_f16, f16, load_f16);
expand!(expand_bf16, bf16, load_bf16);
