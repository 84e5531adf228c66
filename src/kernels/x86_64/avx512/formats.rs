//! How packed weights (see [`crate::quant::packed`]) are read into registers of 512 bits, sixteen rows at a time, one in each
//! 32-bit lane, and how their sums are scaled.

use std::arch::x86_64::*;

pub use super::grids::{iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, tq1_0};
pub use crate::kernels::x86_64::avx2::group::Parts;
use crate::quant::Q8Block;
use crate::quant::packed::{Codes, Scales};

/// The values of the four-bit codes of IQ4_NL and IQ4_XS, plus 128.
const IQ4: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// For each quad, the places of its bytes' bits in 64, a word of 32 of each of two rows.
pub const BITS: [[u8; 64]; 8] = {
    let mut bits = [[0; 64]; 8];
    let mut i = 0;
    while i < 8 * 64 {
        // Byte `k` of row `r` of two in quad `j`.
        let (j, r, k) = (i / 64, i / 4 % 2, i % 4);
        bits[j][i % 64] = (32 * r + 4 * j + k) as u8;
        i += 1;
    }
    bits
};

/// Twice the values of the codes of MXFP4, plus 12.
const E2M1: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// The same plus 128.
const E2M1_BIASED: [u8; 16] = {
    let mut values = E2M1;
    let mut i = 0;
    while i < values.len() {
        values[i] += 128 - 12;
        i += 1;
    }
    values
};

/// The first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
pub fn load(p: &[u8]) -> __m512i {
    let p = &p[..64];
    // SAFETY: there are 64 bytes.
    unsafe { _mm512_loadu_si512(p.as_ptr().cast()) }
}

/// The first 32 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_256(p: &[u8]) -> __m256i {
    let p = &p[..32];
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(p.as_ptr().cast()) }
}

/// The first 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
pub fn load_128(p: &[u8]) -> __m128i {
    let p = &p[..16];
    // SAFETY: there are 16 bytes.
    unsafe { _mm_loadu_si128(p.as_ptr().cast()) }
}

/// Sixteen binary16 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
pub fn load_f16(p: &[u8]) -> __m512 {
    _mm512_cvtph_ps(load_256(p))
}

/// Sixteen bfloat16 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_bf16(p: &[u8]) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_256(p))))
}

/// Sixteen bytes as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_u8(p: &[u8]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(p)))
}

/// Half of sixteen numbers of four bits of exponent with a bias of 7 and three of mantissa.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_half_e4m3(p: &[u8]) -> __m512 {
    let bits = _mm512_slli_epi32::<20>(_mm512_cvtepu8_epi32(load_128(p)));
    _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(f32::from_bits((127 + 119) << 23)))
}

/// The low nibbles of sixteen bytes as numbers, and the high ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_u4(p: &[u8]) -> [__m512; 2] {
    let bytes = _mm512_cvtepu8_epi32(load_128(p));
    let low = _mm512_and_si512(bytes, _mm512_set1_epi32(15));
    [_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(bytes))]
}

/// Sixteen signed bytes as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn load_i8(p: &[u8]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p)))
}

/// Quad `j` of a piece whose codes have four bits, shifted left by `SHIFT`; bits that leave a byte are dropped.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn nibble<const SHIFT: i32>(p: &[u8], j: usize) -> __m512i {
    let mask = _mm512_set1_epi8((15u8 << SHIFT).cast_signed());
    let (codes, left) = (load(&p[64 * (j % 4)..]), if j < 4 { SHIFT } else { SHIFT - 4 });
    let count = _mm_cvtsi32_si128(left.abs());
    let shifted = if left < 0 { _mm512_srl_epi16(codes, count) } else { _mm512_sll_epi16(codes, count) };
    _mm512_and_si512(shifted, mask)
}

/// The value of each code of four bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn look_up(p: &[u8], j: usize, values: &[u8; 16]) -> __m512i {
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(values)), nibble::<0>(p, j))
}

