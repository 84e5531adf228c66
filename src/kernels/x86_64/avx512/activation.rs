//! Activations rounded to int8, sixteen blocks at a time, each in a lane of its own: so sums over a block need no other lane. The
//! bits are those of [`quantize_activations`](crate::quant::quantize_activations).

use std::arch::x86_64::*;

use super::vector;
use crate::kernels::frame::align_frame;
use crate::quant::Q8Block;

/// Blocks at a time.
const LANES: usize = 16;
/// Words of a block.
const WORDS: usize = size_of::<Q8Block>() / size_of::<f32>();
/// See `round_to_i8` of the definition.
const BELOW_HALF: f32 = 0.5f32.next_down();

/// See [`crate::kernels::Kernels::quantize_activations`].
pub fn quantize_activations(x: &[f32], out: &mut [Q8Block]) {
    debug_assert_eq!(x.len(), out.len() * Q8Block::LEN, "one block per 32 activations");
    let (x_runs, x_rest) = x.as_chunks::<{ LANES * Q8Block::LEN }>();
    let (out_runs, out_rest) = out.as_chunks_mut::<LANES>();
    for (x, out) in x_runs.iter().zip(out_runs) {
        // SAFETY: this function is reached through the table of this level only, which is handed out on machines that
        // have its instructions.
        let done = unsafe { quantize_run(x, out) };
        if !done {
            vector::quantize_activations(x, out);
        }
    }
    vector::quantize_activations(x_rest, out_rest);
}

/// Sixteen blocks in units of a scale each, rounded.
#[derive(Clone, Copy)]
struct Rounded {
    unit: __m512,
    /// Four neighbouring values of each block.
    quads: [__m512i; 8],
    sum: __m512i,
    sum_low: __m512i,
    /// `Σ q²` and `Σ (x / unit) q`.
    qq: __m512,
    yq: __m512,
}

/// Quantizes sixteen blocks, or does nothing where one has numbers that are NaN or infinite, or so small that a scale's
/// reciprocal overflows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn quantize_run(x: &[f32; LANES * Q8Block::LEN], out: &mut [Q8Block; LANES]) -> bool {
    let mut columns = [_mm512_setzero_ps(); Q8Block::LEN];
    for half in 0..2 {
        let mut rows = [_mm512_setzero_ps(); LANES];
        for (block, row) in rows.iter_mut().enumerate() {
            let x = &x[block * Q8Block::LEN + half * LANES..][..LANES];
            // SAFETY: there are 16 numbers.
            *row = unsafe { _mm512_loadu_ps(x.as_ptr()) };
        }
        columns[half * LANES..][..LANES].copy_from_slice(&transposed(&rows));
    }
    // Magnitudes have the order of their bits; NaNs come after all numbers.
    let mut max = _mm512_setzero_si512();
    for column in columns {
        max = _mm512_max_epu32(max, _mm512_castps_si512(_mm512_abs_ps(column)));
    }
    let max = _mm512_castsi512_ps(max);
    let units = [_mm512_div_ps(max, _mm512_set1_ps(127.0)), _mm512_div_ps(max, _mm512_set1_ps(126.0))];
    let infinity = _mm512_set1_ps(f32::INFINITY);
    let mut inverses = [_mm512_setzero_ps(); 2];
    for (unit, inverse) in units.iter().zip(&mut inverses) {
        let some = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(*unit, _mm512_setzero_ps());
        *inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), *unit);
        let numbers = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(max, infinity)
            & _mm512_cmp_ps_mask::<_CMP_LT_OQ>(*inverse, infinity);
        if numbers != !0 {
            return false;
        }
    }
    let (a, b) = (round_to(&columns, units[0], inverses[0]), round_to(&columns, units[1], inverses[1]));
    let b_yq = _mm512_mul_ps(b.yq, _mm512_set1_ps(127.0 / 126.0));
    let score = _mm512_mul_ps(_mm512_mul_ps(a.yq, a.yq), b.qq);
    let b_score = _mm512_mul_ps(_mm512_mul_ps(b_yq, b_yq), a.qq);
    let b_is_better = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(b_score, score);
    let (unit, qq) =
        (_mm512_mask_mov_ps(a.unit, b_is_better, b.unit), _mm512_mask_mov_ps(a.qq, b_is_better, b.qq));
    let yq = _mm512_mask_mov_ps(a.yq, b_is_better, b.yq);
    let some = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(qq, _mm512_setzero_ps());
    let d = _mm512_mask_mul_ps(unit, some, unit, _mm512_div_ps(yq, qq));
    let sum = _mm512_mask_mov_epi32(a.sum, b_is_better, b.sum);
    let sum_low = _mm512_mask_mov_epi32(a.sum_low, b_is_better, b.sum_low);
    // A block's 13 words are a column; the three after them are overwritten by the next block.
    let mut words = [_mm512_setzero_ps(); LANES];
    (words[0], words[1], words[2]) =
        (d, _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)), _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum_low)));
    for (word, sum) in words[3..5].iter_mut().zip([sum, sum_low]) {
        *word = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(sum)));
    }
    for j in 0..8 {
        let better = _mm512_mask_mov_epi32(a.quads[j], b_is_better, b.quads[j]);
        words[5 + j] = _mm512_castsi512_ps(better);
    }
    store(&transposed(&words), out);
    true
}

