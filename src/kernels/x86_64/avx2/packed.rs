//! Products with packed weights (see [`crate::quant::packed`]): eight rows at a time, one in each 32-bit lane, and up to
//! eight vectors of activations, whose quads are broadcast to all lanes.
//!
//! Codes are multiplied as unsigned bytes (`vpmaddubsw`), and as many products are added in 16 bits as can be without
//! overflow; codes of eight bits are multiplied as two nibbles. Integer sums are exact.

use std::arch::x86_64::*;

use crate::kernels::PackedProduct;
use crate::quant::packed::{Codes, Group, ROWS, Scales};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

/// Activation vectors that share the codes of a piece while these are in registers.
const TOKENS: usize = 8;
/// Rows in a register.
const LANES: usize = 8;

/// The products of this level, by format.
pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
    let mut table: [Option<PackedProduct>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::Q4_0 as usize] = Some(q4_0::product);
    table[Format::Q4_1 as usize] = Some(q4_1::product);
    table[Format::Q5_0 as usize] = Some(q5_0::product);
    table[Format::Q5_1 as usize] = Some(q5_1::product);
    table[Format::Q8_0 as usize] = Some(q8_0::product);
    table[Format::Q3_K as usize] = Some(q3_k::product);
    table[Format::Q4_K as usize] = Some(q4_k::product);
    table[Format::Q5_K as usize] = Some(q5_k::product);
    table[Format::Q6_K as usize] = Some(q6_k::product);
    table[Format::IQ4_NL as usize] = Some(iq4_nl::product);
    table[Format::IQ4_XS as usize] = Some(iq4_xs::product);
    table[Format::MXFP4 as usize] = Some(mxfp4::product);
    table
};

/// The values of the four-bit codes of IQ4_NL and IQ4_XS, plus 128.
const IQ4: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// Twice the values of the codes of MXFP4, plus 12.
const E2M1: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// The parts of a group.
struct Parts<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    units: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(group: &Group<'a>, codes: Codes, scales: Scales) -> Parts<'a> {
        let n = group.n_pieces;
        let (codes, rest) = group.bytes.split_at(n * codes.bytes());
        let (scales, units) = rest.split_at(n * scales.bytes());
        Parts { codes, scales, units }
    }
}

/// The first 32 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(p: &[u8]) -> __m256i {
    let p = &p[..32];
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(p.as_ptr().cast()) }
}

/// The first 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_128(p: &[u8]) -> __m128i {
    let p = &p[..16];
    // SAFETY: there are 16 bytes.
    unsafe { _mm_loadu_si128(p.as_ptr().cast()) }
}

/// The first eight bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_64(p: &[u8]) -> __m128i {
    let p = &p[..8];
    // SAFETY: there are 8 bytes.
    unsafe { _mm_loadl_epi64(p.as_ptr().cast()) }
}

/// Eight binary16 numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_f16(p: &[u8]) -> __m256 {
    _mm256_cvtph_ps(load_128(p))
}

/// Eight bfloat16 numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_bf16(p: &[u8]) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_128(p))))
}

/// Eight bytes as numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_u8(p: &[u8]) -> __m256 {
    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p)))
}

/// Eight signed bytes as numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_i8(p: &[u8]) -> __m256 {
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p)))
}

/// Eight signed bytes, each in both halves of its lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_i8_twice(p: &[u8]) -> __m256i {
    let x = _mm256_cvtepi8_epi32(load_64(p));
    _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32::<16>(x))
}

