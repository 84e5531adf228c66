//! Products of a packed group with many vectors: a run of pieces is expanded to bytes, which stay in the first cache while all
//! vectors are multiplied with them, four at a time. Each quad of activations is broadcast once for all sixteen rows, and eight
//! sums are under way together. Integer sums are exact, so a vector's products have the bits that it gets alone.

use std::arch::asm;
use std::arch::x86_64::*;

use super::group::quad;
use crate::quant::Q8Block;

/// Pieces that are expanded at a time.
pub const RUN: usize = 8;
/// Vectors that are multiplied at a time.
pub const TILE: usize = 4;

/// Codes of sixteen rows: of each quad those of the first eight and of the others.
pub type Quads = [[__m256i; 2]; 8];
/// What each of a tile's vectors gives for the first eight rows and for the others.
pub type Sums = [[__m256i; 2]; TILE];
/// A number for both halves of each lane: for the first eight rows and the others, and of each for the first half of a piece and
/// for the second.
pub type Factors = [[__m256i; 2]; 2];

/// The function `many` of a format, see `packed_products!`. `$kind` is how codes become sums, see [`sums!`].
macro_rules! many {
    ($kind:ident, $read:expr) => {
        /// Multiplies four vectors at a time as long as there are so many. Returns how many that were.
        fn many(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) -> usize {
            let n_many = out.len() / ROWS / TILE * TILE;
            if n_many > 0 {
                run(tiles, parts, n, x, &mut out[..n_many * ROWS]);
            }
            n_many
        }

        #[target_feature(enable = "avx2,fma,f16c")]
        fn tiles(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
            let out = out.as_chunks_mut::<LANES>().0.as_chunks_mut::<2>().0.as_chunks_mut::<TILE>().0;
            out.as_flattened_mut().fill([[0.0; LANES]; 2]);
            if n == 0 {
                return;
            }
            let mut quads = [[[_mm256_setzero_si256(); 2]; 8]; RUN];
            let mut lines = [[line(parts, 0, 0); 2]; RUN];
            for first in (0..n).step_by(RUN) {
                let run = RUN.min(n - first);
                for (i, (quads, lines)) in (first..first + run).zip(quads.iter_mut().zip(&mut lines)) {
                    parts.prefetch(i, CODES.bytes() + SCALES.bytes_with_units(), false);
                    let piece = &parts.codes[i * CODES.bytes()..][..CODES.bytes()];
                    for h in 0..2 {
                        let codes = $read(piece, h);
                        for j in 0..8 {
                            quads[j][h] = codes[j];
                        }
                        lines[h] = line(parts, i, h);
                    }
                }
                for (x, out) in x.chunks_exact(TILE * n).zip(out.iter_mut()) {
                    let mut vectors: [&[Q8Block]; TILE] = [&[]; TILE];
                    for (t, vector) in vectors.iter_mut().enumerate() {
                        *vector = &x[t * n + first..][..run];
                    }
                    for i in 0..run {
                        let blocks = vectors.map(|vector| &vector[i]);
                        let sums = sums!($kind, &quads[i], &lines[i], blocks);
                        for t in 0..TILE {
                            for h in 0..2 {
                                let total = add(load_f32(&out[t][h]), lines[i][h], sums[t][h], blocks[t]);
                                store_f32(&mut out[t][h], total);
                            }
                        }
                    }
                }
            }
        }
    };
}

/// The sums of a tile, of which those of all quads fit 16 bits (`whole`), or of four or of two. Halves of pieces have scales in
/// some formats. Codes are `signed` numbers of eight bits in others, of which not even two quads' sums fit.
macro_rules! sums {
    (whole, $quads:expr, $lines:expr, $x:expr) => {
        whole($quads, $x)
    };
    (fours, $quads:expr, $lines:expr, $x:expr) => {
        by_fours($quads, &[[_mm256_set1_epi16(1); 2]; 2], $x)
    };
    (half_fours, $quads:expr, $lines:expr, $x:expr) => {
        by_fours($quads, &[$lines[0].1, $lines[1].1], $x)
    };
    (half_twos, $quads:expr, $lines:expr, $x:expr) => {
        by_twos($quads, &[$lines[0].1, $lines[1].1], $x)
    };
    (signed, $quads:expr, $lines:expr, $x:expr) => {
        signed($quads, &[[_mm256_set1_epi16(1); 2]; 2], $x)
    };
    (signed_halves, $quads:expr, $lines:expr, $x:expr) => {
        signed($quads, &[$lines[0].1, $lines[1].1], $x)
    };
}

/// Has the sums in registers here: compilers would add in another order, for which there are too few.
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

/// `Σ code · x`, where that fits 16 bits for half of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn whole(quads: &Quads, x: [&Q8Block; TILE]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
    for (j, codes) in quads.iter().enumerate() {
        for t in 0..TILE {
            let x = quad(x[t], j);
            for h in 0..2 {
                sums[t][h] = _mm256_add_epi16(sums[t][h], _mm256_maddubs_epi16(codes[h], x));
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
pub fn by_fours(quads: &Quads, factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let mut totals = [[_mm256_setzero_si256(); 2]; TILE];
    for (half, quads) in quads.as_chunks::<4>().0.iter().enumerate() {
        let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
        for (j, codes) in quads.iter().enumerate() {
            for t in 0..TILE {
                let x = quad(x[t], 4 * half + j);
                for h in 0..2 {
                    sums[t][h] = _mm256_add_epi16(sums[t][h], _mm256_maddubs_epi16(codes[h], x));
                }
            }
            keep(&mut sums);
        }
        for t in 0..TILE {
            for h in 0..2 {
                totals[t][h] =
                    _mm256_add_epi32(totals[t][h], _mm256_madd_epi16(sums[t][h], factors[h][half]));
            }
        }
    }
    totals
}

/// `Σ factor · code · x`, where that fits 16 bits for two products of each of two quads.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn by_twos(quads: &Quads, factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
    for j in (0..8).step_by(2) {
        for t in 0..TILE {
            let (a, b) = (quad(x[t], j), quad(x[t], j + 1));
            for h in 0..2 {
                let (a, b) = (_mm256_maddubs_epi16(quads[j][h], a), _mm256_maddubs_epi16(quads[j + 1][h], b));
                let both = _mm256_madd_epi16(_mm256_add_epi16(a, b), factors[h][j / 4]);
                sums[t][h] = _mm256_add_epi32(sums[t][h], both);
            }
        }
        keep(&mut sums);
    }
    sums
}

/// `Σ factor · code · x` for signed codes of eight bits: magnitudes of codes are multiplied with activations that have their
/// signs, since two products of any fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn signed(quads: &Quads, factors: &Factors, x: [&Q8Block; TILE]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; TILE];
    for j in 0..8 {
        let magnitudes = quads[j].map(|codes| _mm256_abs_epi8(codes));
        for t in 0..TILE {
            let x = quad(x[t], j);
            for h in 0..2 {
                let products = _mm256_maddubs_epi16(magnitudes[h], _mm256_sign_epi8(x, quads[j][h]));
                sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_madd_epi16(products, factors[h][j / 4]));
            }
        }
        keep(&mut sums);
    }
    sums
}