/// Writes the first [`WORDS`] words of each vector as a block.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(words: &[__m512; LANES], out: &mut [Q8Block; LANES]) {
    let out: &mut [f32; LANES * WORDS] = bytemuck::cast_mut(out);
    for (i, words) in words[..LANES - 1].iter().enumerate() {
        let out = &mut out[i * WORDS..][..LANES];
        // SAFETY: there is space for 16 words.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *words) };
    }
    let last = &mut out[(LANES - 1) * WORDS..];
    // SAFETY: there is space for the words that are written, [`WORDS`].
    unsafe { _mm512_mask_storeu_ps(last.as_mut_ptr(), (1 << WORDS) - 1, words[LANES - 1]) };
}

/// The values of sixteen blocks times `inverse`, rounded. A `ternarylogic` of 0xca takes the bits of its second operand where
/// the first is set, elsewhere those of the third.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn round_to(columns: &[__m512; Q8Block::LEN], unit: __m512, inverse: __m512) -> Rounded {
    align_frame();
    let sign = _mm512_castps_si512(_mm512_set1_ps(-0.0));
    let below_half = _mm512_castps_si512(_mm512_set1_ps(BELOW_HALF));
    let ones = _mm512_set1_epi8(1);
    let bytes = [0xff00, 0xff_0000, 0xff00_0000u32].map(|bits| _mm512_set1_epi32(bits.cast_signed()));
    let mut products = [_mm512_setzero_ps(); LANES];
    let mut quads = [_mm512_setzero_si512(); 8];
    let mut sums = [_mm512_setzero_si512(); 2];
    let mut qq = _mm512_setzero_si512();
    for j in 0..8 {
        let mut quad = _mm512_setzero_si512();
        for k in 0..4 {
            let i = 4 * j + k;
            let y = _mm512_mul_ps(columns[i], inverse);
            // The bits of a half with the sign of `y`.
            let half = _mm512_ternarylogic_epi32::<0xca>(sign, _mm512_castps_si512(y), below_half);
            let q = _mm512_cvttps_epi32(_mm512_add_ps(y, _mm512_castsi512_ps(half)));
            let product = _mm512_mul_ps(y, _mm512_cvtepi32_ps(q));
            // In the order of the definition: each to the one sixteen before it, then halves.
            products[i % LANES] =
                if i < LANES { product } else { _mm512_add_ps(products[i % LANES], product) };
            quad = match k {
                0 => q,
                1 => _mm512_ternarylogic_epi32::<0xca>(bytes[0], _mm512_slli_epi32::<8>(q), quad),
                2 => _mm512_ternarylogic_epi32::<0xca>(bytes[1], _mm512_slli_epi32::<16>(q), quad),
                _ => _mm512_ternarylogic_epi32::<0xca>(bytes[2], _mm512_slli_epi32::<24>(q), quad),
            };
        }
        quads[j] = quad;
        sums[j / 4] = _mm512_dpbusd_epi32(sums[j / 4], ones, quad);
        let magnitudes = _mm512_abs_epi8(quad);
        qq = _mm512_dpbusd_epi32(qq, magnitudes, magnitudes);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            products[i] = _mm512_add_ps(products[i], products[i + width]);
        }
        width /= 2;
    }
    Rounded {
        unit,
        quads,
        sum: _mm512_add_epi32(sums[0], sums[1]),
        sum_low: sums[0],
        qq: _mm512_cvtepi32_ps(qq),
        yq: products[0],
    }
}

/// Lane `i` of vector `j` becomes lane `j` of vector `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: &[__m512; LANES]) -> [__m512; LANES] {
    // Two rows, then four, in each quarter of a vector; and then the quarters.
    let mut pairs = [_mm512_setzero_ps(); LANES];
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    let mut fours = [_mm512_setzero_ps(); LANES];
    for i in 0..4 {
        let [a, b, c, d] = [pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]];
        fours[4 * i] = _mm512_shuffle_ps::<0x44>(a, c);
        fours[4 * i + 1] = _mm512_shuffle_ps::<0xee>(a, c);
        fours[4 * i + 2] = _mm512_shuffle_ps::<0x44>(b, d);
        fours[4 * i + 3] = _mm512_shuffle_ps::<0xee>(b, d);
    }
    let mut columns = [_mm512_setzero_ps(); LANES];
    for i in 0..4 {
        let [a, b, c, d] = [fours[i], fours[4 + i], fours[8 + i], fours[12 + i]];
        let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (more_even, more_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        columns[i] = _mm512_shuffle_f32x4::<0x88>(even, more_even);
        columns[4 + i] = _mm512_shuffle_f32x4::<0x88>(odd, more_odd);
        columns[8 + i] = _mm512_shuffle_f32x4::<0xdd>(even, more_even);
        columns[12 + i] = _mm512_shuffle_f32x4::<0xdd>(odd, more_odd);
    }
    columns
}
