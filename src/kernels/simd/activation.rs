//! Activations rounded to int8 with the same bits as [`quantize_activations`](crate::quant::quantize_activations), and
//! keys and values with those of [`q8_0::quantize`].
#![forbid(unsafe_code)]

use half::f16;

use super::{MAX_LANES, Simd};
use crate::quant::{Q8Block, q8_0};

/// Vectors in a block at most.
const MOST: usize = 8;
/// See `round_to_i8` of the definition.
const BELOW_HALF: f32 = 0.5f32.next_down();

/// Blocks that are rounded together.
const TOGETHER: usize = 16;

/// A number for each of the blocks.
type Each = [f32; TOGETHER];

/// See [`crate::kernels::Kernels::quantize_activations`]. The steps of one block wait for each other, so several blocks take each
/// step before one takes the next.
#[inline(always)]
pub fn quantize_activations<S: Simd>(simd: S, x: &[f32], out: &mut [Q8Block]) {
    debug_assert_eq!(x.len(), out.len() * Q8Block::LEN, "one block per 32 activations");
    let x = x.as_chunks::<{ Q8Block::LEN }>().0;
    for (x, out) in x.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER)) {
        let mut max = [0.0; TOGETHER];
        for (max, x) in max.iter_mut().zip(x) {
            *max = load_block(simd, x).1;
        }
        let (mut units, mut inverses) = ([[0.0; TOGETHER]; 2], [[0.0; TOGETHER]; 2]);
        for i in 0..TOGETHER {
            (units[0][i], units[1][i]) = (max[i] / 127.0, max[i] / 126.0);
            (inverses[0][i], inverses[1][i]) = (reciprocal(units[0][i]), reciprocal(units[1][i]));
        }
        // No closures here: they would not be compiled for the level's instructions.
        let (mut yq, mut qq) = ([[0.0; TOGETHER]; 2], [[0.0; TOGETHER]; 2]);
        for i in 0..x.len().min(TOGETHER) {
            for unit in 0..2 {
                (yq[unit][i], qq[unit][i]) = fit(simd, &x[i], inverses[unit][i]);
            }
        }
        let (d, inverse) = better(&units, &inverses, &yq, &qq);
        for ((x, out), (d, inverse)) in x.iter().zip(out).zip(d.into_iter().zip(inverse)) {
            store_block(simd, x, d, inverse, out);
        }
    }
}

/// The better of two units for each block: the scale that it leaves, and its reciprocal.
#[inline(always)]
fn better(units: &[Each; 2], inverses: &[Each; 2], yq: &[Each; 2], qq: &[Each; 2]) -> (Each, Each) {
    let (mut d, mut inverse) = ([0.0; TOGETHER], [0.0; TOGETHER]);
    for i in 0..TOGETHER {
        let fair = yq[1][i] * (127.0 / 126.0);
        let second = fair * fair * qq[0][i] > yq[0][i] * yq[0][i] * qq[1][i];
        let unit = if second { units[1][i] } else { units[0][i] };
        let ratio = if second { yq[1][i] / qq[1][i] } else { yq[0][i] / qq[0][i] };
        let zero = if second { qq[1][i] == 0.0 } else { qq[0][i] == 0.0 };
        d[i] = if zero { unit } else { unit * ratio };
        inverse[i] = if second { inverses[1][i] } else { inverses[0][i] };
    }
    (d, inverse)
}

/// Rounds a block and stores it with the scale `d`.
#[inline(always)]
fn store_block<S: Simd>(simd: S, x: &[f32; Q8Block::LEN], d: f32, inverse: f32, out: &mut Q8Block) {
    let n = Q8Block::LEN / S::LANES;
    let inverse = simd.splat(inverse);
    let (mut low, mut high) = (simd.splat(0.0), simd.splat(0.0));
    for (i, (x, qs)) in x.chunks_exact(S::LANES).zip(out.qs.chunks_exact_mut(S::LANES)).enumerate() {
        let q = round(simd, simd.load(x), inverse).1;
        simd.store_i8(q, qs);
        if i < n / 2 {
            low = simd.add(low, q);
        } else {
            high = simd.add(high, q);
        }
    }
    let sum_low = simd.sum(low);
    let sum = sum_low + simd.sum(high);
    (out.d, out.sum, out.sum_low) = (d, d * sum, d * sum_low);
    (out.bias, out.bias_low) = (-128 * sum as i32, -128 * sum_low as i32);
}

/// The vectors of a block, and the largest magnitude in it.
#[inline(always)]
fn load_block<S: Simd>(simd: S, x: &[f32; Q8Block::LEN]) -> ([S::V; MOST], f32) {
    let mut v = [simd.splat(0.0); MOST];
    let mut max = simd.splat(0.0);
    for (v, x) in v.iter_mut().zip(x.chunks_exact(S::LANES)) {
        *v = simd.load(x);
        max = simd.max(simd.abs(*v), max);
    }
    (v, simd.largest(max))
}

/// `x` times `inverse`, 0 where that is not finite, and the rounded value.
#[inline(always)]
fn round<S: Simd>(simd: S, x: S::V, inverse: S::V) -> (S::V, S::V) {
    let y = simd.mul(x, inverse);
    let y = simd.select_less(simd.abs(y), simd.splat(f32::INFINITY), y, simd.splat(0.0));
    (y, simd.trunc(simd.add(y, simd.copysign(simd.splat(BELOW_HALF), y))))
}

/// `1 / unit`, and 0 for a unit of zero.
#[inline(always)]
fn reciprocal(unit: f32) -> f32 {
    if unit == 0.0 { 0.0 } else { 1.0 / unit }
}

/// See [`crate::kernels::Kernels::narrow_q8_0`].
#[inline(always)]
pub fn narrow_q8_0<S: Simd>(simd: S, x: &[f32], codes: &mut [i8], scales: &mut [f16]) {
    debug_assert!(x.len() == codes.len() && x.len() == scales.len() * q8_0::LEN, "the lengths do not agree");
    let blocks = x.as_chunks::<{ q8_0::LEN }>().0.iter().zip(codes.as_chunks_mut::<{ q8_0::LEN }>().0);
    for ((x, codes), scale) in blocks.zip(scales) {
        let (v, max) = load_block(simd, x);
        let d = max / 127.0;
        let mut halves = [f16::ZERO; MAX_LANES];
        simd.store_f16(simd.splat(d), &mut halves);
        *scale = halves[0];
        let inverse = simd.splat(reciprocal(d));
        for (v, codes) in v.into_iter().zip(codes.chunks_exact_mut(S::LANES)) {
            simd.store_i8(round(simd, v, inverse).1, codes);
        }
    }
}

/// `Σ (x · inverse) · q` and `Σ q²` of a block. Sums of integers are exact in any order; the sum of products adds halves as the
/// definition does.
#[inline(always)]
fn fit<S: Simd>(simd: S, x: &[f32; Q8Block::LEN], inverse: f32) -> (f32, f32) {
    let n = Q8Block::LEN / S::LANES;
    let inverse = simd.splat(inverse);
    let (mut products, mut qq) = ([simd.splat(0.0); MOST], simd.splat(0.0));
    for (product, x) in products.iter_mut().zip(x.chunks_exact(S::LANES)) {
        let (y, q) = round(simd, simd.load(x), inverse);
        *product = simd.mul(y, q);
        qq = simd.mul_add(q, q, qq);
    }
    let mut width = n / 2;
    while width > 0 {
        for i in 0..width {
            products[i] = simd.add(products[i], products[i + width]);
        }
        width /= 2;
    }
    (simd.sum(products[0]), simd.sum(qq))
}
