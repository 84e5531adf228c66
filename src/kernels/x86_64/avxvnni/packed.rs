//! Products with packed weights (see [`crate::quant::packed`]) by `vpdpbusd`, which multiplies codes as unsigned bytes and adds
//! four products to each 32-bit lane. The sums are scaled as with AVX2: where AVX2 does not split codes, a product has the same
//! bits.

use std::arch::x86_64::*;

/// All vectors are multiplied alike: tiles of four as with AVX2 were no faster.
macro_rules! many {
    ($kind:tt, $read:expr) => {
        fn many(_: &Parts<'_>, _: usize, _: &[Q8Block], _: &mut [f32]) -> usize {
            0
        }
    };
}

packed_products!("avx2,fma,f16c,avxvnni");

scaled!("avx2,fma,f16c,avxvnni", q8_0, Codes::U8, eight_bits, 1, 128, Scales::F16, load_f16);
scaled!("avx2,fma,f16c,avxvnni", iq4_nl, Codes::U4, iq4, 1, 128, Scales::F16, load_f16);
halves!("avx2,fma,f16c,avxvnni", iq4_xs, Codes::U4, iq4, 1, 128);
halves!("avx2,fma,f16c,avxvnni", wholes, Codes::U8, eight_bits, 1, 128);
halves!("avx2,fma,f16c,avxvnni", quarters, Codes::U8, eight_bits, 1, 128, 0.25);
halves!("avx2,fma,f16c,avxvnni", eighths, Codes::U8, eight_bits, 1, 128, 0.125);

/// Calls a function of this level.
fn run(add: AddPieces, parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
    // SAFETY: this function is reached through the table of this level only, which is handed out on machines that have
    // its instructions.
    unsafe { add(parts, n, x, out) }
}

/// `Σ code · x` of each row over `N` quads from quad `FIRST` on, in two chains, since an addition waits for the one before.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn dot<const FIRST: usize, const N: usize>(codes: &[__m256i; 8], x: &Q8Block) -> __m256i {
    let mut sums = [_mm256_setzero_si256(); 2];
    for j in FIRST..FIRST + N {
        sums[j % 2] = _mm256_dpbusd_avx_epi32(sums[j % 2], codes[j], quad(x, j));
    }
    _mm256_add_epi32(sums[0], sums[1])
}

/// `Σ code · x` of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn sum<const SUMS: usize>(codes: &[__m256i; 8], x: &Q8Block) -> __m256i {
    dot::<0, 8>(codes, x)
}

/// `Σ code · x` of each row over the halves of a piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn half_sums(codes: &[__m256i; 8], x: &Q8Block) -> [__m256i; 2] {
    [dot::<0, 4>(codes, x), dot::<4, 4>(codes, x)]
}

/// `Σ scale · code · x` of each row, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn scaled_sum<const SUMS: usize>(codes: &[__m256i; 8], scales: [__m256i; 2], x: &Q8Block) -> __m256i {
    let low = _mm256_mullo_epi32(dot::<0, 4>(codes, x), _mm256_srai_epi32::<16>(scales[0]));
    let high = _mm256_mullo_epi32(dot::<4, 4>(codes, x), _mm256_srai_epi32::<16>(scales[1]));
    _mm256_add_epi32(low, high)
}
