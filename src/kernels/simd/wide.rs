//! Products with numbers as 16-bit integers, with the same bits as [the definition](crate::kernels::scalar::wide).
#![forbid(unsafe_code)]

use bytemuck::Pod;

use super::{Element, Simd};
use crate::kernels::scalar::int16::to_14_bits;
use crate::kernels::wide::{I16Block, power_of_two, unit, unit_bits};
use crate::kernels::{halves, scalar};
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{COLS, Codes, ROWS, STRIP};

/// Vectors in half a block at most: levels that have these products have eight lanes or more.
const MOST: usize = 2;
/// Numbers in half a block.
const HALF: usize = 16;

/// The operations of packing beyond [`Simd`].
pub trait LargestSum: Simd {
    /// The largest of the sums of eight vectors, each as [`Simd::sum`] adds up; NaN if one of them is NaN or infinite.
    fn largest_sum(self, vs: [Self::V; STRIP]) -> f32;
}

/// See [`scalar::wide::round`].
#[inline(always)]
pub fn round<S: Simd>(simd: S, x: &[f32], out: &mut [I16Block]) {
    debug_assert_eq!(x.len(), out.len() * I16Block::LEN, "one block per 32 activations");
    for (x, out) in x.as_chunks::<{ I16Block::LEN }>().0.iter().zip(out) {
        let largest = largest(simd, x);
        let inverse = to_14_bits(largest);
        let squares = simd.sum(squares(simd, x, inverse));
        if !squares.is_finite() {
            *out = I16Block::NAN;
        } else if inverse > 0.0 {
            let unit = unit(largest * inverse, squares);
            out.d = unit / inverse;
            multiply::<S, f32>(simd, x, inverse * (1.0 / unit), &mut out.qs);
        } else {
            *out = I16Block::ZERO;
        }
    }
}

/// See [`scalar::wide::pack`]; `read` reads what [`Element::load`] loads.
#[inline(always)]
pub fn pack<S: LargestSum, E: Element + Pod>(simd: S, rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    /// Bytes of a row in a strip.
    const STRIP_BYTES: usize = 2 * STRIP * COLS;
    let Some(numbers) = halves::<E>(rows.bytes) else {
        return scalar::wide::pack(rows, out, |bytes| bytemuck::pod_read_unaligned::<E>(&bytes).widen());
    };
    let (row_len, n_pieces) = (rows.row_bytes / 2, rows.row_bytes / (2 * COLS));
    let n_rows = ROWS.min(rows.bytes.len() / rows.row_bytes.max(1));
    let (codes, units) = out.split_at_mut(n_pieces * Codes::Wide.bytes());
    units.fill(0);
    let mut whole = [[0i16; STRIP * COLS]; ROWS];
    for (s, codes) in codes.chunks_mut(STRIP * Codes::Wide.bytes()).enumerate() {
        let (start, len) = (s * STRIP * COLS, codes.len() / (2 * ROWS));
        let strip = |r: usize| &numbers[r * row_len + start..][..len];
        // All rows take one step before the next: the steps of one row wait for each other.
        let mut largests = [0.0; ROWS];
        for (r, all) in largests.iter_mut().enumerate().take(n_rows) {
            *all = largest(simd, strip(r));
        }
        let inverses = largests.map(to_14_bits);
        let mut sums = [0.0; ROWS];
        for (r, sum) in sums.iter_mut().enumerate().take(n_rows) {
            *sum = largest_squares(simd, strip(r), inverses[r]);
        }
        let (mut strip_units, mut factors) = ([0.0; ROWS], [0.0; ROWS]);
        for r in 0..ROWS {
            (strip_units[r], factors[r]) = unit_of_weights(largests[r], inverses[r], sums[r]);
        }
        for (unit, out) in strip_units.into_iter().zip(units[2 * s * ROWS..].as_chunks_mut::<2>().0) {
            *out = unit_bits(unit);
        }
        for (r, whole) in whole.iter_mut().enumerate().take(n_rows) {
            match factors[r] {
                0.0 => whole.fill(0),
                factor => multiply(simd, strip(r), factor, whole),
            }
        }
        let bytes = &bytemuck::cast_slice(&whole)[..n_rows * STRIP_BYTES];
        transpose(&Rows { bytes, row_bytes: STRIP_BYTES }, 0, codes);
    }
}

/// The unit of a row's numbers in up to eight pieces, and the factor that brings them into it: from their largest magnitude and,
/// times `inverse`, the largest sum of a piece's squares.
#[inline(always)]
fn unit_of_weights(largest: f32, inverse: f32, squares: f32) -> (f32, f32) {
    if squares.is_nan() {
        return (f32::NAN, 0.0);
    }
    if inverse == 0.0 {
        return (0.0, 0.0);
    }
    // The largest number and the largest sum give the largest unit of any piece: no step of `unit` reverses an order.
    let unit = power_of_two(unit(largest * inverse, squares));
    (unit / inverse, inverse / unit)
}

/// The largest sum of the squares of a piece's numbers times `factor`, of up to eight pieces; NaN if one is not finite.
#[inline(always)]
fn largest_squares<S: LargestSum, E: Element>(simd: S, x: &[E], factor: f32) -> f32 {
    let mut sums = [simd.splat(0.0); STRIP];
    for (sums, x) in sums.iter_mut().zip(x.chunks_exact(COLS)) {
        *sums = squares(simd, x, factor);
    }
    simd.largest_sum(sums)
}

/// The largest magnitude; NaNs have none.
#[inline(always)]
fn largest<S: Simd, E: Element>(simd: S, x: &[E]) -> f32 {
    let mut all = [simd.splat(0.0); 2 * MOST];
    for x in x.as_chunks::<COLS>().0 {
        for (largest, x) in all.iter_mut().zip(x.chunks_exact(S::LANES)) {
            *largest = simd.max(simd.abs(E::load(simd, x)), *largest);
        }
    }
    let [a, b, c, d] = all;
    simd.largest(simd.max(simd.max(a, b), simd.max(c, d)))
}

/// The squares of all numbers times `factor`, added up in lanes.
#[inline(always)]
fn squares<S: Simd, E: Element>(simd: S, x: &[E], factor: f32) -> S::V {
    let factor = simd.splat(factor);
    let mut sums = [simd.splat(0.0); MOST];
    for x in x.as_chunks::<HALF>().0 {
        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(S::LANES)) {
            let x = simd.mul(E::load(simd, x), factor);
            *sum = simd.add(*sum, simd.mul(x, x));
        }
    }
    simd.add(sums[0], sums[1])
}

/// All numbers times `factor`, rounded.
#[inline(always)]
fn multiply<S: Simd, E: Element>(simd: S, x: &[E], factor: f32, out: &mut [i16]) {
    let factor = simd.splat(factor);
    for (x, out) in x.chunks_exact(S::LANES).zip(out.chunks_exact_mut(S::LANES)) {
        simd.store_i16(simd.mul(E::load(simd, x), factor), out);
    }
}
