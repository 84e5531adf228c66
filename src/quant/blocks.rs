//! Shared code of formats of many values per block: loops over the blocks of a row, and blocks of groups with a scale (and a
//! minimum) each.
#![forbid(unsafe_code)]

use super::Q8Block;
use super::activation::dot_i8;
use bytemuck::Pod;

/// Values of a super-block, the block of most formats of few bits.
pub(super) const SUPER: usize = 256;

/// Calls `unpack` with each block of a row and its values.
#[inline]
pub(super) fn unpack_row<B: Pod, const LEN: usize>(
    src: &[u8],
    dst: &mut [f32],
    unpack: impl Fn(&B, &mut [f32; LEN]),
) {
    debug_assert_eq!(
        src.len() * LEN,
        dst.len() * size_of::<B>(),
        "row bytes and number of values do not agree"
    );
    for (bytes, values) in src.chunks_exact(size_of::<B>()).zip(dst.as_chunks_mut::<LEN>().0) {
        unpack(bytemuck::from_bytes(bytes), values);
    }
}

/// Writes `pack` of the values of each block.
#[inline]
pub(super) fn pack_row<B: Pod, const LEN: usize>(
    src: &[f32],
    dst: &mut [u8],
    pack: impl Fn(&[f32; LEN]) -> B,
) {
    debug_assert_eq!(
        dst.len() * LEN,
        src.len() * size_of::<B>(),
        "row bytes and number of values do not agree"
    );
    for (values, bytes) in src.as_chunks::<LEN>().0.iter().zip(dst.chunks_exact_mut(size_of::<B>())) {
        bytes.copy_from_slice(bytemuck::bytes_of(&pack(values)));
    }
}

/// The sum of `dot` over the blocks of a row, each with `N` blocks of activations.
#[inline]
pub(super) fn dot_row<B: Pod, const N: usize>(
    row: &[u8],
    x: &[Q8Block],
    dot: impl Fn(&B, &[Q8Block; N]) -> f32,
) -> f32 {
    debug_assert_eq!(row.len() * N, x.len() * size_of::<B>(), "the row and the activations differ in length");
    let mut sum = 0.0;
    for (bytes, x) in row.chunks_exact(size_of::<B>()).zip(x.as_chunks::<N>().0) {
        sum += dot(bytemuck::from_bytes(bytes), x);
    }
    sum
}

/// A super-block of `N` groups of `LEN` values (16 or 32): value `i` of group `g` is `d * scales[g] * q[g][i]`.
///
/// No integer overflows: `|scales|` and `|q|` are at most 128, so that the sum over 32 activations stays below 2^27.
pub(super) struct Groups<const N: usize, const LEN: usize> {
    pub d: f32,
    pub scales: [i8; N],
    pub q: [[i8; LEN]; N],
}

impl<const N: usize, const LEN: usize> Groups<N, LEN> {
    #[inline]
    pub(super) fn dequantize(&self, values: &mut [f32; SUPER]) {
        for ((values, q), &scale) in values.as_chunks_mut::<LEN>().0.iter_mut().zip(&self.q).zip(&self.scales)
        {
            let d = self.d * f32::from(scale);
            for (value, &q) in values.iter_mut().zip(q) {
                *value = d * f32::from(q);
            }
        }
    }

    /// `d · Σ x.d · Σ scale · Σ q·x.q`.
    #[inline]
    pub(super) fn dot(&self, x: &[Q8Block; SUPER / Q8Block::LEN]) -> f32 {
        let mut groups = self.q.iter().zip(&self.scales);
        let mut products = 0.0;
        for x in x {
            let mut sum = 0;
            for (x, (q, &scale)) in x.qs.as_chunks::<LEN>().0.iter().zip(&mut groups) {
                sum += i32::from(scale) * dot_i8(q, x);
            }
            products += x.d * sum as f32;
        }
        self.d * products
    }
}

/// A super-block of `N` groups of `LEN` values (16 or 32) with minima: value `i` of group `g` is
/// `d * scales[g] * q[g][i] - dmin * mins[g]`. Scales and minima are at most 63.
pub(super) struct OffsetGroups<const N: usize, const LEN: usize> {
    pub d: f32,
    pub dmin: f32,
    pub scales: [u8; N],
    pub mins: [u8; N],
    pub q: [[i8; LEN]; N],
}

impl<const N: usize, const LEN: usize> OffsetGroups<N, LEN> {
    #[inline]
    pub(super) fn dequantize(&self, values: &mut [f32; SUPER]) {
        let groups = self.q.iter().zip(self.scales.iter().zip(&self.mins));
        for (values, (q, (&scale, &min))) in values.as_chunks_mut::<LEN>().0.iter_mut().zip(groups) {
            let (d, m) = (self.d * f32::from(scale), self.dmin * f32::from(min));
            for (value, &q) in values.iter_mut().zip(q) {
                *value = d * f32::from(q) - m;
            }
        }
    }

    /// `d · Σ x.d · Σ scale · Σ q·x.q - dmin · Σ min · Σ x`.
    #[inline]
    pub(super) fn dot(&self, x: &[Q8Block; SUPER / Q8Block::LEN]) -> f32 {
        let mut groups = self.q.iter().zip(self.scales.iter().zip(&self.mins));
        let (mut products, mut offsets) = (0.0, 0.0);
        for x in x {
            let mut sum = 0;
            for (qs, (q, (&scale, &min))) in x.qs.as_chunks::<LEN>().0.iter().zip(&mut groups) {
                sum += i32::from(scale) * dot_i8(q, qs);
                let x_sum = if LEN == Q8Block::LEN { x.sum } else { x.d * dot_i8(&[1; LEN], qs) as f32 };
                offsets += f32::from(min) * x_sum;
            }
            products += x.d * sum as f32;
        }
        self.d * products - self.dmin * offsets
    }
}
