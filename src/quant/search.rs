//! Finds the scales, minima and values of the K formats that make the squared error small.
//!
//! Rounding to a grid given by a scale and fitting the scale to rounded values by least squares are each optimal while
//! the other stands still, so alternating them from many starting points finds a good pair (Lloyd, "Least squares
//! quantization in PCM", 1982). This is done for each group alone; then for the whole block, where scales and minima
//! are whole numbers of a common unit: each group takes the best of the neighbouring whole numbers, and the units are
//! fitted to what all groups took.
//!
//! Numbers that are not finite give some block and no panic.
#![forbid(unsafe_code)]

use super::activation::reciprocal;
use super::blocks::{Groups, OffsetGroups, SUPER};
use super::f16::{scale, scale_bytes};

/// The whole numbers that a format can store, from and to.
pub(super) struct Ranges {
    /// Scales and minima.
    pub scale: (i8, i8),
    /// Values.
    pub q: (i8, i8),
}

/// How often a block's units are fitted.
const BLOCK_ROUNDS: usize = 4;
/// How often a group's scale is fitted from each starting point.
const GROUP_ROUNDS: usize = 2;

/// The nearest whole number in a range that has 0 in it; NaN gives 0.
#[inline]
fn nearest(x: f32, (low, high): (i8, i8)) -> i8 {
    (x.clamp(f32::from(low), f32::from(high)) + 0.5f32.copysign(x)) as i8
}

/// As it will be stored.
fn stored(d: f32) -> f32 {
    scale(scale_bytes(d))
}

/// The whole numbers beside `near`, itself first, inside a range.
fn neighbours(near: i8, (low, high): (i8, i8)) -> impl Iterator<Item = i8> + Clone {
    let beside = [near.saturating_sub(1), near.saturating_add(1)];
    std::iter::once(near).chain(beside.into_iter().filter(move |&n| n != near && (low..=high).contains(&n)))
}

/// Starting points for the number of steps that a group's extent is divided into: around all that there are, since an
/// extreme value that is cut can make the others better.
fn step_counts(most: f32) -> impl Iterator<Item = f32> {
    let reach = (most / 4.0).clamp(0.9, 2.5);
    (-12..=8).map(move |k| most + k as f32 / 10.0 * reach)
}

/// A scale `d` for which `d * q[i]` can come close to the values, negative if need be.
fn group_scale<const LEN: usize>(x: &[f32; LEN], q_range: (i8, i8)) -> f32 {
    let largest = x.iter().fold(0.0, |a: f32, &x| if x.abs() > a.abs() { x } else { a });
    let (mut best, mut best_gain) = (0.0, 0.0);
    let starts = step_counts(-f32::from(q_range.0)).flat_map(|n| [-n, n]);
    for start in starts.map(|n| n * reciprocal(largest)) {
        let mut inverse = start;
        for _ in 0..GROUP_ROUNDS {
            let (mut xq, mut qq) = (0.0, 0.0);
            for &x in x {
                let q = f32::from(nearest(x * inverse, q_range));
                xq += x * q;
                qq += q * q;
            }
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

/// The values that come closest with a scale, and their squared error.
fn round_group<const LEN: usize>(x: &[f32; LEN], d: f32, m: f32, q_range: (i8, i8)) -> ([i8; LEN], f32) {
    let inverse = reciprocal(d);
    let mut error = 0.0;
    let q = x.map(|x| {
        let q = nearest((x + m) * inverse, q_range);
        let e = x - (d * f32::from(q) - m);
        error += e * e;
        q
    });
    (q, error)
}

/// The best block without minima.
pub(super) fn fit<const N: usize, const LEN: usize>(x: &[f32; SUPER], ranges: &Ranges) -> Groups<N, LEN> {
    let x: &[[f32; LEN]; N] = bytemuck::cast_ref(x);
    let wanted = x.map(|x| group_scale(&x, ranges.q));
    let largest = wanted.iter().fold(0.0, |a: f32, &s| if s.abs() > a.abs() { s } else { a });
    let mut best = Groups { d: 0.0, scales: [0; N], q: [[0; LEN]; N] };
    let (mut best_error, mut d) = (f32::INFINITY, largest / f32::from(ranges.scale.0));
    for _ in 0..BLOCK_ROUNDS {
        let mut block = Groups { d: stored(d), scales: [0; N], q: [[0; LEN]; N] };
        let (mut error, mut xp, mut pp) = (0.0, 0.0, 0.0);
        for (g, x) in x.iter().enumerate() {
            let mut group_error = f32::INFINITY;
            let near = nearest(wanted[g] * reciprocal(block.d), ranges.scale);
            for scale in neighbours(near, ranges.scale) {
                let (q, error) = round_group(x, block.d * f32::from(scale), 0.0, ranges.q);
                if error < group_error {
                    (block.scales[g], block.q[g], group_error) = (scale, q, error);
                }
            }
            error += group_error;
            for (&x, &q) in x.iter().zip(&block.q[g]) {
                let p = f32::from(block.scales[g]) * f32::from(q);
                xp += x * p;
                pp += p * p;
            }
        }
        d = xp * reciprocal(pp);
        if error < best_error {
            (best, best_error) = (block, error);
        }
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
    /// `x` shall be about `d * p - dmin * m`.
    #[inline]
    fn add(&mut self, x: f32, p: f32, m: f32) {
        self.pp += p * p;
        self.pm += p * m;
        self.mm += m * m;
        self.xp += x * p;
        self.xm += x * m;
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
            for (&x, &q) in x.iter().zip(&q) {
                sums.add(x, f32::from(q), 1.0);
            }
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
    let empty = || OffsetGroups { d: 0.0, dmin: 0.0, scales: [0; N], mins: [0; N], q: [[0; LEN]; N] };
    let (mut best, mut best_error) = (empty(), f32::INFINITY);
    for _ in 0..BLOCK_ROUNDS {
        let mut block = OffsetGroups { d: stored(units.0), dmin: stored(units.1), ..empty() };
        let (mut error, mut sums) = (0.0, Sums::default());
        for (g, x) in x.iter().enumerate() {
            let mut group_error = f32::INFINITY;
            let near = nearest(wanted[g].0 * reciprocal(block.d), ranges.scale);
            let near_min = nearest(wanted[g].1 * reciprocal(block.dmin), ranges.scale);
            for scale in neighbours(near, ranges.scale) {
                for min in neighbours(near_min, ranges.scale) {
                    let (d, m) = (block.d * f32::from(scale), block.dmin * f32::from(min));
                    let (q, error) = round_group(x, d, m, ranges.q);
                    if error < group_error {
                        (block.scales[g], block.mins[g]) = (scale.cast_unsigned(), min.cast_unsigned());
                        (block.q[g], group_error) = (q, error);
                    }
                }
            }
            error += group_error;
            for (&x, &q) in x.iter().zip(&block.q[g]) {
                sums.add(x, f32::from(block.scales[g]) * f32::from(q), f32::from(block.mins[g]));
            }
        }
        units = sums.solve();
        if error < best_error {
            (best, best_error) = (block, error);
        }
    }
    best
}
