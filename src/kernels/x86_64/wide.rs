//! Products with packed weights as whole numbers of 16 bits: pairs of sixteen rows at a time, one row in each 32-bit lane, and
//! some vectors of activations, whose pairs are broadcast to all lanes.

use super::avx2::group::Parts;
use crate::kernels::simd::Simd;
use crate::kernels::wide::I16Block;
use crate::quant::packed::{COLS, Codes, Group, ROWS, STRIP, Scales};

/// Most vector registers that sixteen rows fill.
const PARTS: usize = 2;
/// Sums that a single vector's products are added to in turns, since those of one sum would wait for each other.
const TURNS: usize = 4;
/// Vectors that are multiplied with two groups at a time.
const TILE: usize = 4;

/// What these products need beyond [`Simd`].
pub trait AddWhole: Simd {
    /// `a + b`, modulo 2^32.
    fn add_whole(self, a: Self::I, b: Self::I) -> Self::I;
}

/// See [`crate::kernels::Wide::product`].
#[inline(always)]
pub fn product<S: AddWhole>(simd: S, group: &Group<'_>, x: &[I16Block], out: &mut [f32]) {
    let n = group.n_pieces;
    if n == 0 {
        return out.fill(0.0);
    }
    let parts = [&Parts::of(group, Codes::Wide, Scales::Unit)];
    let (mut x, mut out, mut fetches) = (x, out, true);
    while !out.is_empty() {
        let n_vectors = match (out.len() / ROWS, S::LANES) {
            (8.., 16) => tile::<S, 8, 1>(simd, parts, n, fetches, x, [out]),
            (4.., _) => tile::<S, 4, 1>(simd, parts, n, fetches, x, [out]),
            (3, _) => tile::<S, 3, 1>(simd, parts, n, fetches, x, [out]),
            (2, _) => tile::<S, 2, 1>(simd, parts, n, fetches, x, [out]),
            (1, _) => tile::<S, 1, 1>(simd, parts, n, fetches, x, [out]),
            (0, _) => return out.fill(0.0),
        };
        // What the first vectors have fetched is there for the others.
        (x, out, fetches) = (&x[n_vectors * n..], &mut out[n_vectors * ROWS..], false);
    }
}