/// Quad `j` of a piece whose codes have five bits, shifted left by `SHIFT`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn five_bits<const SHIFT: i32>(p: &[u8], j: usize) -> __m512i {
    let (q, masks) = (nibble::<SHIFT>(p, j), p[256..320].as_chunks::<8>().0);
    _mm512_mask_add_epi8(q, u64::from_le_bytes(masks[j]), q, _mm512_set1_epi8((16u8 << SHIFT).cast_signed()))
}

/// Twice the bits `4j..4j + 4` of the word of each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn one_bit_twice(p: &[u8], j: usize) -> __m512i {
    let set = _mm512_bitshuffle_epi64_mask(load(p), load(&BITS[j]));
    _mm512_maskz_mov_epi8(set, _mm512_set1_epi8(2))
}

/// Bits `2i..2i + 2` of plane `p` belong to quad `4p + i`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn two_bits(p: &[u8], j: usize) -> __m512i {
    let (bits, count) = (load(&p[64 * (j / 4)..]), _mm_cvtsi32_si128(2 * (j % 4) as i32));
    _mm512_and_si512(_mm512_srl_epi16(bits, count), _mm512_set1_epi8(3))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn six_bits_times_4(p: &[u8], j: usize) -> __m512i {
    let (bits, count) = (load(&p[256 + 64 * (j / 4)..]), _mm_cvtsi32_si128(6 - 2 * (j % 4) as i32));
    let high = _mm512_and_si512(_mm512_sll_epi16(bits, count), _mm512_set1_epi8(0xC0u8.cast_signed()));
    _mm512_or_si512(nibble::<2>(p, j), high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn eight_bits(p: &[u8], j: usize) -> __m512i {
    load(&p[64 * j..])
}

/// What the sums of a block's products begin with, those of a piece or of its halves: what codes that are 128 too large add too much.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
pub fn begin(biased: bool, halves: bool, x: &Q8Block) -> [__m512i; 2] {
    let (whole, low) = (_mm512_set1_epi32(x.bias), _mm512_set1_epi32(x.bias_low));
    match (biased, halves) {
        (false, _) => [_mm512_setzero_si512(); 2],
        (true, false) => [whole; 2],
        (true, true) => [low, _mm512_sub_epi32(whole, low)],
    }
}

/// One module per format, with what instruction sets with registers of 512 bits share.
macro_rules! format {
    (
        $name:ident, $codes:expr, $quad:expr, $scales:expr, $halves:expr, $biased:expr, $n_lines:literal,
        |$parts:ident, $i:ident| $line:expr,
        |$acc:ident, $sums:ident, $s:ident, $x:ident| $add:expr
    ) => {
        pub mod $name {
            use super::*;

            /// How codes are stored.
            pub const CODES: Codes = $codes;
            /// How scales are stored.
            pub const SCALES: Scales = $scales;
            /// Whether the halves of a piece have scales of their own.
            pub const HALVES: bool = $halves;
            /// Whether codes are 128 larger than what they stand for.
            pub const BIASED: bool = $biased;

            /// The start values of the sums of a block's products: of a piece or of its halves.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn begin(x: &Q8Block) -> [__m512i; 2] {
                super::begin(BIASED, HALVES, x)
            }

            /// The vectors of scales and minima of a piece.
            pub const LINES: usize = $n_lines;

            /// Quad `j` of the codes of a piece.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn quad(piece: &[u8], j: usize) -> __m512i {
                $quad(piece, j)
            }

            /// All codes of piece `i`.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn codes(parts: &Parts<'_>, i: usize) -> [__m512i; 8] {
                let piece = &parts.codes[i * CODES.bytes()..][..CODES.bytes()];
                let mut quads = [_mm512_setzero_si512(); 8];
                for (j, codes) in quads.iter_mut().enumerate() {
                    *codes = quad(piece, j);
                }
                quads
            }

            /// The scales of a piece or of its halves, then the minima.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn line($parts: &Parts<'_>, $i: usize) -> [__m512; LINES] {
                $line
            }

            /// The sum plus what a piece adds to it, from the sums of products of the piece, or of its halves, and its scales.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn add($acc: __m512, $sums: [__m512; 2], $s: [__m512; LINES], $x: &Q8Block) -> __m512 {
                $add
            }
        }
    };
}