/// For the rows of half `h`: the low nibbles of four quads, then the high ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles(p: &[u8], h: usize) -> [__m256i; 8] {
    let mask = _mm256_set1_epi8(15);
    let q: [__m256i; 4] = std::array::from_fn(|j| load(&p[64 * j + 32 * h..]));
    let low = |j: usize| _mm256_and_si256(q[j], mask);
    let high = |j: usize| _mm256_and_si256(_mm256_srli_epi16::<4>(q[j]), mask);
    [low(0), low(1), low(2), low(3), high(0), high(1), high(2), high(3)]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn look_up(p: &[u8], h: usize, values: &[u8; 16]) -> [__m256i; 8] {
    let values = _mm256_broadcastsi128_si256(load_128(values));
    nibbles(p, h).map(|q| _mm256_shuffle_epi8(values, q))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn five_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    let q = nibbles(p, h);
    let masks = &p[256..320].as_chunks::<4>().0;
    // Byte i of a register tests bit i % 8 of byte i / 8 of its mask.
    let spread = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201u64.cast_signed());
    let sixteen = _mm256_set1_epi8(16);
    std::array::from_fn(|j| {
        let mask = _mm256_set1_epi32(i32::from_le_bytes(masks[2 * j + h]));
        let set = _mm256_and_si256(_mm256_shuffle_epi8(mask, spread), bits);
        let high = _mm256_and_si256(_mm256_cmpeq_epi8(set, bits), sixteen);
        _mm256_or_si256(q[j], high)
    })
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn six_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    let (q, planes) = (nibbles(p, h), [load(&p[256 + 32 * h..]), load(&p[320 + 32 * h..])]);
    let mask = _mm256_set1_epi8(0x30);
    let high = |j: usize| {
        let plane = planes[j / 4];
        let shifted = match j % 4 {
            0 => _mm256_slli_epi16::<4>(plane),
            1 => _mm256_slli_epi16::<2>(plane),
            2 => plane,
            _ => _mm256_srli_epi16::<2>(plane),
        };
        _mm256_and_si256(shifted, mask)
    };
    std::array::from_fn(|j| _mm256_or_si256(q[j], high(j)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    std::array::from_fn(|j| load(&p[64 * j + 32 * h..]))
}

/// Quad `j` of a block in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn quad(x: &Q8Block, j: usize) -> __m256i {
    let quads = x.qs.as_chunks::<4>().0;
    _mm256_set1_epi32(i32::from_le_bytes(quads[j].map(i8::cast_unsigned)))
}

/// `Σ code · x` of each row over four quads from quad `first` on, times the numbers in both halves of the lanes of
/// `factor`. Codes are so small that `SUMS` products of pairs fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_quads<const SUMS: usize>(
    codes: &[__m256i; 8],
    first: usize,
    x: &Q8Block,
    factor: __m256i,
) -> __m256i {
    let p: [__m256i; 4] = std::array::from_fn(|j| _mm256_maddubs_epi16(codes[first + j], quad(x, first + j)));
    let (a, b) = (_mm256_add_epi16(p[0], p[1]), _mm256_add_epi16(p[2], p[3]));
    match SUMS {
        2 => _mm256_add_epi32(_mm256_madd_epi16(a, factor), _mm256_madd_epi16(b, factor)),
        _ => _mm256_madd_epi16(_mm256_add_epi16(a, b), factor),
    }
}

/// `Σ code · x` of each row and vector.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sums<const N: usize, const SUMS: usize>(codes: &[__m256i; 8], x: [&Q8Block; N]) -> [__m256i; N] {
    let one = _mm256_set1_epi16(1);
    x.map(|x| {
        if SUMS < 8 {
            let low = four_quads::<SUMS>(codes, 0, x, one);
            return _mm256_add_epi32(low, four_quads::<SUMS>(codes, 4, x, one));
        }
        let mut pairs = _mm256_maddubs_epi16(codes[0], quad(x, 0));
        for (j, code) in codes.iter().enumerate().skip(1) {
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(*code, quad(x, j)));
        }
        _mm256_madd_epi16(pairs, one)
    })
}

/// As [`sums`] for codes of eight bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn wide_sums<const N: usize>(codes: &[__m256i; 8], x: [&Q8Block; N]) -> [__m256i; N] {
    let mask = _mm256_set1_epi8(15);
    let low = sums::<N, 8>(&codes.map(|q| _mm256_and_si256(q, mask)), x);
    let high = sums::<N, 8>(&codes.map(|q| _mm256_and_si256(_mm256_srli_epi16::<4>(q), mask)), x);
    std::array::from_fn(|t| _mm256_add_epi32(low[t], _mm256_slli_epi32::<4>(high[t])))
}

/// `Σ scale · code · x` of each row and vector, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled_sums<const N: usize, const SUMS: usize>(
    codes: &[__m256i; 8],
    scales: [__m256i; 2],
    x: [&Q8Block; N],
) -> [__m256i; N] {
    x.map(|x| {
        let low = four_quads::<SUMS>(codes, 0, x, scales[0]);
        _mm256_add_epi32(low, four_quads::<SUMS>(codes, 4, x, scales[1]))
    })
}

