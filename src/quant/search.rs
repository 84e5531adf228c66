//! Finds scales, minima and values of the K formats with a small squared error.
//!
//! Rounding to a grid given by a scale and fitting the scale to rounded values by least squares are each optimal while the other
//! is fixed. Alternating them from many starting points finds a good pair (Lloyd, "Least squares quantization in PCM", 1982). The
//! search does this for each group alone, and then for the whole block, where scales and minima are integer multiples of a common
//! unit: each group takes the best of the neighbouring integers, and the units are fitted to the choices of all groups.
//!
//! A block that cannot be stored, because of values that are not finite or beyond the format's range, becomes NaN.
#![forbid(unsafe_code)]

use super::activation::reciprocal;
use super::blocks::{Groups, OffsetGroups, SUPER};
use super::f16::{scale, scale_bytes};

/// The integers that a format can store, from and to.
pub(super) struct Ranges {
    /// Scales and minima.
    pub scale: (i8, i8),
    /// Values.
    pub q: (i8, i8),
}

/// How often a block's units are fitted, at most.
const BLOCK_ROUNDS: usize = 4;
/// How often a group's scale is fitted from each starting point.
const GROUP_ROUNDS: usize = 2;

/// The nearest integer in a range, ties to even. Adding and subtracting 1.5 · 2^23 leaves no bits for a fraction.
#[inline]
fn nearest(x: f32, (low, high): (i8, i8)) -> f32 {
    const NO_FRACTION: f32 = 12_582_912.0;
    x.clamp(f32::from(low), f32::from(high)) + NO_FRACTION - NO_FRACTION
}

/// The sum of a number of terms that is a multiple of eight, in eight partial sums.
#[inline]
fn sum<const LEN: usize>(terms: [f32; LEN]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for chunk in terms.as_chunks::<8>().0 {
        for (lane, term) in lanes.iter_mut().zip(chunk) {
            *lane += term;
        }
    }
    lanes.iter().sum()
}

/// `Σ a[i] * b[i]`.
#[inline]
fn dot<const LEN: usize>(a: &[f32; LEN], b: &[f32; LEN]) -> f32 {
    sum::<LEN>(std::array::from_fn(|i| a[i] * b[i]))
}

/// The scale as it will be stored.
fn stored(d: f32) -> f32 {
    scale(scale_bytes(d))
}

/// The integers beside the one nearest to `x`, itself first, inside a range; NaN counts as 0.
fn neighbours(x: f32, (low, high): (i8, i8)) -> impl Iterator<Item = i8> + Clone {
    let near = nearest(x, (low, high)) as i8;
    let beside = [near.saturating_sub(1), near.saturating_add(1)];
    std::iter::once(near).chain(beside.into_iter().filter(move |&n| n != near && (low..=high).contains(&n)))
}

/// Starting points for the number of steps that a group's extent is divided into: around the largest number, since cutting an
/// extreme value can make the others better.
fn step_counts(most: f32) -> impl Iterator<Item = f32> {
    let reach = (most / 4.0).clamp(0.9, 2.5);
    (-6..=4).map(move |k| most + k as f32 / 5.0 * reach)
}

/// A scale `d` for which `d * q[i]` can come close to the values, negative if need be.
fn group_scale<const LEN: usize>(x: &[f32; LEN], q_range: (i8, i8)) -> f32 {
    let largest = x.iter().fold(0.0, |a: f32, &x| if x.abs() > a.abs() { x } else { a });
    let (mut best, mut best_gain) = (0.0, 0.0);
    let starts = step_counts(-f32::from(q_range.0)).flat_map(|n| [-n, n]);
    for start in starts.map(|n| n * reciprocal(largest)) {
        let mut inverse = start;
        for _ in 0..GROUP_ROUNDS {
            let q = x.map(|x| nearest(x * inverse, q_range));
            let (xq, qq) = (dot(x, &q), dot(&q, &q));
            // With the best scale, xq / qq, the squared error is Σ x² less this.
            let gain = xq * xq * reciprocal(qq);
            if gain > best_gain {
                (best, best_gain) = (xq / qq, gain);
            }
            inverse = qq * reciprocal(xq);
        }
    }
    best
}

/// The values that come closest with a scale and a minimum, and their squared error.
#[inline]
fn round_group<const LEN: usize>(x: &[f32; LEN], d: f32, m: f32, q_range: (i8, i8)) -> ([f32; LEN], f32) {
    let inverse = reciprocal(d);
    let q = x.map(|x| nearest((x + m) * inverse, q_range));
    let error: [f32; LEN] = std::array::from_fn(|i| x[i] - (d * q[i] - m));
    (q, dot(&error, &error))
}

