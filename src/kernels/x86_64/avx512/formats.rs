//! How packed weights (see [`crate::quant::packed`]) are read into registers of 512 bits, sixteen rows at a time, one in
//! each 32-bit lane, and what becomes of their sums.

use std::arch::x86_64::*;

pub use crate::kernels::x86_64::avx2::group::Parts;
use crate::quant::Q8Block;
use crate::quant::packed::{Codes, Scales};

/// The values of the four-bit codes of IQ4_NL and IQ4_XS, plus 128.
const IQ4: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// Twice the values of the codes of MXFP4, plus 12.
const E2M1: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// The first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load(p: &[u8]) -> __m512i {
    let p = &p[..64];
    // SAFETY: there are 64 bytes.
    unsafe { _mm512_loadu_si512(p.as_ptr().cast()) }
}

/// The first 32 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_256(p: &[u8]) -> __m256i {
    let p = &p[..32];
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(p.as_ptr().cast()) }
}

/// The first 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_128(p: &[u8]) -> __m128i {
    let p = &p[..16];
    // SAFETY: there are 16 bytes.
    unsafe { _mm_loadu_si128(p.as_ptr().cast()) }
}

/// Sixteen binary16 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_f16(p: &[u8]) -> __m512 {
    _mm512_cvtph_ps(load_256(p))
}

/// Sixteen bfloat16 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_bf16(p: &[u8]) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_256(p))))
}

/// Sixteen bytes as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_u8(p: &[u8]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(p)))
}

/// The low nibbles of sixteen bytes as numbers, and the high ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_u4(p: &[u8]) -> [__m512; 2] {
    let bytes = _mm512_cvtepu8_epi32(load_128(p));
    let low = _mm512_and_si512(bytes, _mm512_set1_epi32(15));
    [_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(bytes))]
}

/// Sixteen signed bytes as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn load_i8(p: &[u8]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p)))
}