/// See [`crate::kernels::Wide::pair`].
#[inline(always)]
pub fn pair<S: AddWhole>(simd: S, groups: [&Group<'_>; 2], x: &[I16Block], out: [&mut [f32]; 2]) {
    let n = groups[0].n_pieces;
    assert_eq!(n, groups[1].n_pieces, "groups of one matrix");
    let parts = groups.map(|group| Parts::of(group, Codes::Wide, Scales::Unit));
    let ([mut low, mut high], mut x, mut fetches) = (out, x, true);
    while n > 0 && low.len() >= TILE * ROWS {
        tile::<S, TILE, 2>(simd, parts.each_ref(), n, fetches, x, [low, high]);
        (low, high) = (&mut low[TILE * ROWS..], &mut high[TILE * ROWS..]);
        (x, fetches) = (&x[TILE * n..], false);
    }
    product(simd, groups[0], x, low);
    product(simd, groups[1], x, high);
}

/// The products of `n` pieces of each group with the first `N` vectors; returns `N`. For one vector alone nothing is fetched ahead:
/// pieces are so long that processors see them coming, and on Zen 4 it is 5 to 20 % faster.
#[inline(always)]
fn tile<S: AddWhole, const N: usize, const G: usize>(
    simd: S,
    parts: [&Parts<'_>; G],
    n: usize,
    fetches: bool,
    x: &[I16Block],
    out: [&mut [f32]; G],
) -> usize {
    let mut vectors: [&[I16Block]; N] = [&[]; N];
    for (t, vector) in vectors.iter_mut().enumerate() {
        *vector = &x[t * n..][..n];
    }
    let registers = ROWS / S::LANES;
    let codes: [&[[i16; ROWS * COLS]]; G] =
        parts.map(|parts| &bytemuck::cast_slice::<u8, i16>(parts.codes).as_chunks().0[..n]);
    let mut totals = [[[simd.splat(0.0); PARTS]; G]; N];
    for first in (0..n).step_by(STRIP) {
        let mut strips = [[[simd.splat(0.0); PARTS]; G]; N];
        for i in first..n.min(first + STRIP) {
            if fetches && N > 1 {
                let bytes = Codes::Wide.bytes() + Scales::Unit.bytes_with_units();
                for parts in parts {
                    // SAFETY: levels that have these products have AVX2.
                    unsafe { parts.prefetch(i, bytes, false) };
                }
            }
            let sums = match N {
                1 => sums_in_turns(simd, codes, &vectors, i),
                _ => sums(simd, codes, &vectors, i),
            };
            for t in 0..N {
                let d = simd.splat(vectors[t][i].d);
                for g in 0..G {
                    for v in 0..registers {
                        strips[t][g][v] = simd.mul_add(simd.numbers(sums[t][g][v]), d, strips[t][g][v]);
                    }
                }
            }
        }
        for g in 0..G {
            let units = bytemuck::cast_slice(&parts[g].units[2 * ROWS * first / STRIP..][..2 * ROWS]);
            for v in 0..registers {
                let unit = simd.load_bf16(&units[v * S::LANES..]);
                for t in 0..N {
                    totals[t][g][v] = simd.mul_add(strips[t][g][v], unit, totals[t][g][v]);
                }
            }
        }
    }
    for (g, out) in out.into_iter().enumerate() {
        for (totals, out) in totals.iter().zip(out.as_chunks_mut::<ROWS>().0) {
            for v in 0..registers {
                simd.store(totals[g][v], &mut out[v * S::LANES..]);
            }
        }
    }
    N
}

/// What piece `i` of each group gives for each vector.
#[inline(always)]
fn sums<S: Simd, const N: usize, const G: usize>(
    simd: S,
    codes: [&[[i16; ROWS * COLS]]; G],
    vectors: &[&[I16Block]; N],
    i: usize,
) -> [[[S::I; PARTS]; G]; N] {
    let registers = ROWS / S::LANES;
    let codes = codes.map(|codes| &codes[i]);
    let mut sums = [[[simd.zeros(); PARTS]; G]; N];
    for pair in 0..COLS / 2 {
        let mut w = [[simd.zeros(); PARTS]; G];
        for g in 0..G {
            for v in 0..registers {
                w[g][v] = simd.load_pairs(&codes[g][2 * (ROWS * pair + S::LANES * v)..]);
            }
        }
        for t in 0..N {
            let x = simd.splat_pair(vectors[t][i].qs.as_chunks::<2>().0[pair]);
            for g in 0..G {
                for v in 0..registers {
                    sums[t][g][v] = simd.add_products(sums[t][g][v], w[g][v], x);
                }
            }
        }
    }
    sums
}

/// As [`sums`] for few vectors.
#[inline(always)]
fn sums_in_turns<S: AddWhole, const N: usize, const G: usize>(
    simd: S,
    codes: [&[[i16; ROWS * COLS]]; G],
    vectors: &[&[I16Block]; N],
    i: usize,
) -> [[[S::I; PARTS]; G]; N] {
    let registers = ROWS / S::LANES;
    let mut all = [[[simd.zeros(); PARTS]; G]; N];
    for (t, g) in (0..N).flat_map(|t| (0..G).map(move |g| (t, g))) {
        let mut sums = [[simd.zeros(); PARTS]; TURNS];
        let pairs = vectors[t][i].qs.as_chunks::<2>().0.as_chunks::<TURNS>().0;
        let fours = codes[g][i].as_chunks::<{ TURNS * 2 * ROWS }>().0;
        for (x, codes) in pairs.iter().zip(fours) {
            for turn in 0..TURNS {
                let x = simd.splat_pair(x[turn]);
                for v in 0..registers {
                    let w = simd.load_pairs(&codes[2 * (ROWS * turn + S::LANES * v)..]);
                    sums[turn][v] = simd.add_products(sums[turn][v], w, x);
                }
            }
        }
        for v in 0..registers {
            let [a, b, c, d] = sums.map(|sum| sum[v]);
            all[t][g][v] = simd.add_whole(simd.add_whole(a, b), simd.add_whole(c, d));
        }
    }
    all
}
