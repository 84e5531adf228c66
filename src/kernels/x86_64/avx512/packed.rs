//! Products with packed weights (see [`crate::quant::packed`]): sixteen rows at a time, one in each 32-bit lane, and up
//! to eight vectors of activations, whose quads are broadcast to all lanes.

use std::arch::x86_64::*;

use super::formats::{self, Parts};
pub use super::runs::{iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, tq1_0};
use crate::kernels::PackedProduct;
use crate::quant::packed::{Group, ROWS};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

/// Activation vectors that share the codes of a piece while these are in registers.
const TOKENS: usize = 2 * TURNS;

/// The products of this level, by format.
pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
    let mut table: [Option<PackedProduct>; FORMAT_COUNT] = [None; FORMAT_COUNT];
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

/// Vectors whose additions alternate: additions to one alone would wait for each other.
const TURNS: usize = 4;

/// Adds the products of piece `$i` with vectors `$first..`, up to as many as alternate. It is a macro: compilers would not inline
/// a function, nor unroll a loop, for many vectors, and then sums would go through memory.
macro_rules! turn {
    ($first:expr, $n:ident, $piece:ident, $codes:ident, $line:ident, $vectors:ident, $i:ident, $acc:ident) => {
        let mut numbers = [[_mm512_setzero_ps(); TURNS]; 2];
        for half in 0..2 {
            let quads = match (format::HALVES, half) {
                (true, _) => half * 4..half * 4 + 4,
                (false, 0) => 0..8,
                (false, _) => break,
            };
            let mut sums = [_mm512_setzero_si512(); TURNS];
            for t in 0..TURNS {
                if $first + t < $n {
                    sums[t] = format::begin(&$vectors[$first + t][$i])[half];
                }
            }
            for j in quads {
                for t in 0..TURNS {
                    if $first + t < $n {
                        let quads: &[[u8; 4]; 8] = bytemuck::cast_ref(&$vectors[$first + t][$i].qs);
                        let quad = _mm512_set1_epi32(i32::from_le_bytes(quads[j]));
                        // Codes of one vector are read where they are multiplied, which is 2 to 5 % faster (Zen 5).
                        let codes = if $n == 1 { format::quad($piece, j) } else { $codes[j] };
                        sums[t] = _mm512_dpbusd_epi32(sums[t], codes, quad);
                    }
                }
            }
            for t in 0..TURNS {
                numbers[half][t] = _mm512_cvtepi32_ps(sums[t]);
            }
        }
        for t in 0..TURNS {
            if $first + t < $n {
                let sums = [numbers[0][t], numbers[1][t]];
                $acc[$first + t] = format::add($acc[$first + t], sums, $line, &$vectors[$first + t][$i]);
            }
        }
    };
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(out: &mut [f32; ROWS], x: __m512) {
    // SAFETY: there is space for 16 numbers.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), x) };
}

/// The product of each format.
macro_rules! products {
    ($($name:ident)*) => { $(
        pub mod $name {
            use super::*;
            use formats::$name as format;

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let parts = Parts::of(group, format::CODES, format::SCALES);
                let n = group.n_pieces;
                let mut fetches = true;
                let (mut x, mut out) = (x, out);
                while !out.is_empty() && n > 0 {
                    let tokens = match out.len() / ROWS {
                        TOKENS.. => TOKENS,
                        fewer => fewer,
                    };
                    let (x_now, x_rest) = x.split_at(tokens * n);
                    let (out_now, out_rest) = out.split_at_mut(tokens * ROWS);
                    // SAFETY: this function is reached through the table of this level only, which is handed out
                    // on machines that have its instructions.
                    unsafe {
                        match tokens {
                            TOKENS => tile::<TOKENS>(&parts, n, fetches, x_now, out_now),
                            7 => tile::<7>(&parts, n, fetches, x_now, out_now),
                            6 => tile::<6>(&parts, n, fetches, x_now, out_now),
                            5 => tile::<5>(&parts, n, fetches, x_now, out_now),
                            4 => tile::<4>(&parts, n, fetches, x_now, out_now),
                            3 => tile::<3>(&parts, n, fetches, x_now, out_now),
                            2 => tile::<2>(&parts, n, fetches, x_now, out_now),
                            _ => tile::<1>(&parts, n, fetches, x_now, out_now),
                        }
                    }
                    // The first vectors have fetched the weights for the others.
                    (x, out, fetches) = (x_rest, out_rest, false);
                }
                out.fill(0.0);
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn tile<const N: usize>(parts: &Parts<'_>, n: usize, fetches: bool, x: &[Q8Block], out: &mut [f32]) {
                let (mut vectors, mut rest): ([&[Q8Block]; N], _) = ([&[]; N], x);
                for vector in &mut vectors {
                    (*vector, rest) = rest.split_at(n);
                }
                let mut acc = [_mm512_setzero_ps(); N];
                let bytes = format::CODES.bytes();
                for i in 0..n {
                    if fetches {
                        parts.prefetch(i, bytes + format::SCALES.bytes_with_units(), N == 1);
                    }
                    let piece = &parts.codes[i * bytes..][..bytes];
                    let (codes, line) = (format::codes(parts, i), format::line(parts, i));
                    turn!(0, N, piece, codes, line, vectors, i, acc);
                    turn!(TURNS, N, piece, codes, line, vectors, i, acc);
                }
                for (acc, out) in acc.into_iter().zip(out.as_chunks_mut::<ROWS>().0) {
                    store(out, acc);
                }
            }
        }
    )* };
}

products!(q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 tq2_0 q1_0 q2_0);
