//! Products of a packed group with several vectors. A piece is expanded to bytes, which stay in the first-level cache while all
//! vectors are multiplied with them, four at a time. Each quad of activations is broadcast once for all sixteen rows, and eight
//! sums are under way together. Integer sums are exact, so a vector's products have the same bits as alone.

use std::arch::asm;
use std::arch::x86_64::*;

use super::group::quad;
use crate::quant::Q8Block;

/// Vectors that are multiplied at a time.
pub const TILE: usize = 4;

/// Codes of a piece of eight rows, quad by quad.
pub type Quads = [__m256i; 8];
/// The sums of each of a tile's vectors with the first eight rows and with the others.
pub type Sums = [[__m256i; 2]; TILE];
/// Numbers for both halves of each lane: for the first half of a piece and for the second, those of the first eight rows and of
/// the others.
pub type Factors = [[__m256i; 2]; 2];

/// Signed codes of a piece of eight rows.
#[derive(Clone, Copy)]
pub struct Signed {
    magnitudes: Quads,
    /// All bits set for those below zero.
    below_zero: Quads,
    /// `Σ factor · magnitude` of those: what products with `-x - 1` in place of `-x` lack.
    missing: __m256i,
}

/// The function `many` of a format, see `packed_products!`. `$kind` is how codes become sums, see [`sums!`].
macro_rules! many {
    ((alone), $read:expr) => {
        fn many(_: &Parts<'_>, _: usize, _: &[Q8Block], _: &mut [f32]) -> usize {
            0
        }
    };
    ($kind:tt, $read:expr) => {
        /// Multiplies four vectors at a time while there are as many. Returns the number of vectors.
        fn many(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) -> usize {
            let n_many = out.len() / ROWS / TILE * TILE;
            if n_many > 0 {
                run(tiles, parts, n, x, &mut out[..n_many * ROWS]);
            }
            n_many
        }

        #[target_feature(enable = "avx2,fma,f16c")]
        fn tiles(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
            align_frame();
            let out = out.as_chunks_mut::<LANES>().0.as_chunks_mut::<2>().0.as_chunks_mut::<TILE>().0;
            out.as_flattened_mut().fill([[0.0; LANES]; 2]);
            for (i, piece) in parts.codes.chunks_exact(CODES.bytes()).enumerate() {
                parts.prefetch(i, CODES.bytes() + SCALES.bytes_with_units(), false);
                let lines = [line(parts, i, 0), line(parts, i, 1)];
                let codes = [
                    expanded!($kind, $read(piece, 0), lines[0]),
                    expanded!($kind, $read(piece, 1), lines[1]),
                ];
                let mut next = i;
                for out in &mut *out {
                    let mut blocks = [&x[i]; TILE];
                    for block in &mut blocks {
                        (*block, next) = (&x[next], next + n);
                    }
                    let sums = sums!($kind, &codes, lines, blocks);
                    for t in 0..TILE {
                        for h in 0..2 {
                            let total = add(load_f32(&out[t][h]), lines[h], sums[t][h], blocks[t]);
                            store_f32(&mut out[t][h], total);
                        }
                    }
                }
            }
        }
    };
}

/// The codes in the form that all tiles use.
macro_rules! expanded {
    ((signed pieces), $codes:expr, $line:expr) => {
        Signed::of(&$codes, [_mm256_set1_epi16(1); 2])
    };
    ((signed halves), $codes:expr, $line:expr) => {
        Signed::of(&$codes, $line.1)
    };
    ($kind:tt, $codes:expr, $line:expr) => {
        $codes
    };
}

/// The sums of a tile. `pieces` have a scale or `halves` of them; the number is how many quads' products fit 16 bits. Codes of
/// eight bits are `signed`.
macro_rules! sums {
    ((pieces 8), $codes:expr, $lines:expr, $x:expr) => {
        whole($codes, $x)
    };
    ((pieces 4), $codes:expr, $lines:expr, $x:expr) => {
        by_fours($codes, &[[_mm256_set1_epi16(1); 2]; 2], $x)
    };
    ((halves 4), $codes:expr, $lines:expr, $x:expr) => {
        by_fours($codes, &by_half($lines[0].1, $lines[1].1), $x)
    };
    ((halves 2), $codes:expr, $lines:expr, $x:expr) => {
        by_twos($codes, &by_half($lines[0].1, $lines[1].1), $x)
    };
    ((signed pieces), $codes:expr, $lines:expr, $x:expr) => {
        signed($codes, &[[_mm256_set1_epi16(1); 2]; 2], $x)
    };
    ((signed halves), $codes:expr, $lines:expr, $x:expr) => {
        signed($codes, &by_half($lines[0].1, $lines[1].1), $x)
    };
}

/// The factors of the first eight rows and those of the others.
pub fn by_half(first: [__m256i; 2], others: [__m256i; 2]) -> Factors {
    [[first[0], others[0]], [first[1], others[1]]]
}

