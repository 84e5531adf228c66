//! Products with packed weights (see [`crate::quant::packed`]) by widening multiplications: products of bytes are added in 16
//! bits as long as they fit, then neighbouring ones in 32 bits.

use std::arch::aarch64::*;

packed_products!("neon", one: neon);

/// The blocks of a piece, of each vector; a quad is read into all lanes together.
type Vectors<'a, const N: usize> = [&'a Q8Block; N];

#[inline]
#[target_feature(enable = "neon")]
fn arrange<'a, const N: usize>(x: &[&'a Q8Block; N]) -> Vectors<'a, N> {
    *x
}

#[inline]
#[target_feature(enable = "neon")]
fn dots<const N: usize, const FIRST: usize, const QUADS: usize, const MAX: i32>(
    w: &Values,
    x: &Vectors<'_, N>,
) -> [int32x4_t; N] {
    const { assert!(2 * 127 * MAX <= i16::MAX as i32, "two products fit 16 bits") };
    // The number of products that fit.
    let chain = const { if 8 * 127 * MAX <= i16::MAX as i32 { 8 } else { 2 } };
    let mut sums = [vdupq_n_s32(0); N];
    for (sum, x) in sums.iter_mut().zip(x) {
        let quads = x.qs.as_chunks::<4>().0;
        // Two lanes for each row.
        let (mut low, mut high) = (vdupq_n_s32(0), vdupq_n_s32(0));
        let zero = vdupq_n_s16(0);
        let (mut low_16, mut high_16) = (zero, zero);
        macro_rules! add {
            ($($j:literal)*) => {
                $(if FIRST <= $j && $j < FIRST + QUADS {
                    if $j % chain == 0 {
                        (low_16, high_16) = (zero, zero);
                    }
                    let quad = broadcast(&quads[$j]);
                    low_16 = vmlal_s8(low_16, vget_low_s8(w[$j]), vget_low_s8(quad));
                    high_16 = vmlal_high_s8(high_16, w[$j], quad);
                    if ($j + 1) % chain == 0 || $j + 1 == FIRST + QUADS {
                        (low, high) = (vpadalq_s16(low, low_16), vpadalq_s16(high, high_16));
                    }
                })*
            };
        }
        add!(0 1 2 3 4 5 6 7);
        *sum = vpaddq_s32(low, high);
    }
    sums
}

/// Four values, four times.
#[inline]
#[target_feature(enable = "neon")]
fn broadcast(quad: &[i8; 4]) -> int8x16_t {
    // SAFETY: there are four bytes.
    vreinterpretq_s8_s32(unsafe { vld1q_dup_s32(quad.as_ptr().cast()) })
}
