//! Heads' vectors as integers, with the same bits as [the definition](crate::kernels::scalar::int16).
#![forbid(unsafe_code)]

use super::Simd;
use crate::kernels::attention::I16_PIECE;
use crate::kernels::scalar::int16::{AFTER, BEFORE, END, to_14_bits, unit};

/// The bound of the sum of squares before rounding where it is not checked afterwards. Rounding adds less than a thousandth, for
/// up to [`I16_MOST`](crate::kernels::attention::I16_MOST) components.
const WELL_BEFORE: f32 = END * 0.999;
/// Vectors in a piece at most.
const MOST: usize = 2;

/// See [`crate::kernels::Kernels::unit_i16`].
#[inline(always)]
pub fn unit_i16<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let unit = unit_up_to(simd, x, BEFORE);
    if unit == 0.0 || unit.is_nan() {
        return unit;
    }
    let inverse = simd.splat(1.0 / unit);
    let squares = squares(simd, x, |x| simd.round(simd.mul(x, inverse)));
    if squares > AFTER { 2.0 * unit } else { unit }
}

/// A unit for one query for which the product with a vector in its [`unit_i16`] fits 32 bits.
#[inline(always)]
pub fn unit_of_query<S: Simd>(simd: S, x: &[f32]) -> f32 {
    unit_up_to(simd, x, WELL_BEFORE)
}

#[inline(always)]
fn unit_up_to<S: Simd>(simd: S, x: &[f32], most: f32) -> f32 {
    let mut largest = simd.splat(0.0);
    for x in x.chunks_exact(S::LANES) {
        largest = simd.max(simd.abs(simd.load(x)), largest);
    }
    let largest = simd.largest(largest);
    let inverse = to_14_bits(largest);
    let factor = simd.splat(inverse);
    unit(largest * inverse, squares(simd, x, |x| simd.mul(x, factor)), inverse, most)
}

#[inline(always)]
fn squares<S: Simd>(simd: S, x: &[f32], f: impl Fn(S::V) -> S::V) -> f32 {
    let mut sums = [simd.splat(0.0); MOST];
    for x in x.as_chunks::<I16_PIECE>().0 {
        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(S::LANES)) {
            let x = f(simd.load(x));
            *sum = simd.add(*sum, simd.mul(x, x));
        }
    }
    simd.sum(simd.add(sums[0], sums[1]))
}

/// See [`crate::kernels::Kernels::narrow_i16`].
#[inline(always)]
pub fn narrow_i16<S: Simd>(simd: S, x: &[f32], unit: f32, out: &mut [i16]) {
    if unit == 0.0 || unit.is_nan() {
        return out.fill(0);
    }
    let inverse = simd.splat(1.0 / unit);
    for (x, out) in x.chunks_exact(S::LANES).zip(out.chunks_exact_mut(S::LANES)) {
        simd.store_i16(simd.mul(simd.load(x), inverse), out);
    }
}