/// Keeps the sums in registers here: compilers would add in another order, for which there are too few registers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn keep(sums: &mut Sums) {
    let [[a, b], [c, d], [e, f], [g, h]] = sums;
    // SAFETY: no instruction.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
            inout(ymm_reg) * a,
            inout(ymm_reg) * b,
            inout(ymm_reg) * c,
            inout(ymm_reg) * d,
            inout(ymm_reg) * e,
            inout(ymm_reg) * f,
            inout(ymm_reg) * g,
            inout(ymm_reg) * h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}

impl Signed {
    /// The sums of `codes`; halves of the piece have a factor each.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn of(codes: &Quads, factors: [__m256i; 2]) -> Signed {
        let magnitudes = codes.map(|codes| _mm256_abs_epi8(codes));
        let below_zero = codes.map(|codes| _mm256_cmpgt_epi8(_mm256_setzero_si256(), codes));
        let mut missing = _mm256_setzero_si256();
        for (half, factor) in factors.into_iter().enumerate() {
            // Four times two magnitudes of at most 128.
            let mut sums = _mm256_setzero_si256();
            for j in 4 * half..4 * half + 4 {
                let below_zero = _mm256_and_si256(magnitudes[j], below_zero[j]);
                sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(below_zero, _mm256_set1_epi8(1)));
            }
            missing = _mm256_add_epi32(missing, _mm256_madd_epi16(sums, factor));
        }
        Signed { magnitudes, below_zero, missing }
    }
}

/// `Σ code · x`, where that fits 16 bits for half of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn whole(codes: &[Quads; 2], x: [&Q8Block; TILE]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
    #[expect(clippy::needless_range_loop, reason = "an iterator's loop is not unrolled, and slower")]
    for j in 0..8 {
        for t in 0..TILE {
            let x = quad(x[t], j);
            for h in 0..2 {
                sums[t][h] = _mm256_add_epi16(sums[t][h], _mm256_maddubs_epi16(codes[h][j], x));
            }
        }
        keep(&mut sums);
    }
    for sums in &mut sums {
        for sum in sums {
            *sum = _mm256_madd_epi16(*sum, _mm256_set1_epi16(1));
        }
    }
    sums
}

/// `Σ factor · code · x`, where that fits 16 bits for a quarter of the columns without the factor.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn by_fours(codes: &[Quads; 2], factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let none = [[_mm256_setzero_si256(); 2]; TILE];
    add_four(add_four(none, codes, factors, x, 0), codes, factors, x, 1)
}

/// As [`by_fours`], where that fits 16 bits for two products of each of two quads.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn by_twos(codes: &[Quads; 2], factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let none = [[_mm256_setzero_si256(); 2]; TILE];
    add_twos(add_twos(none, codes, factors, x, 0), codes, factors, x, 1)
}

/// `Σ factor · code · x` for signed codes of eight bits: magnitudes of codes, of which two products with any activations fit 16
/// bits, times activations whose bits are inverted where the code is below zero, which makes `-x - 1` of them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn signed(codes: &[Signed; 2], factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let missing = [[codes[0].missing, codes[1].missing]; TILE];
    add_signed(add_signed(missing, codes, factors, x, 0), codes, factors, x, 1)
}

/// [`by_fours`] of half `half` of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_four(
    mut totals: Sums,
    codes: &[Quads; 2],
    factors: &Factors,
    x: [&Q8Block; TILE],
    half: usize,
) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
    for step in 0..4 {
        let j = 4 * half + step;
        for t in 0..TILE {
            let x = quad(x[t], j);
            for h in 0..2 {
                sums[t][h] = _mm256_add_epi16(sums[t][h], _mm256_maddubs_epi16(codes[h][j], x));
            }
        }
        keep(&mut sums);
    }
    for t in 0..TILE {
        for h in 0..2 {
            totals[t][h] = _mm256_add_epi32(totals[t][h], _mm256_madd_epi16(sums[t][h], factors[half][h]));
        }
    }
    totals
}

/// [`by_twos`] of half `half` of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_twos(mut sums: Sums, codes: &[Quads; 2], factors: &Factors, x: [&Q8Block; TILE], half: usize) -> Sums {
    for j in [4 * half, 4 * half + 2] {
        for t in 0..TILE {
            let (a, b) = (quad(x[t], j), quad(x[t], j + 1));
            for h in 0..2 {
                let (a, b) = (_mm256_maddubs_epi16(codes[h][j], a), _mm256_maddubs_epi16(codes[h][j + 1], b));
                let both = _mm256_madd_epi16(_mm256_add_epi16(a, b), factors[half][h]);
                sums[t][h] = _mm256_add_epi32(sums[t][h], both);
            }
        }
        keep(&mut sums);
    }
    sums
}

/// [`signed`] of half `half` of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_signed(
    mut sums: Sums,
    codes: &[Signed; 2],
    factors: &Factors,
    x: [&Q8Block; TILE],
    half: usize,
) -> Sums {
    for step in 0..4 {
        let j = 4 * half + step;
        for t in 0..TILE {
            let x = quad(x[t], j);
            for h in 0..2 {
                let signed = _mm256_xor_si256(x, codes[h].below_zero[j]);
                let products = _mm256_maddubs_epi16(codes[h].magnitudes[j], signed);
                sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_madd_epi16(products, factors[half][h]));
            }
        }
        keep(&mut sums);
    }
    sums
}