/// The best block without minima.
pub(super) fn fit<const N: usize, const LEN: usize>(x: &[f32; SUPER], ranges: &Ranges) -> Groups<N, LEN> {
    let x: &[[f32; LEN]; N] = bytemuck::cast_ref(x);
    let wanted = x.map(|x| group_scale(&x, ranges.q));
    let largest = wanted.iter().fold(0.0, |a: f32, &s| if s.abs() > a.abs() { s } else { a });
    let mut best = Groups { d: f32::NAN, scales: [0; N], q: [[0; LEN]; N] };
    let (mut best_error, mut d) = (f32::INFINITY, largest / f32::from(ranges.scale.0));
    for _ in 0..BLOCK_ROUNDS {
        let mut block = Groups { d: stored(d), scales: [0; N], q: [[0; LEN]; N] };
        let (mut error, mut xp, mut pp) = (0.0, 0.0, 0.0);
        for (g, x) in x.iter().enumerate() {
            let (mut best, mut group_error) = ([0.0; LEN], f32::INFINITY);
            for scale in neighbours(wanted[g] * reciprocal(block.d), ranges.scale) {
                let (q, error) = round_group(x, block.d * f32::from(scale), 0.0, ranges.q);
                if error < group_error {
                    (best, block.scales[g], group_error) = (q, scale, error);
                }
            }
            block.q[g] = best.map(|q| q as i8);
            error += group_error;
            let scale = f32::from(block.scales[g]);
            xp += scale * dot(x, &best);
            pp += scale * scale * dot(&best, &best);
        }
        if error >= best_error {
            break;
        }
        (best, best_error) = (block, error);
        d = xp * reciprocal(pp);
    }
    best
}

/// Sums that give the scale and the minimum with the least squared error for given values.
#[derive(Default)]
struct Sums {
    pp: f32,
    pm: f32,
    mm: f32,
    xp: f32,
    xm: f32,
}

impl Sums {
    /// `x` shall be about `d * scale * q - dmin * min`.
    #[inline]
    fn add<const LEN: usize>(&mut self, x: &[f32; LEN], scale: f32, q: &[f32; LEN], min: f32) {
        self.pp += scale * scale * dot(q, q);
        self.pm += scale * min * sum(*q);
        self.mm += min * min * LEN as f32;
        self.xp += scale * dot(x, q);
        self.xm += min * sum(*x);
    }

    /// `(d, dmin)`, neither below zero.
    fn solve(&self) -> (f32, f32) {
        let determinant = self.pp * self.mm - self.pm * self.pm;
        let d = (self.mm * self.xp - self.pm * self.xm) * reciprocal(determinant);
        let dmin = (self.pm * self.xp - self.pp * self.xm) * reciprocal(determinant);
        if determinant > 0.0 && d > 0.0 && dmin > 0.0 {
            (d, dmin)
        } else {
            ((self.xp * reciprocal(self.pp)).max(0.0), 0.0)
        }
    }
}

/// A scale and a minimum for which `d * q[i] - m` can come close to the values; neither is below zero.
fn group_scale_and_min<const LEN: usize>(x: &[f32; LEN], q_range: (i8, i8)) -> (f32, f32) {
    let low = x.iter().fold(0.0, |a: f32, &x| a.min(x));
    let high = x.iter().fold(low, |a: f32, &x| a.max(x));
    let (mut best, mut best_error) = ((0.0, -low), f32::INFINITY);
    for n_steps in step_counts(f32::from(q_range.1)) {
        let (mut d, mut m) = ((high - low) / n_steps, -low);
        for _ in 0..=GROUP_ROUNDS {
            let (q, error) = round_group(x, d, m, q_range);
            if error < best_error {
                (best, best_error) = ((d, m), error);
            }
            let mut sums = Sums::default();
            sums.add(x, 1.0, &q, 1.0);
            (d, m) = sums.solve();
        }
    }
    best
}

/// The best block with minima.
pub(super) fn fit_with_minima<const N: usize, const LEN: usize>(
    x: &[f32; SUPER],
    ranges: &Ranges,
) -> OffsetGroups<N, LEN> {
    let x: &[[f32; LEN]; N] = bytemuck::cast_ref(x);
    let wanted = x.map(|x| group_scale_and_min(&x, ranges.q));
    let largest = wanted.iter().fold((0.0f32, 0.0f32), |a, s| (a.0.max(s.0), a.1.max(s.1)));
    let most = f32::from(ranges.scale.1);
    let mut units = (largest.0 / most, largest.1 / most);
    let empty = |d, dmin| OffsetGroups { d, dmin, scales: [0; N], mins: [0; N], q: [[0; LEN]; N] };
    let (mut best, mut best_error) = (empty(f32::NAN, f32::NAN), f32::INFINITY);
    for _ in 0..BLOCK_ROUNDS {
        let mut block = empty(stored(units.0), stored(units.1));
        let (mut error, mut sums) = (0.0, Sums::default());
        for (g, x) in x.iter().enumerate() {
            let (mut best, mut group_error) = ([0.0; LEN], f32::INFINITY);
            let mins = neighbours(wanted[g].1 * reciprocal(block.dmin), ranges.scale);
            for scale in neighbours(wanted[g].0 * reciprocal(block.d), ranges.scale) {
                for min in mins.clone() {
                    let (d, m) = (block.d * f32::from(scale), block.dmin * f32::from(min));
                    let (q, error) = round_group(x, d, m, ranges.q);
                    if error < group_error {
                        (block.scales[g], block.mins[g]) = (scale.cast_unsigned(), min.cast_unsigned());
                        (best, group_error) = (q, error);
                    }
                }
            }
            block.q[g] = best.map(|q| q as i8);
            error += group_error;
            sums.add(x, f32::from(block.scales[g]), &best, f32::from(block.mins[g]));
        }
        if error >= best_error {
            break;
        }
        (best, best_error) = (block, error);
        units = sums.solve();
    }
    best
}
