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

/// See [`crate::kernels::Kernels::quantize_activations`].
#[inline(always)]
pub fn quantize_activations<S: Simd>(simd: S, x: &[f32], out: &mut [Q8Block]) {
    debug_assert_eq!(x.len(), out.len() * Q8Block::LEN, "one block per 32 activations");
    for (x, block) in x.as_chunks::<{ Q8Block::LEN }>().0.iter().zip(out) {
        quantize_block(simd, x, block);
    }
}

/// A block in units of a scale, rounded.
#[derive(Clone, Copy)]
struct Rounded<S: Simd> {
    unit: f32,
    /// The rounded values.
    qs: [S::V; MOST],
    /// Sums of the rounded values of the first half, and of the second.
    low: S::V,
    high: S::V,
    qq: f32,
    yq: f32,
}

#[inline(always)]
fn quantize_block<S: Simd>(simd: S, x: &[f32; Q8Block::LEN], out: &mut Q8Block) {
    let n = Q8Block::LEN / S::LANES;
    let (v, max) = load_block(simd, x);
    let (a, b) = (round_to(simd, &v, max / 127.0), round_to(simd, &v, max / 126.0));
    // Which is better cannot be foreseen, so there is no branch.
    let b_yq = b.yq * (127.0 / 126.0);
    let scores = [a.yq * a.yq * b.qq, b_yq * b_yq * a.qq];
    let better = usize::from(scores[1] > scores[0]);
    let (unit, yq, qq) = ([a.unit, b.unit][better], [a.yq, b.yq][better], [a.qq, b.qq][better]);
    let scores = scores.map(|score| simd.splat(score));
    let better = |a: S::V, b: S::V| simd.select_less(scores[0], scores[1], b, a);
    out.d = if qq == 0.0 { unit } else { unit * (yq / qq) };
    let sum_low = simd.sum(better(a.low, b.low));
    let sum = sum_low + simd.sum(better(a.high, b.high));
    (out.sum, out.sum_low) = (out.d * sum, out.d * sum_low);
    (out.bias, out.bias_low) = (-128 * sum as i32, -128 * sum_low as i32);
    for (i, qs) in out.qs.chunks_exact_mut(S::LANES).enumerate().take(n) {
        simd.store_i8(better(a.qs[i], b.qs[i]), qs);
    }
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

/// `x` times `inverse`, 0 where that is no finite number, and what it is rounded to.
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

/// Sums of whole numbers are exact in any order; that of products adds halves as the definition does.
#[inline(always)]
fn round_to<S: Simd>(simd: S, x: &[S::V; MOST], unit: f32) -> Rounded<S> {
    let n = Q8Block::LEN / S::LANES;
    let zero = simd.splat(0.0);
    let inverse = simd.splat(reciprocal(unit));
    let (mut qs, mut products) = ([zero; MOST], [zero; MOST]);
    let (mut low, mut high, mut qq) = (zero, zero, zero);
    for i in 0..n {
        let (y, q) = round(simd, x[i], inverse);
        qs[i] = q;
        products[i] = simd.mul(y, q);
        qq = simd.mul_add(q, q, qq);
        if i < n / 2 {
            low = simd.add(low, q);
        } else {
            high = simd.add(high, q);
        }
    }
    let mut width = n / 2;
    while width > 0 {
        for i in 0..width {
            products[i] = simd.add(products[i], products[i + width]);
        }
        width /= 2;
    }
    Rounded { unit, qs, low, high, qq: simd.sum(qq), yq: simd.sum(products[0]) }
}
