//! Products with packed weights (see [`crate::quant::packed`]) by `vpmaddubsw`, which multiplies codes as unsigned bytes and
//! adds two products. As many of these are added in 16 bits as can be without overflow; codes of eight bits are multiplied as
//! two nibbles.

use std::arch::x86_64::*;

packed_products!("avx2,fma,f16c");

scaled_wide!("avx2,fma,f16c", q8_0, Codes::U8, eight_bits_low, eight_bits_high, 128);
scaled_wide!("avx2,fma,f16c", iq4_nl, Codes::U4, iq4_low, iq4_high, 128);
halves_wide!("avx2,fma,f16c", iq4_xs, Codes::U4, iq4_low, iq4_high, 128);

/// Calls a function of this level.
fn run(add: AddPieces, parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
    // SAFETY: this function is reached through the table of this level only, which is handed out on machines that have
    // its instructions.
    unsafe { add(parts, n, x, out) }
}

/// `Σ code · x` of each row over four quads from quad `FIRST` on, times the numbers in both halves of the lanes of
/// `factor`. Codes are so small that `SUMS` products of pairs fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_quads<const FIRST: usize, const SUMS: usize>(
    codes: &[__m256i; 8],
    x: &Q8Block,
    factor: __m256i,
) -> __m256i {
    let a = _mm256_maddubs_epi16(codes[FIRST], quad(x, FIRST));
    let b = _mm256_maddubs_epi16(codes[FIRST + 1], quad(x, FIRST + 1));
    let c = _mm256_maddubs_epi16(codes[FIRST + 2], quad(x, FIRST + 2));
    let d = _mm256_maddubs_epi16(codes[FIRST + 3], quad(x, FIRST + 3));
    let (low, high) = (_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
    match SUMS {
        2 => _mm256_add_epi32(_mm256_madd_epi16(low, factor), _mm256_madd_epi16(high, factor)),
        _ => _mm256_madd_epi16(_mm256_add_epi16(low, high), factor),
    }
}

/// `Σ code · x` of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum<const SUMS: usize>(codes: &[__m256i; 8], x: &Q8Block) -> __m256i {
    let one = _mm256_set1_epi16(1);
    if SUMS < 8 {
        return scaled_sum::<SUMS>(codes, [one; 2], x);
    }
    let mut pairs = _mm256_maddubs_epi16(codes[0], quad(x, 0));
    for (j, code) in codes.iter().enumerate().skip(1) {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(*code, quad(x, j)));
    }
    _mm256_madd_epi16(pairs, one)
}

/// `Σ scale · code · x` of each row, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled_sum<const SUMS: usize>(codes: &[__m256i; 8], scales: [__m256i; 2], x: &Q8Block) -> __m256i {
    let low = four_quads::<0, SUMS>(codes, x, scales[0]);
    _mm256_add_epi32(low, four_quads::<4, SUMS>(codes, x, scales[1]))
}
