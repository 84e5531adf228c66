//! Products with numbers as whole numbers of 16 bits, with the same bits as [the definition](crate::kernels::scalar::wide).
#![forbid(unsafe_code)]

use bytemuck::Pod;

use super::{Element, Simd};
use crate::kernels::scalar::whole::to_14_bits;
use crate::kernels::wide::{I16Block, power_of_two, unit, unit_bits};
use crate::kernels::{halves, scalar};
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{COLS, Codes, ROWS, STRIP};

/// Vectors in half a block at most.
const MOST: usize = 2;
/// Numbers in half a block.
const HALF: usize = 16;

/// See [`scalar::wide::round`].
#[inline(always)]
pub fn round<S: Simd>(simd: S, x: &[f32], out: &mut [I16Block]) {
    debug_assert_eq!(x.len(), out.len() * I16Block::LEN, "one block per 32 activations");
    for (x, out) in x.as_chunks::<{ I16Block::LEN }>().0.iter().zip(out) {
        let largest = largest(simd, x);
        let inverse = to_14_bits(largest);
        let squares = squares(simd, x, inverse);
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
pub fn pack<S: Simd, E: Element + Pod>(simd: S, rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    /// Bytes of a row in a strip.
    const STRIP_BYTES: usize = 2 * STRIP * COLS;
    let Some(numbers) = halves::<E>(rows.bytes) else {
        return scalar::wide::pack(rows, out, |bytes| bytemuck::pod_read_unaligned::<E>(&bytes).widen());
    };
    let (row_len, n_pieces) = (rows.row_bytes / 2, rows.row_bytes / (2 * COLS));
    let (codes, units) = out.split_at_mut(n_pieces * Codes::Wide.bytes());
    units.fill(0);
    let mut whole = [[0i16; STRIP * COLS]; ROWS];
    for (s, codes) in codes.chunks_mut(STRIP * Codes::Wide.bytes()).enumerate() {
        let row_bytes = codes.len() / ROWS;
        for (r, whole) in whole.iter_mut().enumerate() {
            let start = r * row_len + s * STRIP * COLS;
            let Some(x) = numbers.get(start..start + row_bytes / 2) else { break };
            let (unit, factor) = unit_of_weights(simd, x);
            units[2 * (s * ROWS + r)..][..2].copy_from_slice(&unit_bits(unit));
            match factor {
                0.0 => whole.fill(0),
                _ => multiply(simd, x, factor, whole),
            }
        }
        let n_rows = ROWS.min(rows.bytes.len() / rows.row_bytes.max(1));
        let bytes = &bytemuck::cast_slice(&whole)[..n_rows * STRIP_BYTES];
        transpose(&Rows { bytes, row_bytes: STRIP_BYTES }, 0, codes);
    }
}

/// The unit of a row's numbers in up to eight pieces, and what they are multiplied with to be in it.
#[inline(always)]
fn unit_of_weights<S: Simd, E: Element>(simd: S, x: &[E]) -> (f32, f32) {
    let mut largest_of = [0.0; STRIP];
    for (largest_of, x) in largest_of.iter_mut().zip(x.chunks_exact(COLS)) {
        *largest_of = largest(simd, x);
    }
    let inverse = to_14_bits(largest_of.into_iter().fold(0.0, f32::max));
    let mut most = 0.0f32;
    for (largest, x) in largest_of.into_iter().zip(x.chunks_exact(COLS)) {
        let squares = squares(simd, x, inverse);
        if !squares.is_finite() {
            return (f32::NAN, 0.0);
        }
        most = most.max(unit(largest * inverse, squares));
    }
    if inverse == 0.0 {
        return (0.0, 0.0);
    }
    let unit = power_of_two(most);
    (unit / inverse, inverse / unit)
}

/// The largest magnitude; NaNs have none.
#[inline(always)]
fn largest<S: Simd, E: Element>(simd: S, x: &[E]) -> f32 {
    let mut largest = simd.splat(0.0);
    for x in x.chunks_exact(S::LANES) {
        largest = simd.max(simd.abs(E::load(simd, x)), largest);
    }
    simd.largest(largest)
}

/// The sum of the squares of all numbers times `factor`.
#[inline(always)]
fn squares<S: Simd, E: Element>(simd: S, x: &[E], factor: f32) -> f32 {
    let factor = simd.splat(factor);
    let mut sums = [simd.splat(0.0); MOST];
    for x in x.as_chunks::<HALF>().0 {
        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(S::LANES)) {
            let x = simd.mul(E::load(simd, x), factor);
            *sum = simd.add(*sum, simd.mul(x, x));
        }
    }
    simd.sum(simd.add(sums[0], sums[1]))
}

/// All numbers times `factor`, rounded.
#[inline(always)]
fn multiply<S: Simd, E: Element>(simd: S, x: &[E], factor: f32, out: &mut [i16]) {
    let factor = simd.splat(factor);
    for (x, out) in x.chunks_exact(S::LANES).zip(out.chunks_exact_mut(S::LANES)) {
        simd.store_i16(simd.mul(E::load(simd, x), factor), out);
    }
}