/// The low nibbles of four quads, then the high ones, all shifted left by `SHIFT`; what leaves a byte is cut off.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn nibbles<const SHIFT: i32>(p: &[u8]) -> [__m512i; 8] {
    let mask = _mm512_set1_epi8((15u8 << SHIFT).cast_signed());
    let (left, further) = (_mm_cvtsi32_si128(SHIFT), _mm_cvtsi32_si128((SHIFT - 4).abs()));
    let mut q = [mask; 8];
    for j in 0..4 {
        let codes = load(&p[64 * j..]);
        q[j] = _mm512_and_si512(_mm512_sll_epi16(codes, left), mask);
        let high =
            if SHIFT < 4 { _mm512_srl_epi16(codes, further) } else { _mm512_sll_epi16(codes, further) };
        q[4 + j] = _mm512_and_si512(high, mask);
    }
    q
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn look_up(p: &[u8], values: &[u8; 16]) -> [__m512i; 8] {
    let values = _mm512_broadcast_i32x4(load_128(values));
    let mut q = nibbles::<0>(p);
    for q in &mut q {
        *q = _mm512_shuffle_epi8(values, *q);
    }
    q
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn five_bits(p: &[u8]) -> [__m512i; 8] {
    let mut q = nibbles::<0>(p);
    let masks = p[256..320].as_chunks::<8>().0;
    let sixteen = _mm512_set1_epi8(16);
    for (q, mask) in q.iter_mut().zip(masks) {
        *q = _mm512_mask_add_epi8(*q, u64::from_le_bytes(*mask), *q, sixteen);
    }
    q
}

/// Two planes, whose bits `2i..2i + 2` belong to quad `4p + i`: of each quad these.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn two_bits(p: &[u8]) -> [__m512i; 8] {
    let mask = _mm512_set1_epi8(3);
    let mut q = [mask; 8];
    for (plane, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let bits = load(&p[64 * plane..]);
        q[0] = _mm512_and_si512(bits, mask);
        q[1] = _mm512_and_si512(_mm512_srli_epi16::<2>(bits), mask);
        q[2] = _mm512_and_si512(_mm512_srli_epi16::<4>(bits), mask);
        q[3] = _mm512_and_si512(_mm512_srli_epi16::<6>(bits), mask);
    }
    q
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn six_bits_times_4(p: &[u8]) -> [__m512i; 8] {
    let mut q = nibbles::<2>(p);
    let mask = _mm512_set1_epi8(0xC0u8.cast_signed());
    for (plane, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let bits = load(&p[256 + 64 * plane..]);
        q[0] = _mm512_or_si512(q[0], _mm512_and_si512(_mm512_slli_epi16::<6>(bits), mask));
        q[1] = _mm512_or_si512(q[1], _mm512_and_si512(_mm512_slli_epi16::<4>(bits), mask));
        q[2] = _mm512_or_si512(q[2], _mm512_and_si512(_mm512_slli_epi16::<2>(bits), mask));
        q[3] = _mm512_or_si512(q[3], _mm512_and_si512(bits, mask));
    }
    q
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn eight_bits(p: &[u8]) -> [__m512i; 8] {
    let mut q = [_mm512_setzero_si512(); 8];
    for (j, q) in q.iter_mut().enumerate() {
        *q = load(&p[64 * j..]);
    }
    q
}

/// One module per format, of what instruction sets with registers of 512 bits share.
macro_rules! format {
    (
        $name:ident, $codes:expr, $read:expr, $scales:expr, $halves:expr, $biased:expr, $n_lines:literal,
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

            /// What the sums of a block's products begin with, those of a piece or of its halves.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
            pub fn begin(x: &Q8Block) -> [__m512i; 2] {
                if !$biased {
                    return [_mm512_setzero_si512(); 2];
                }
                let low = _mm512_set1_epi32(x.bias_low);
                [low, _mm512_sub_epi32(_mm512_set1_epi32(x.bias), low)]
            }

            /// The vectors of scales and minima of a piece.
            pub const LINES: usize = $n_lines;

            /// The codes of a piece: its quads.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
            pub fn codes(piece: &[u8]) -> [__m512i; 8] {
                $read(piece)
            }

            /// The scales of a piece or of its halves, then the minima.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
            pub fn line($parts: &Parts<'_>, $i: usize) -> [__m512; LINES] {
                $line
            }

            /// The sum and what a piece adds to it: from the sums of products of the piece, or of its halves, and its scales.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
            pub fn add($acc: __m512, $sums: [__m512; 2], $s: [__m512; LINES], $x: &Q8Block) -> __m512 {
                $add
            }
        }
    };
}

/// A format with a scale per piece and no minimum: `d * (x.d * Σ code·x - offset * x.sum)`.
macro_rules! scaled {
    ($name:ident, $codes:expr, $read:expr, $offset:expr, $kind:expr, $scale:expr) => {
        format!(
            $name,
            $codes,
            $read,
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

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($name:ident, $codes:expr, $read:expr) => {
        format!(
            $name,
            $codes,
            $read,
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
    ($name:ident, $codes:expr, $read:expr) => {
        format!(
            $name,
            $codes,
            $read,
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
    ($name:ident, $codes:expr, $read:expr, $times:literal) => {
        format!(
            $name,
            $codes,
            $read,
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
scaled!(q4_0, Codes::U4, nibbles::<0>, 8, Scales::F16, load_f16);
scaled!(q5_0, Codes::U5, five_bits, 16, Scales::F16, load_f16);
scaled!(q8_0, Codes::U8, eight_bits, 128, Scales::F16, load_f16);
scaled!(iq4_nl, Codes::U4, (|p: &[u8]| look_up(p, &IQ4)), 128, Scales::F16, load_f16);
scaled!(mxfp4, Codes::U4, (|p: &[u8]| look_up(p, &E2M1)), 12, Scales::Bf16, load_bf16);
offset!(q4_1, Codes::U4, nibbles::<0>);
offset!(q5_1, Codes::U5, five_bits);
super_blocks!(q4_k, Codes::U4, nibbles::<0>);
super_blocks!(q5_k, Codes::U5, five_bits);
halves!(q3_k, Codes::U4, nibbles::<5>, 32.0);
halves!(q6_k, Codes::U6, six_bits_times_4, 4.0);
halves!(iq4_xs, Codes::U4, (|p: &[u8]| look_up(p, &IQ4)), 1.0);
