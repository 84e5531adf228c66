//! Products with packed weights (see [`crate::quant::packed`]) by `sdot`, which adds four products to each 32-bit lane;
//! the four activations are those of one lane of a second register.

use std::arch::aarch64::*;
use std::arch::asm;

packed_products!("neon,dotprod", one: dotprod);

/// The values of a piece's block, of each vector.
type Vectors<'a, const N: usize> = [[int8x16_t; 2]; N];

#[inline]
#[target_feature(enable = "neon,dotprod")]
fn arrange<const N: usize>(x: &[&Q8Block; N]) -> Vectors<'static, N> {
    let mut vectors = [[vdupq_n_s8(0); 2]; N];
    for (vector, x) in vectors.iter_mut().zip(x) {
        for (values, x) in vector.iter_mut().zip(x.qs.as_chunks::<16>().0) {
            *values = load_values(x);
        }
    }
    vectors
}

#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dots<const N: usize, const FIRST: usize, const QUADS: usize, const MAX: i32>(
    w: &Values,
    x: &Vectors<'_, N>,
) -> [int32x4_t; N] {
    let mut sums = [vdupq_n_s32(0); N];
    // The lane is part of the instruction. Vectors alternate, since additions to one wait for each other.
    macro_rules! add {
        ($($j:literal)*) => {
            $(if FIRST <= $j && $j < FIRST + QUADS {
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = sdot::<{ $j % 4 }>(*sum, w[$j], x[$j / 4]);
                }
            })*
        };
    }
    add!(0 1 2 3 4 5 6 7);
    sums
}

/// Adds to each lane the products of its four bytes of `w` with the four of lane `LANE` of `x`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot<const LANE: i32>(mut sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction works on registers alone, and this function is compiled for machines that have it.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
            sum = inout(vreg) sum,
            w = in(vreg) w,
            x = in(vreg) x,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
