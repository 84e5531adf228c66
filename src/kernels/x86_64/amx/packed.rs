//! Products with packed weights (see [`crate::quant::packed`]) on tiles: sixteen rows times sixteen vectors of
//! activations. Codes and activations lie as tiles want them; the scales meet the sums of a piece in the registers of
//! AVX-512, in the order of that level's products, so that a result has the same bits.

use std::arch::x86_64::*;

use super::super::avx512::formats::{self, Parts};
use super::super::avx512::packed;
use super::tiles::{Quads, Sums, Tiles};
use crate::kernels::PackedProduct;
use crate::quant::packed::{Group, ROWS};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

/// Pieces whose codes lie ready while vectors pass by.
const RUN: usize = 4;
/// Vectors that make a tile; fewer are left to AVX-512.
const VECTORS: usize = 16;

/// The products of this level, by format.
pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
    let mut table = packed::TABLE;
    table[Format::Q4_0 as usize] = Some(q4_0::product);
    table[Format::Q4_1 as usize] = Some(q4_1::product);
    table[Format::Q5_0 as usize] = Some(q5_0::product);
    table[Format::Q5_1 as usize] = Some(q5_1::product);
    table[Format::Q8_0 as usize] = Some(q8_0::product);
    table[Format::Q2_K as usize] = Some(q2_k::product);
    table[Format::Q3_K as usize] = Some(q3_k::product);
    table[Format::Q4_K as usize] = Some(q4_k::product);
    table[Format::Q5_K as usize] = Some(q5_k::product);
    table[Format::Q6_K as usize] = Some(q6_k::product);
    table[Format::IQ4_NL as usize] = Some(iq4_nl::product);
    table[Format::IQ4_XS as usize] = Some(iq4_xs::product);
    table[Format::MXFP4 as usize] = Some(mxfp4::product);
    table[Format::NVFP4 as usize] = Some(nvfp4::product);
    table[Format::IQ1_S as usize] = Some(iq1_s::product);
    table[Format::IQ1_M as usize] = Some(iq1_m::product);
    table[Format::IQ2_XXS as usize] = Some(iq2_xxs::product);
    table[Format::IQ2_XS as usize] = Some(iq2_xs::product);
    table[Format::IQ2_S as usize] = Some(iq2_s::product);
    table[Format::IQ3_XXS as usize] = Some(iq3_xxs::product);
    table[Format::IQ3_S as usize] = Some(iq3_s::product);
    table[Format::TQ1_0 as usize] = Some(tq1_0::product);
    table[Format::TQ2_0 as usize] = Some(tq2_0::product);
    table[Format::Q1_0 as usize] = Some(q1_0::product);
    table[Format::Q2_0 as usize] = Some(q2_0::product);
    table
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn store(codes: [__m512i; 8], out: &mut Quads) {
    for (quad, out) in codes.into_iter().zip(&mut out.0) {
        // SAFETY: `out` has room for 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), quad) };
    }
}

/// The sums of one vector, and what they begin with, as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load(sums: &Sums, vector: usize, begin: __m512i) -> __m512 {
    let sums = &sums.0[vector];
    // SAFETY: there are 64 bytes.
    let sums = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
    _mm512_cvtepi32_ps(_mm512_add_epi32(begin, sums))
}

/// The product of each format.
macro_rules! products {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;
            use formats::$name as format;

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
                let tiles = unsafe { Tiles::configure(format::HALVES) };
                let mut quads = [Quads([[0; 64]; 8]); RUN];
                let mut sums = [[Sums([[0; ROWS]; VECTORS]); 2]; RUN];
                let mut lines = [[_mm512_setzero_ps(); format::LINES]; RUN];
                out.fill(0.0);
                for first in (0..n).step_by(RUN) {
                    let run = RUN.min(n - first);
                    for i in 0..run {
                        store(format::codes(parts, first + i), &mut quads[i]);
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
                        let begin = format::begin(x);
                        let sums = match format::HALVES {
                            true => [load(&sums[2 * i], t, begin[0]), load(&sums[2 * i + 1], t, begin[1])],
                            false => [load(&sums[i], t, begin[0]); 2],
                        };
                        acc = format::add(acc, sums, lines[i], x);
                    }
                    // SAFETY: `row` has room for 16 numbers.
                    unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
                }
            }
        }
    )* };
}

products!(q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 tq2_0 q1_0 q2_0);
products!(iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0);
