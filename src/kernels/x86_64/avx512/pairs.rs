//! Products of two groups of packed rows (see [`crate::quant::packed`]) with many vectors: a run of pieces is expanded to bytes,
//! which stay in the first cache while all vectors are multiplied with them, four at a time. Each quad of activations is
//! broadcast for both groups: Zen 5 multiplies as many quads in a cycle as it reads.

use std::arch::x86_64::*;

use super::formats::{self, Parts};
use super::packed::{self, store};
use crate::kernels::PackedPair;
use crate::quant::packed::{Group, ROWS};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

/// The products of this level, by format. Three are as fast group by group: Q8_0 need not be expanded, and of Q4_1 and Q4_K
/// what sums are multiplied with takes the time.
pub const TABLE: [Option<PackedPair>; FORMAT_COUNT] = {
    let mut table: [Option<PackedPair>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::Q4_0 as usize] = Some(q4_0::pair);
    table[Format::Q5_0 as usize] = Some(q5_0::pair);
    table[Format::Q5_1 as usize] = Some(q5_1::pair);
    table[Format::Q2_K as usize] = Some(q2_k::pair);
    table[Format::Q3_K as usize] = Some(q3_k::pair);
    table[Format::Q5_K as usize] = Some(q5_k::pair);
    table[Format::Q6_K as usize] = Some(q6_k::pair);
    table[Format::IQ4_NL as usize] = Some(iq4_nl::pair);
    table[Format::IQ4_XS as usize] = Some(iq4_xs::pair);
    table[Format::MXFP4 as usize] = Some(mxfp4::pair);
    table[Format::NVFP4 as usize] = Some(nvfp4::pair);
    table[Format::IQ1_S as usize] = Some(iq1_s::pair);
    table[Format::IQ1_M as usize] = Some(iq1_m::pair);
    table[Format::IQ2_XXS as usize] = Some(iq2_xxs::pair);
    table[Format::IQ2_XS as usize] = Some(iq2_xs::pair);
    table[Format::IQ2_S as usize] = Some(iq2_s::pair);
    table[Format::IQ3_XXS as usize] = Some(iq3_xxs::pair);
    table[Format::IQ3_S as usize] = Some(iq3_s::pair);
    table[Format::TQ1_0 as usize] = Some(tq1_0::pair);
    table[Format::TQ2_0 as usize] = Some(tq2_0::pair);
    table[Format::Q1_0 as usize] = Some(q1_0::pair);
    table[Format::Q2_0 as usize] = Some(q2_0::pair);
    table
};

