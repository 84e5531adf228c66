//! Products with packed weights (see [`crate::quant::packed`]) by `smmla`, which multiplies two rows with two vectors of
//! activations, eight columns of each. A single vector is multiplied by the level below.

use std::arch::aarch64::*;
use std::arch::asm;

packed_products!("neon,i8mm", one: dotprod);

/// The values of a piece's blocks, two vectors together: eight columns of each to a register. Vectors are counted up to `N`, so
/// only the first half of the pairs is used.
type Vectors<'a, const N: usize> = [[int8x16_t; 4]; N];

#[inline]
#[target_feature(enable = "neon,i8mm")]
fn arrange<const N: usize>(x: &[&Q8Block; N]) -> Vectors<'static, N> {
    let mut pairs = [[vdupq_n_s8(0); 4]; N];
    for (pair, [a, b]) in pairs.iter_mut().zip(x.as_chunks::<2>().0) {
        let halves = a.qs.as_chunks::<16>().0.iter().zip(b.qs.as_chunks::<16>().0);
        for (eights, (a, b)) in pair.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            *eights = join_eights(load_values(a), load_values(b));
        }
    }
    pairs
}

#[inline]
#[target_feature(enable = "neon,i8mm")]
fn dots<const N: usize, const FIRST: usize, const QUADS: usize, const MAX: i32>(
    w: &Values,
    x: &Vectors<'_, N>,
) -> [int32x4_t; N] {
    // For each pair of vectors the sums of the first two and of the last two rows.
    let mut pairs = [[vdupq_n_s32(0); 2]; N];
    for j in (FIRST / 2)..(FIRST + QUADS) / 2 {
        let [low, high] = join_fours(w[2 * j], w[2 * j + 1]);
        for (pair, x) in pairs.iter_mut().zip(x).take(N / 2) {
            *pair = [smmla(pair[0], low, x[j]), smmla(pair[1], high, x[j])];
        }
    }
    let mut sums = [vdupq_n_s32(0); N];
    for (sums, [low, high]) in sums.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
        *sums = [vuzp1q_s32(low, high), vuzp2q_s32(low, high)];
    }
    sums
}

/// The first eight bytes of each, and the other eight.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn join_eights(a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
    [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
}

/// Four bytes of each, alternating: from the first eight of them, and from the others.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn join_fours(a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b));
    [vreinterpretq_s8_s32(vzip1q_s32(a, b)), vreinterpretq_s8_s32(vzip2q_s32(a, b))]
}

/// Adds the product of two rows of eight numbers of `a` with two of `b`: lane `2i + j` is for rows `i` and `j`.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction works on registers alone, and this function is compiled for machines that have it.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
