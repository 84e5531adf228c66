//! Products with formats whose codes are looked up ([`super::grids`]): for a single vector piece by piece; for several from runs
//! of pieces that are expanded to bytes, which stay in the first-level cache while all vectors are multiplied with them.

use std::arch::x86_64::*;

use super::formats::{self, Parts};
use super::packed::store;
use crate::quant::Q8Block;
use crate::quant::packed::{Group, ROWS};

/// Pieces that are expanded at a time.
const RUN: usize = 8;

/// The sums of sixteen rows.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(x: &[f32; ROWS]) -> __m512 {
    // SAFETY: there are 16 numbers.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

/// The product of each format.
macro_rules! products {
    ($($name:ident)*) => { $(
        pub mod $name {
            use super::*;
            use formats::$name as format;

            /// Bytes that a piece takes of a group.
            const BYTES: usize = format::CODES.bytes() + format::SCALES.bytes_with_units();

            /// The codes of a piece, and its scale or those of its halves.
            #[derive(Clone, Copy)]
            struct Piece {
                quads: [__m512i; 8],
                scales: [__m512; format::LINES],
            }

            /// The sums of the products of a piece, or of its halves, with some vectors.
            #[allow(clippy::needless_range_loop, reason = "the numbers are turned")]
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn sums<const N: usize>(quads: &[__m512i; 8], x: [&Q8Block; N]) -> [[__m512; 2]; N] {
                let mut numbers = [[_mm512_setzero_ps(); 2]; N];
                for half in 0..format::LINES {
                    let mut sums = [_mm512_setzero_si512(); N];
                    for t in 0..N {
                        sums[t] = format::begin(x[t])[half];
                    }
                    let n_quads = 8 / format::LINES;
                    for j in n_quads * half..n_quads * (half + 1) {
                        for t in 0..N {
                            let x: &[[u8; 4]; 8] = bytemuck::cast_ref(&x[t].qs);
                            sums[t] = _mm512_dpbusd_epi32(sums[t], quads[j], _mm512_set1_epi32(i32::from_le_bytes(x[j])));
                        }
                    }
                    for t in 0..N {
                        numbers[t][half] = _mm512_cvtepi32_ps(sums[t]);
                    }
                }
                numbers
            }

            /// Adds the products of a run of pieces with some vectors, whose blocks begin at `x[t * n]`.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn add_run(run: &[Piece], n: usize, mut x: &[Q8Block], out: &mut [f32]) {
                let mut out = out.as_chunks_mut::<ROWS>().0;
                while !out.is_empty() {
                    let vectors = match out.len() {
                        8.. => 8,
                        4.. => 4,
                        2.. => 2,
                        _ => 1,
                    };
                    let (now, rest) = out.split_at_mut(vectors);
                    match vectors {
                        8 => add_tile::<8>(run, n, x, now),
                        4 => add_tile::<4>(run, n, x, now),
                        2 => add_tile::<2>(run, n, x, now),
                        _ => add_tile::<1>(run, n, x, now),
                    }
                    // The last vector has fewer blocks than `n` after the first of the run.
                    (x, out) = (x.get(vectors * n..).unwrap_or_default(), rest);
                }
            }

            /// [`add_run`] for `N` vectors.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn add_tile<const N: usize>(run: &[Piece], n: usize, x: &[Q8Block], out: &mut [[f32; ROWS]]) {
                let mut vectors: [&[Q8Block]; N] = [&[]; N];
                let mut acc = [_mm512_setzero_ps(); N];
                for t in 0..N {
                    vectors[t] = &x[t * n..][..run.len()];
                    acc[t] = load(&out[t]);
                }
                for (i, piece) in run.iter().enumerate() {
                    let mut blocks = [&vectors[0][i]; N];
                    for t in 1..N {
                        blocks[t] = &vectors[t][i];
                    }
                    let sums = sums(&piece.quads, blocks);
                    for t in 0..N {
                        acc[t] = format::add(acc[t], sums[t], piece.scales, blocks[t]);
                    }
                }
                for t in 0..N {
                    store(&mut out[t], acc[t]);
                }
            }

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let (parts, n) = (Parts::of(group, format::CODES, format::SCALES), group.n_pieces);
                out.fill(0.0);
                // SAFETY: this function is reached through the tables of this level and those above only, which are handed out
                // on machines that have its instructions.
                unsafe {
                    match out.len() / ROWS {
                        0 => {}
                        1 => single(&parts, n, x, out),
                        _ => several(&parts, n, x, out),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn single(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                let mut acc = _mm512_setzero_ps();
                for (i, x) in x[..n].iter().enumerate() {
                    parts.prefetch(i, BYTES, true);
                    let [sums] = sums(&format::codes(parts, i), [x]);
                    acc = format::add(acc, sums, format::line(parts, i), x);
                }
                out.as_chunks_mut().0.iter_mut().for_each(|out| store(out, acc));
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
            fn several(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                let none = Piece { quads: [_mm512_setzero_si512(); 8], scales: [_mm512_setzero_ps(); format::LINES] };
                let mut pieces = [none; RUN];
                for first in (0..n).step_by(RUN) {
                    let run = RUN.min(n - first);
                    for (i, piece) in (first..first + run).zip(&mut pieces) {
                        parts.prefetch(i, BYTES, false);
                        *piece = Piece { quads: format::codes(parts, i), scales: format::line(parts, i) };
                    }
                    add_run(&pieces[..run], n, &x[first..], out);
                }
            }
        }
    )* };
}

products!(iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0);