/// A format with a scale per piece and no minimum: `d * (x.d * Σ code·x - offset * x.sum)`.
macro_rules! scaled {
    ($name:ident, $codes:expr, $quad:expr, $offset:expr, $kind:expr, $scale:expr) => {
        format!(
            $name,
            $codes,
            $quad,
            $kind,
            false,
            false,
            1,
            |parts, i| [$scale(&parts.scales[i * 32..])],
            |acc, sums, s, x| {
                let offset = _mm512_set1_ps(-($offset as f32) * x.sum);
                let sum = _mm512_fmadd_ps(sums[0], _mm512_set1_ps(x.d), offset);
                _mm512_fmadd_ps(s[0], sum, acc)
            }
        );
    };
}

/// As `scaled`, with codes that, times `$times`, are 128 too large: `d / $times * x.d * Σ code·x`, where the sum begins with the
/// offset.
macro_rules! biased {
    ($name:ident, $codes:expr, $quad:expr, $times:literal) => {
        format!(
            $name,
            $codes,
            $quad,
            Scales::F16,
            false,
            true,
            1,
            |parts, i| [_mm512_mul_ps(load_f16(&parts.scales[i * 32..]), _mm512_set1_ps(1.0 / $times))],
            |acc, sums, s, x| {
                let sum = _mm512_mul_ps(sums[0], _mm512_set1_ps(x.d));
                _mm512_fmadd_ps(s[0], sum, acc)
            }
        );
    };
}

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($name:ident, $codes:expr, $quad:expr) => {
        format!(
            $name,
            $codes,
            $quad,
            Scales::F16Min,
            false,
            false,
            2,
            |parts, i| [load_f16(&parts.scales[i * 64..]), load_f16(&parts.scales[i * 64 + 32..])],
            |acc, sums, s, x| {
                let acc = _mm512_fmadd_ps(s[1], _mm512_set1_ps(x.sum), acc);
                let sum = _mm512_mul_ps(sums[0], _mm512_set1_ps(x.d));
                _mm512_fmadd_ps(s[0], sum, acc)
            }
        );
    };
}

/// A format with a scale and a minimum per piece in units of eight pieces.
macro_rules! super_blocks {
    ($name:ident, $codes:expr, $quad:expr) => {
        format!(
            $name,
            $codes,
            $quad,
            Scales::Super,
            false,
            false,
            2,
            |parts, i| {
                let units = &parts.units[i / 8 * 64..];
                let d = _mm512_mul_ps(load_f16(units), load_u8(&parts.scales[i * 32..]));
                [d, _mm512_mul_ps(load_f16(&units[32..]), load_u8(&parts.scales[i * 32 + 16..]))]
            },
            |acc, sums, s, x| {
                let acc = _mm512_fnmadd_ps(s[1], _mm512_set1_ps(x.sum), acc);
                let sum = _mm512_mul_ps(sums[0], _mm512_set1_ps(x.d));
                _mm512_fmadd_ps(s[0], sum, acc)
            }
        );
    };
}

/// A format with a signed scale per half piece in units of eight pieces, whose codes, times `$times`, are 128 too large.
macro_rules! halves {
    ($name:ident, $codes:expr, $quad:expr, $times:literal) => {
        format!(
            $name,
            $codes,
            $quad,
            Scales::Halves,
            true,
            true,
            2,
            |parts, i| {
                let unit = _mm512_mul_ps(load_f16(&parts.units[i / 8 * 32..]), _mm512_set1_ps(1.0 / $times));
                let low = _mm512_mul_ps(unit, load_i8(&parts.scales[i * 32..]));
                [low, _mm512_mul_ps(unit, load_i8(&parts.scales[i * 32 + 16..]))]
            },
            |acc, sums, s, x| {
                let sum = _mm512_fmadd_ps(s[1], sums[1], _mm512_mul_ps(s[0], sums[0]));
                _mm512_fmadd_ps(sum, _mm512_set1_ps(x.d), acc)
            }
        );
    };
}

