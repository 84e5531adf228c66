//! Products with packed weights (see [`crate::quant::packed`]) by `vpmaddubsw`, which multiplies codes as unsigned bytes and adds
//! two products. As many of these as fit are added in 16 bits. Signed codes of eight bits are multiplied by their magnitudes,
//! with activations that have their signs.

use std::arch::x86_64::*;

use super::tiles::{Signed, TILE, by_fours, by_half, by_twos, signed, whole};

packed_products!("avx2,fma,f16c");

/// A format of signed codes with a scale per piece: `d * x.d * Σ code·x`.
macro_rules! signed_codes {
    ($name:ident, $codes:expr, $read:expr) => {
        product!(
            "avx2,fma,f16c",
            $name,
            $codes,
            Scales::F16,
            $read,
            (signed pieces),
            |parts, i, h| -> __m256 { load_f16(&scales::<32>(parts, i)[16 * h..]) },
            |w, s, x| signed_sum(&w, [_mm256_set1_epi16(1); 2], x),
            |acc, sum| add_sum(acc, s, sum, x)
        );
    };
}

signed_codes!(q8_0, Codes::U8, eight_bits_signed);
signed_codes!(iq4_nl, Codes::U4, iq4_signed);
/// A format of signed codes with a scale per half piece in units of eight pieces, of which `$factor` is taken.
macro_rules! signed_halves {
    ($name:ident, $codes:expr, $read:expr, $factor:expr) => {
        product!(
            "avx2,fma,f16c",
            $name,
            $codes,
            Scales::Halves,
            $read,
            (signed halves),
            |parts, i, h| -> (__m256, [__m256i; 2]) {
                let scales = &scales::<32>(parts, i)[8 * h..];
                let unit = load_f16(&units::<32>(parts, i)[16 * h..]);
                let unit = _mm256_mul_ps(unit, _mm256_set1_ps($factor));
                (unit, [load_i8_twice(scales), load_i8_twice(&scales[16..])])
            },
            |w, s, x| signed_sum(&w, s.1, x),
            |acc, sum| add_sum(acc, s.0, sum, x)
        );
    };
}

signed_halves!(iq4_xs, Codes::U4, iq4_signed, 1.0);
signed_halves!(wholes, Codes::U8, eight_bits_signed, 1.0);
signed_halves!(quarters, Codes::U8, eight_bits_signed, 0.25);
signed_halves!(eighths, Codes::U8, eight_bits_signed, 0.125);

/// Calls a function of this level.
fn run(add: AddPieces, parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
    // SAFETY: this function is reached through the table of this level only, which is handed out on machines that have
    // its instructions.
    unsafe { add(parts, n, x, out) }
}

/// `Σ code · x` of each row over four quads from quad `FIRST` on, times the numbers in both halves of the lanes of `factor`.
/// Codes are small enough that `SUMS` products of pairs fit 16 bits.
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

/// `Σ code · x` of each row over the halves of a piece. Four products of pairs fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn half_sums(codes: &[__m256i; 8], x: &Q8Block) -> [__m256i; 2] {
    let one = _mm256_set1_epi16(1);
    [four_quads::<0, 4>(codes, x, one), four_quads::<4, 4>(codes, x, one)]
}

/// `Σ scale · code · x` of each row, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled_sum<const SUMS: usize>(codes: &[__m256i; 8], scales: [__m256i; 2], x: &Q8Block) -> __m256i {
    let low = four_quads::<0, SUMS>(codes, x, scales[0]);
    _mm256_add_epi32(low, four_quads::<4, SUMS>(codes, x, scales[1]))
}

/// `Σ scale · code · x` of each row for signed codes of eight bits, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signed_sum(codes: &[__m256i; 8], scales: [__m256i; 2], x: &Q8Block) -> __m256i {
    let mut sums = [_mm256_setzero_si256(); 2];
    for (j, &code) in codes.iter().enumerate() {
        let products = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(quad(x, j), code));
        sums[j % 2] = _mm256_add_epi32(sums[j % 2], _mm256_madd_epi16(products, scales[j / 4]));
    }
    _mm256_add_epi32(sums[0], sums[1])
}