/// As [`scaled_sums`] for codes of eight bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn wide_scaled_sums<const N: usize>(
    codes: &[__m256i; 8],
    scales: [__m256i; 2],
    x: [&Q8Block; N],
) -> [__m256i; N] {
    let mask = _mm256_set1_epi8(15);
    let low = scaled_sums::<N, 4>(&codes.map(|q| _mm256_and_si256(q, mask)), scales, x);
    let high = codes.map(|q| _mm256_and_si256(_mm256_srli_epi16::<4>(q), mask));
    let high = scaled_sums::<N, 4>(&high, scales, x);
    std::array::from_fn(|t| _mm256_add_epi32(low[t], _mm256_slli_epi32::<4>(high[t])))
}

/// One module per format: what is read of a half's piece `i`, its integer sums, and what they add for each vector.
macro_rules! product {
    (
        $name:ident, $codes:expr, $scales:expr,
        |$parts:ident, $i:ident, $h:ident| $load:expr,
        |$piece:ident, $s:ident, $xs:ident| $sums:expr,
        |$acc:ident, $sum:ident, $x:ident| $add:expr
    ) => {
        mod $name {
            use super::*;

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let parts = Parts::of(group, $codes, $scales);
                let n = group.n_pieces;
                let (mut x, mut out) = (x, out);
                while !out.is_empty() && n > 0 {
                    let tokens = (out.len() / ROWS).min(TOKENS);
                    let (x_now, x_rest) = x.split_at(tokens * n);
                    let (out_now, out_rest) = out.split_at_mut(tokens * ROWS);
                    // SAFETY: this function is reached through the table of this level only, which is handed out
                    // on machines that have its instructions.
                    unsafe {
                        match tokens {
                            8 => tile::<8>(&parts, n, x_now, out_now),
                            7 => tile::<7>(&parts, n, x_now, out_now),
                            6 => tile::<6>(&parts, n, x_now, out_now),
                            5 => tile::<5>(&parts, n, x_now, out_now),
                            4 => tile::<4>(&parts, n, x_now, out_now),
                            3 => tile::<3>(&parts, n, x_now, out_now),
                            2 => tile::<2>(&parts, n, x_now, out_now),
                            _ => tile::<1>(&parts, n, x_now, out_now),
                        }
                    }
                    (x, out) = (x_rest, out_rest);
                }
                out.fill(0.0);
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            fn tile<const N: usize>($parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                let x: [&[Q8Block]; N] = std::array::from_fn(|t| &x[t * n..(t + 1) * n]);
                let mut acc = [[_mm256_setzero_ps(); N]; 2];
                for $i in 0..n {
                    let piece = &$parts.codes[$i * $codes.bytes()..][..$codes.bytes()];
                    let $xs: [&Q8Block; N] = std::array::from_fn(|t| &x[t][$i]);
                    for $h in 0..2 {
                        let ($piece, $s) = ((piece, $h), $load);
                        let sums: [__m256i; N] = $sums;
                        for t in 0..N {
                            let ($x, $acc) = ($xs[t], acc[$h][t]);
                            let $sum = _mm256_cvtepi32_ps(sums[t]);
                            acc[$h][t] = $add;
                        }
                    }
                }
                for (t, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                    // SAFETY: `out` has room for 8 numbers.
                    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), acc[t % 2][t / 2]) };
                }
            }
        }
    };
}

/// A format with a scale per piece and no minimum: `d * (x.d * Σ code·x - offset * x.sum)`.
macro_rules! scaled {
    ($name:ident, $codes:expr, $read:expr, $sums:ident $(::<$n:literal>)?, $offset:expr, $kind:expr, $scale:expr) => {
        product!(
            $name,
            $codes,
            $kind,
            |parts, i, h| $scale(&parts.scales[i * 32 + 16 * h..]),
            |piece, d, xs| $sums::<N $(, $n)?>(&$read(piece.0, piece.1), xs),
            |acc, sum, x| {
                let offset = _mm256_set1_ps(-($offset as f32) * x.sum);
                _mm256_fmadd_ps(d, _mm256_fmadd_ps(sum, _mm256_set1_ps(x.d), offset), acc)
            }
        );
    };
}

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($name:ident, $codes:expr, $read:expr, $n:literal) => {
        product!(
            $name,
            $codes,
            Scales::F16Min,
            |parts, i, h| {
                let scales = &parts.scales[i * 64 + 16 * h..];
                (load_f16(scales), load_f16(&scales[32..]))
            },
            |piece, s, xs| sums::<N, $n>(&$read(piece.0, piece.1), xs),
            |acc, sum, x| {
                let acc = _mm256_fmadd_ps(s.1, _mm256_set1_ps(x.sum), acc);
                _mm256_fmadd_ps(s.0, _mm256_mul_ps(sum, _mm256_set1_ps(x.d)), acc)
            }
        );
    };
}