format!(
    q2_k,
    Codes::U2,
    two_bits,
    Scales::HalvesMin,
    true,
    false,
    4,
    |parts, i| {
        let (units, scales) = (&parts.units[i / 8 * 64..], &parts.scales[i * 32..]);
        let (d, m) = (load_f16(units), load_f16(&units[32..]));
        let ([low, low_min], [high, high_min]) = (load_u4(scales), load_u4(&scales[16..]));
        [_mm512_mul_ps(d, low), _mm512_mul_ps(d, high), _mm512_mul_ps(m, low_min), _mm512_mul_ps(m, high_min)]
    },
    |acc, sums, s, x| {
        let acc = _mm512_fnmadd_ps(s[2], _mm512_set1_ps(x.sum_low), acc);
        let acc = _mm512_fnmadd_ps(s[3], _mm512_set1_ps(x.sum - x.sum_low), acc);
        let sum = _mm512_fmadd_ps(s[1], sums[1], _mm512_mul_ps(s[0], sums[0]));
        _mm512_fmadd_ps(sum, _mm512_set1_ps(x.d), acc)
    }
);
/// A format with one scale for some pieces, and codes that are 1 too large: `d * (x.d * Σ code·x - x.sum)`.
macro_rules! less_one {
    ($name:ident, $codes:expr, $quad:expr, $scales:expr) => {
        format!(
            $name,
            $codes,
            $quad,
            $scales,
            false,
            false,
            1,
            |parts, i| [load_f16(&parts.units[i / SCALES.pieces_per_unit() * 32..])],
            |acc, sums, s, x| {
                let sum = _mm512_fmadd_ps(sums[0], _mm512_set1_ps(x.d), _mm512_set1_ps(-x.sum));
                _mm512_fmadd_ps(s[0], sum, acc)
            }
        );
    };
}

less_one!(tq2_0, Codes::U2, two_bits, Scales::Strip);
less_one!(q2_0, Codes::U2, two_bits, Scales::Pairs);
less_one!(q1_0, Codes::U1, one_bit_twice, Scales::Fours);
// Codes that are 128 too large, and half pieces with scales that are floats.
format!(
    nvfp4,
    Codes::U4,
    (|p: &[u8], j: usize| look_up(p, j, &E2M1_BIASED)),
    Scales::HalvesE4m3,
    true,
    true,
    2,
    |parts, i| [load_half_e4m3(&parts.scales[i * 32..]), load_half_e4m3(&parts.scales[i * 32 + 16..])],
    |acc, sums, s, x| {
        let sum = _mm512_fmadd_ps(s[1], sums[1], _mm512_mul_ps(s[0], sums[0]));
        _mm512_fmadd_ps(sum, _mm512_set1_ps(x.d), acc)
    }
);
biased!(q4_0, Codes::U4, nibble::<4>, 16.0);
biased!(q5_0, Codes::U5, five_bits::<3>, 8.0);
biased!(iq4_nl, Codes::U4, (|p: &[u8], j: usize| look_up(p, j, &IQ4)), 1.0);
// This could be one of those, but then the greedy text of the model in `examples/models` would differ from that of all other
// levels: two logits of its first token are 0.002 apart.
scaled!(q8_0, Codes::U8, eight_bits, 128, Scales::F16, load_f16);
scaled!(mxfp4, Codes::U4, (|p: &[u8], j: usize| look_up(p, j, &E2M1)), 12, Scales::Bf16, load_bf16);
offset!(q4_1, Codes::U4, nibble::<0>);
offset!(q5_1, Codes::U5, five_bits::<0>);
super_blocks!(q4_k, Codes::U4, nibble::<0>);
super_blocks!(q5_k, Codes::U5, five_bits::<0>);
halves!(q3_k, Codes::U4, nibble::<5>, 32.0);
halves!(q6_k, Codes::U6, six_bits_times_4, 4.0);
halves!(iq4_xs, Codes::U4, (|p: &[u8], j: usize| look_up(p, j, &IQ4)), 1.0);
