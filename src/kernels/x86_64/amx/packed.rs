//! Products with packed weights (see [`crate::quant::packed`]) on tiles: sixteen rows times sixteen vectors of
//! activations. Codes and activations lie as tiles want them; the scales meet the sums of a piece in the registers of
//! AVX-512, in the order of that level's products, so that a result has the same bits. Tiles multiply signed codes too: those that
//! AVX-512 reads 128 too large, and takes the excess from each sum, are what they stand for here.

use std::arch::x86_64::*;

use super::super::avx512::formats::{self, Parts};
use super::super::avx512::{packed, pairs};
use super::tiles::{Quads, Sums, Tiles};
use crate::kernels::{PackedPair, PackedProduct};
use crate::quant::packed::{Group, ROWS};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

/// Pieces whose codes lie ready while vectors pass by.
const RUN: usize = 4;
/// Vectors that make a tile; fewer are left to AVX-512.
const VECTORS: usize = 16;

/// The products of this level, by format, and those with pairs of groups: tiles share what they read by themselves. Formats whose halves
/// of pieces have scales of their own are left to AVX-512. They would fill half as much of each tile, and are a third slower on tiles
/// (Emerald Rapids, IQ2_XS).
macro_rules! tables {
    ($($format:ident $name:ident),* $(,)?) => {
        pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
            let mut table = packed::TABLE;
            $(table[Format::$format as usize] = Some($name::product);)*
            table
        };
        pub const PAIRS: [Option<PackedPair>; FORMAT_COUNT] = {
            let mut table = pairs::TABLE;
            $(table[Format::$format as usize] = None;)*
            table
        };
        products!($($name)*);
    };
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn store<const BIASED: bool>(codes: [__m512i; 8], out: &mut Quads) {
    for (quad, out) in codes.into_iter().zip(&mut out.0) {
        let quad = if BIASED { _mm512_xor_si512(quad, _mm512_set1_epi8(-128)) } else { quad };
        // SAFETY: `out` holds 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), quad) };
    }
}

/// The sums of one vector as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load(sums: &Sums, vector: usize) -> __m512 {
    let sums = &sums.0[vector];
    // SAFETY: there are 64 bytes.
    _mm512_cvtepi32_ps(unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) })
}

/// The product of each format.
macro_rules! products {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;
            use formats::$name as format;

            const _: () = assert!(!format::HALVES);

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let n = group.n_pieces;
                let vectors = if n > 0 { out.len() / ROWS / VECTORS * VECTORS } else { 0 };
                let (x, x_rest) = x.split_at(vectors * n);
                let (out, out_rest) = out.split_at_mut(vectors * ROWS);
                if vectors > 0 {
                    // SAFETY: this function is reached through the table of this level only, which is handed out on
                    // machines that have its instructions.
                    unsafe { tiled(&Parts::of(group, format::CODES, format::SCALES), n, x, out) };
                }
                packed::$name::product(group, x_rest, out_rest);
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn tiled(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                // SAFETY: this function runs on machines that have tiles, and calls none that configures them.
                let tiles = unsafe { Tiles::configure(format::BIASED) };
                let mut quads = [Quads([[0; 64]; 8]); RUN];
                let mut sums = [[Sums([[0; ROWS]; VECTORS]); 2]; RUN / 2];
                let mut lines = [[_mm512_setzero_ps(); format::LINES]; RUN];
                out.fill(0.0);
                for first in (0..n).step_by(RUN) {
                    let run = RUN.min(n - first);
                    for i in 0..run {
                        store::<{ format::BIASED }>(format::codes(parts, first + i), &mut quads[i]);
                        lines[i] = format::line(parts, first + i);
                    }
                    let blocks = out.as_chunks_mut::<ROWS>().0.as_chunks_mut::<VECTORS>().0;
                    for (x, out) in x.chunks_exact(VECTORS * n).zip(blocks) {
                        let x = &x[first..];
                        tiles.multiply(&quads[..run], x, n, &mut sums);
                        let sums = sums.as_flattened();
                        match run {
                            4 => scale::<4>(&lines, sums, x, n, out),
                            3 => scale::<3>(&lines, sums, x, n, out),
                            2 => scale::<2>(&lines, sums, x, n, out),
                            _ => scale::<1>(&lines, sums, x, n, out),
                        }
                    }
                }
            }

            /// Adds what a run of `N` pieces gives to sixteen vectors, whose blocks begin at `x[t * n]`.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn scale<const N: usize>(
                lines: &[[__m512; format::LINES]; RUN],
                sums: &[Sums],
                x: &[Q8Block],
                n: usize,
                out: &mut [[f32; ROWS]; VECTORS],
            ) {
                let lines = &lines.as_chunks::<N>().0[0];
                for (t, row) in out.iter_mut().enumerate() {
                    // SAFETY: there are 16 numbers.
                    let mut acc = unsafe { _mm512_loadu_ps(row.as_ptr()) };
                    for (i, x) in x[t * n..][..N].iter().enumerate() {
                        acc = format::add(acc, [load(&sums[i], t); 2], lines[i], x);
                    }
                    // SAFETY: `row` holds 16 numbers.
                    unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
                }
            }
        }
    )* };
}

tables!(
    Q4_0 q4_0, Q4_1 q4_1, Q5_0 q5_0, Q5_1 q5_1, Q8_0 q8_0, Q4_K q4_k, Q5_K q5_k, IQ4_NL iq4_nl, MXFP4 mxfp4, IQ1_S iq1_s, IQ2_XXS iq2_xxs, IQ3_XXS iq3_xxs, IQ3_S iq3_s, TQ1_0 tq1_0, TQ2_0 tq2_0, Q1_0 q1_0, Q2_0 q2_0,
);
