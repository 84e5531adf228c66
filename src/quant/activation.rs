//! Activations as blocks of 32 int8 values with an `f32` scale, made once per vector and multiplied with many rows.
#![forbid(unsafe_code)]

/// 32 activations: value `i` is about `d * qs[i]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Q8Block {
    /// The scale: the largest magnitude of the block divided by 127.
    pub d: f32,
    /// `d * Σ qs`: what a format with a constant offset per block multiplies that offset with.
    pub sum: f32,
    /// The values in units of `d`, in -127..=127.
    pub qs: [i8; Q8Block::LEN],
}

const _: () = assert!(size_of::<Q8Block>() == 40);

impl Q8Block {
    /// Values per block.
    pub const LEN: usize = 32;
    /// A block of zeros.
    pub const ZERO: Q8Block = Q8Block { d: 0.0, sum: 0.0, qs: [0; Q8Block::LEN] };
}

/// Quantizes `x` into `out`, which has one block per 32 values of `x`.
///
/// Rounds half away from zero. A block of zeros (or of values so small that the scale's reciprocal overflows) becomes
/// zeros. A NaN becomes 0, and an infinity makes its block's scale infinite and all its values 0, so a dot product
/// with that block is NaN: bad numbers stay visible and nothing panics. The lengths are checked in debug builds;
/// otherwise the longer slice is cut to the shorter.
pub fn quantize_activations(x: &[f32], out: &mut [Q8Block]) {
    debug_assert_eq!(x.len(), out.len() * Q8Block::LEN, "one block per 32 activations");
    for (x, block) in x.as_chunks::<{ Q8Block::LEN }>().0.iter().zip(out) {
        *block = quantize_block(x);
    }
}

fn quantize_block(x: &[f32; Q8Block::LEN]) -> Q8Block {
    let d = max_magnitude(x) / 127.0;
    let inverse = reciprocal(d);
    let mut qs = [0; Q8Block::LEN];
    let mut sum = 0i32;
    for (q, x) in qs.iter_mut().zip(x) {
        *q = round_to_i8(x * inverse);
        sum = sum.wrapping_add(i32::from(*q));
    }
    Q8Block { d, sum: d * sum as f32, qs }
}

/// The largest `|x|`, NaNs left out.
#[inline]
pub(super) fn max_magnitude(x: &[f32; 32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for chunk in x.as_chunks::<8>().0 {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            let magnitude = x.abs();
            *lane = if magnitude > *lane { magnitude } else { *lane };
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}

/// `1 / d`, and 0 for a scale of zero.
#[inline]
pub(super) fn reciprocal(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Rounds half away from zero; NaN and infinities give 0. Adding the largest number below one half and cutting the
/// fraction off is exact for every magnitude that fits 8 bits, and vectorises where `f32::round` calls a function.
#[inline]
pub(super) fn round_to_i8(x: f32) -> i8 {
    const BELOW_HALF: f32 = 0.5f32.next_down();
    let x = if x.is_finite() { x } else { 0.0 };
    (x + BELOW_HALF.copysign(x)) as i32 as i8
}

/// `Σ a[i] * b[i]`, exact for up to 131,072 products. Wrapping sums, since so few products of 8-bit numbers cannot
/// overflow and an overflow check would keep the loop from being vectorised.
#[inline]
pub(super) fn dot_i8<const N: usize>(a: &[i8; N], b: &[i8; N]) -> i32 {
    let mut sum = 0i32;
    for (&a, &b) in a.iter().zip(b) {
        sum = sum.wrapping_add(i32::from(i16::from(a)).wrapping_mul(i32::from(i16::from(b))));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantized(x: [f32; 32]) -> Q8Block {
        let mut out = [Q8Block::ZERO];
        quantize_activations(&x, &mut out);
        out[0]
    }

    #[test]
    fn rounds_half_away_from_zero() {
        for (x, expected) in [
            (0.5, 1),
            (-0.5, -1),
            (1.5, 2),
            (2.5, 3),
            (-2.5, -3),
            (126.5, 127),
            (0.49999997, 0),
            (1.4999999, 1),
        ] {
            assert_eq!(round_to_i8(x), expected, "{x}");
        }
        let mut x = -127.0f32;
        while x <= 127.0 {
            assert_eq!(f32::from(round_to_i8(x)), x.round(), "{x}");
            x += 1.0 / 64.0;
        }
    }

    #[test]
    fn scale_sum_and_values() {
        let mut x = [0.0; 32];
        x[0] = -254.0;
        x[1] = 3.0;
        x[31] = 1.0;
        let b = quantized(x);
        assert_eq!(b.d, 2.0);
        assert_eq!((b.qs[0], b.qs[1], b.qs[2], b.qs[31]), (-127, 2, 0, 1));
        assert_eq!(b.sum, 2.0 * -124.0);
    }

    #[test]
    fn odd_numbers_do_not_panic() {
        assert_eq!(quantized([0.0; 32]), Q8Block::ZERO);
        let tiny = quantized([1e-44; 32]);
        assert!(tiny.qs.iter().all(|&q| q == 0));
        let mut x = [1.0; 32];
        x[3] = f32::NAN;
        let b = quantized(x);
        assert_eq!((b.d, b.qs[3], b.qs[4]), (1.0 / 127.0, 0, 127));
        x[3] = f32::NEG_INFINITY;
        let b = quantized(x);
        assert!(b.d.is_infinite() && b.sum.is_nan() && b.qs == [0; 32]);
        quantize_activations(&[], &mut []);
    }

    #[test]
    fn integer_dot_extremes() {
        assert_eq!(dot_i8(&[-128; 32], &[-128; 32]), 32 * 16384);
        assert_eq!(dot_i8(&[127; 32], &[-128; 32]), -32 * 127 * 128);
    }
}