/// Pieces that are expanded at a time.
const RUN: usize = 8;
/// Vectors that are multiplied at a time: with both groups as many sums as do not wait for each other.
const TILE: usize = 4;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; ROWS]) -> __m512 {
    // SAFETY: there are 16 numbers.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

/// The product of each format.
macro_rules! pairs {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;
            use formats::$name as format;

            /// The product of this format.
            pub fn pair(groups: [&Group<'_>; 2], x: &[Q8Block], out: [&mut [f32]; 2]) {
                let n = groups[0].n_pieces;
                assert_eq!(n, groups[1].n_pieces, "groups of one matrix");
                let vectors = if n > 0 { out[0].len() / ROWS / TILE * TILE } else { 0 };
                let (x, x_rest) = x.split_at(vectors * n);
                let [low, high] = out.map(|out| out.split_at_mut(vectors * ROWS));
                if vectors > 0 {
                    let parts = groups.map(|group| Parts::of(group, format::CODES, format::SCALES));
                    // SAFETY: this function is reached through the table of this level only, which is handed out
                    // on machines that have its instructions.
                    unsafe { tiles(&parts, n, x, [low.0, high.0]) };
                }
                packed::$name::product(groups[0], x_rest, low.1);
                packed::$name::product(groups[1], x_rest, high.1);
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn tiles(parts: &[Parts<'_>; 2], n: usize, x: &[Q8Block], out: [&mut [f32]; 2]) {
                let [low, high] = out.map(|out| out.as_chunks_mut::<ROWS>().0.as_chunks_mut::<TILE>().0);
                let mut quads = [[[_mm512_setzero_si512(); 2]; 8]; RUN];
                let mut lines = [[[_mm512_setzero_ps(); format::LINES]; 2]; RUN];
                let bytes_in_all = format::CODES.bytes() + format::SCALES.bytes_with_units();
                for first in (0..n).step_by(RUN) {
                    let run = RUN.min(n - first);
                    let mut fetched = first * bytes_in_all;
                    let share = (run * bytes_in_all).div_ceil(low.len());
                    for (i, (quads, lines)) in (first..first + run).zip(quads.iter_mut().zip(&mut lines)) {
                        for g in 0..2 {
                            for (quads, codes) in quads.iter_mut().zip(format::codes(&parts[g], i)) {
                                quads[g] = codes;
                            }
                            lines[g] = format::line(&parts[g], i);
                        }
                    }
                    for (x, (low, high)) in x.chunks_exact(TILE * n).zip(low.iter_mut().zip(&mut *high)) {
                        // Meanwhile the same run of the next two groups is fetched, a little for each tile.
                        let end = (fetched + share).min((first + run) * bytes_in_all);
                        for parts in parts {
                            parts.fetch(fetched..end, 2 * n * bytes_in_all);
                        }
                        fetched = end;
                        let mut vectors: [&[Q8Block]; TILE] = [&[]; TILE];
                        let mut acc = [[_mm512_setzero_ps(); TILE]; 2];
                        for t in 0..TILE {
                            vectors[t] = &x[t * n + first..][..run];
                            if first > 0 {
                                (acc[0][t], acc[1][t]) = (load(&low[t]), load(&high[t]));
                            }
                        }
                        for i in 0..run {
                            let mut numbers = [[[_mm512_setzero_ps(); TILE]; 2]; 2];
                            for half in 0..2 {
                                let these = match (format::HALVES, half) {
                                    (true, _) => half * 4..half * 4 + 4,
                                    (false, 0) => 0..8,
                                    (false, _) => break,
                                };
                                let mut sums = [[_mm512_setzero_si512(); TILE]; 2];
                                for t in 0..TILE {
                                    let begin = format::begin(&vectors[t][i])[half];
                                    (sums[0][t], sums[1][t]) = (begin, begin);
                                }
                                for j in these {
                                    for t in 0..TILE {
                                        let x: &[[u8; 4]; 8] = bytemuck::cast_ref(&vectors[t][i].qs);
                                        let x = _mm512_set1_epi32(i32::from_le_bytes(x[j]));
                                        sums[0][t] = _mm512_dpbusd_epi32(sums[0][t], quads[i][j][0], x);
                                        sums[1][t] = _mm512_dpbusd_epi32(sums[1][t], quads[i][j][1], x);
                                    }
                                }
                                for t in 0..TILE {
                                    numbers[half][0][t] = _mm512_cvtepi32_ps(sums[0][t]);
                                    numbers[half][1][t] = _mm512_cvtepi32_ps(sums[1][t]);
                                }
                            }
                            for t in 0..TILE {
                                let x = &vectors[t][i];
                                let sums = [[numbers[0][0][t], numbers[1][0][t]], [numbers[0][1][t], numbers[1][1][t]]];
                                acc[0][t] = format::add(acc[0][t], sums[0], lines[i][0], x);
                                acc[1][t] = format::add(acc[1][t], sums[1], lines[i][1], x);
                            }
                        }
                        for t in 0..TILE {
                            store(&mut low[t], acc[0][t]);
                            store(&mut high[t], acc[1][t]);
                        }
                    }
                }
            }
        }
    )* };
}

pairs!(q4_0 q5_0 q5_1 q2_k q3_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 q1_0 q2_0);
