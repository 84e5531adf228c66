//! Heads' vectors as 16-bit integers times a power of two ([`KvType::I16`](crate::kernels::KvType::I16)).
//!
//! The sum of the squares of a vector's integers is less than 2^31. So, by the inequality of Cauchy and Schwarz, the product of
//! two such vectors fits 32 bits, and so does that of any part of them.
#![forbid(unsafe_code)]

use crate::kernels::attention::I16_PIECE as LANES;

/// 2^31.
pub const END: f32 = (1u32 << 31) as f32;
/// Bounds of the sum of squares before rounding, and after it. Vectors that were rounded stay below both, so that they are not
/// rounded again.
pub const BEFORE: f32 = END * 0.9999;
/// See [`BEFORE`].
pub const AFTER: f32 = END * 0.9998;
/// Vectors whose largest number is below this become zeros: 2^-100.
const LEAST: f32 = f32::from_bits((127 - 100) << 23);

/// See [`Kernels::unit_i16`](crate::kernels::Kernels::unit_i16).
pub(super) fn unit_i16(x: &[f32]) -> f32 {
    debug_assert!(x.len().is_multiple_of(LANES), "{} numbers", x.len());
    let largest = x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest });
    let inverse = to_14_bits(largest);
    let unit = unit(largest * inverse, squares(x, |x| x * inverse), inverse, BEFORE);
    let again = unit > 0.0 && squares(x, |x| (x / unit).round_ties_even()) > AFTER;
    if again { 2.0 * unit } else { unit }
}

/// A power of two that brings the largest number of a vector between 2^13 and 2^14, or 0 for vectors that become zeros.
#[inline(always)]
pub fn to_14_bits(largest: f32) -> f32 {
    let power = f32::from_bits(largest.to_bits() & f32::INFINITY.to_bits());
    if power >= LEAST { 8192.0 / power } else { 0.0 }
}

/// The smallest unit with which the sum of squares is at most `most`, of a vector times `inverse` (see [`to_14_bits`]) whose
/// largest number and sum of squares are given.
#[inline(always)]
pub fn unit(largest: f32, squares: f32, inverse: f32, most: f32) -> f32 {
    if !squares.is_finite() {
        return f32::NAN;
    }
    if inverse == 0.0 {
        return 0.0;
    }
    // Where squares can grow 4^n times, numbers can grow 2^n times.
    let n = (exponent(most / squares) >> 1).min(if largest > 16_383.5 { 0 } else { 1 });
    1.0 / (inverse * f32::from_bits(((127 + n) as u32) << 23))
}

/// The integer part of the logarithm to base 2.
#[inline(always)]
fn exponent(x: f32) -> i32 {
    (x.to_bits() >> 23).cast_signed() - 127
}

/// The sum of the squares of `f` of each, in [`LANES`] lanes, which are then added: the upper half to the lower half until one is
/// left.
pub(super) fn squares(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for x in x.as_chunks::<LANES>().0 {
        for (lane, &x) in lanes.iter_mut().zip(x) {
            *lane += f(x) * f(x);
        }
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// See [`Kernels::narrow_i16`](crate::kernels::Kernels::narrow_i16).
pub(super) fn narrow_i16(x: &[f32], unit: f32, out: &mut [i16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = if unit > 0.0 { (x / unit).round_ties_even() as i16 } else { 0 };
    }
}