/// A format with a scale and a minimum per piece in units of eight pieces.
macro_rules! super_blocks {
    ($name:ident, $codes:expr, $read:expr, $n:literal) => {
        product!(
            $name,
            $codes,
            Scales::Super,
            |parts, i, h| {
                let (units, scales) = (&parts.units[i / 8 * 64 + 16 * h..], &parts.scales[i * 32 + 8 * h..]);
                let d = _mm256_mul_ps(load_f16(units), load_u8(scales));
                (d, _mm256_mul_ps(load_f16(&units[32..]), load_u8(&scales[16..])))
            },
            |piece, s, xs| sums::<N, $n>(&$read(piece.0, piece.1), xs),
            |acc, sum, x| {
                let acc = _mm256_fnmadd_ps(s.1, _mm256_set1_ps(x.sum), acc);
                _mm256_fmadd_ps(s.0, _mm256_mul_ps(sum, _mm256_set1_ps(x.d)), acc)
            }
        );
    };
}

/// A format with a signed scale per half piece in units of eight pieces.
macro_rules! halves {
    ($name:ident, $codes:expr, $read:expr, $sums:ident $(::<$n:literal>)?, $offset:expr) => {
        product!(
            $name,
            $codes,
            Scales::Halves,
            |parts, i, h| {
                let unit = load_f16(&parts.units[i / 8 * 32 + 16 * h..]);
                let scales = &parts.scales[i * 32 + 8 * h..];
                let offset = _mm256_mul_ps(unit, _mm256_set1_ps(-($offset as f32)));
                let offsets = [load_i8(scales), load_i8(&scales[16..])].map(|s| _mm256_mul_ps(offset, s));
                (unit, [load_i8_twice(scales), load_i8_twice(&scales[16..])], offsets)
            },
            |piece, s, xs| $sums::<N $(, $n)?>(&$read(piece.0, piece.1), s.1, xs),
            |acc, sum, x| {
                let acc = _mm256_fmadd_ps(s.2[0], _mm256_set1_ps(x.sum_low), acc);
                let acc = _mm256_fmadd_ps(s.2[1], _mm256_set1_ps(x.sum - x.sum_low), acc);
                _mm256_fmadd_ps(s.0, _mm256_mul_ps(sum, _mm256_set1_ps(x.d)), acc)
            }
        );
    };
}

scaled!(q4_0, Codes::U4, nibbles, sums::<8>, 8, Scales::F16, load_f16);
scaled!(q5_0, Codes::U5, five_bits, sums::<4>, 16, Scales::F16, load_f16);
scaled!(q8_0, Codes::U8, eight_bits, wide_sums, 128, Scales::F16, load_f16);
scaled!(iq4_nl, Codes::U4, (|p, h| look_up(p, h, &IQ4)), wide_sums, 128, Scales::F16, load_f16);
scaled!(mxfp4, Codes::U4, (|p, h| look_up(p, h, &E2M1)), sums::<4>, 12, Scales::Bf16, load_bf16);
offset!(q4_1, Codes::U4, nibbles, 8);
offset!(q5_1, Codes::U5, five_bits, 4);
super_blocks!(q4_k, Codes::U4, nibbles, 8);
super_blocks!(q5_k, Codes::U5, five_bits, 4);
halves!(q3_k, Codes::U4, nibbles, scaled_sums::<4>, 4);
halves!(q6_k, Codes::U6, six_bits, scaled_sums::<2>, 32);
halves!(iq4_xs, Codes::U4, (|p, h| look_up(p, h, &IQ4)), wide_scaled_sums, 128);
