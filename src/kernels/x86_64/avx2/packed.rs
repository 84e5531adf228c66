//! Products with packed weights (see [`crate::quant::packed`]): eight rows at a time, one in each 32-bit lane. The codes of
//! a piece stay in eight registers while they are multiplied with one vector of activations after another, whose quads are
//! broadcast to all lanes.
//!
//! Codes are multiplied as unsigned bytes (`vpmaddubsw`), and as many products are added in 16 bits as can be without
//! overflow; codes of eight bits are multiplied as two nibbles. Integer sums are exact.

use std::arch::x86_64::*;

use crate::kernels::PackedProduct;
use crate::quant::packed::{Codes, Group, ROWS, Scales};
use crate::quant::{FORMAT_COUNT, Format, Q8Block};

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

/// Bytes between what is multiplied and what is fetched from memory meanwhile: the best of powers of two on Zen 3, where
/// one thread then reads 17 to 20 GB/s of Q4_0 instead of 8, of the 20 that a plain sum reads.
const AHEAD: usize = 8192;

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

    /// Fetches what is read some pieces later, perhaps of the next group: too far ahead for the machine to see it coming,
    /// which takes groups for many short streams.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn prefetch(&self, i: usize, bytes: usize) {
        let first = self.codes.as_ptr().wrapping_add(i * bytes + AHEAD);
        for line in (0..bytes).step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line).cast());
        }
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

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_f32(x: &[f32; LANES]) -> __m256 {
    // SAFETY: there are 8 numbers.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store_f32(out: &mut [f32; LANES], x: __m256) {
    // SAFETY: there is room for 8 numbers.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) }
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

/// The low nibbles of codes of eight bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn low_nibbles(codes: &[__m256i; 8]) -> [__m256i; 8] {
    let mask = _mm256_set1_epi8(15);
    codes.map(|q| _mm256_and_si256(q, mask))
}

/// Their high nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn high_nibbles(codes: &[__m256i; 8]) -> [__m256i; 8] {
    low_nibbles(&codes.map(|q| _mm256_srli_epi16::<4>(q)))
}

/// Quad `j` of a block in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn quad(x: &Q8Block, j: usize) -> __m256i {
    let quads = x.qs.as_chunks::<4>().0;
    _mm256_set1_epi32(i32::from_le_bytes(quads[j].map(i8::cast_unsigned)))
}

/// `Σ code · x` of each row over four quads from quad `FIRST` on, times the numbers in both halves of the lanes of
/// `factor`. Codes are so small that `SUMS` products of pairs fit 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_quads<const FIRST: usize, const SUMS: usize>(
    codes: &[__m256i; 8],
    x: &Q8Block,
    factor: __m256i,
) -> __m256i {
    let a = _mm256_maddubs_epi16(codes[FIRST], quad(x, FIRST));
    let b = _mm256_maddubs_epi16(codes[FIRST + 1], quad(x, FIRST + 1));
    let c = _mm256_maddubs_epi16(codes[FIRST + 2], quad(x, FIRST + 2));
    let d = _mm256_maddubs_epi16(codes[FIRST + 3], quad(x, FIRST + 3));
    let (low, high) = (_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
    match SUMS {
        2 => _mm256_add_epi32(_mm256_madd_epi16(low, factor), _mm256_madd_epi16(high, factor)),
        _ => _mm256_madd_epi16(_mm256_add_epi16(low, high), factor),
    }
}

/// `Σ code · x` of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum<const SUMS: usize>(codes: &[__m256i; 8], x: &Q8Block) -> __m256i {
    let one = _mm256_set1_epi16(1);
    if SUMS < 8 {
        return scaled_sum::<SUMS>(codes, [one; 2], x);
    }
    let mut pairs = _mm256_maddubs_epi16(codes[0], quad(x, 0));
    for (j, code) in codes.iter().enumerate().skip(1) {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(*code, quad(x, j)));
    }
    _mm256_madd_epi16(pairs, one)
}

/// `Σ scale · code · x` of each row, with a scale for each half piece.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled_sum<const SUMS: usize>(codes: &[__m256i; 8], scales: [__m256i; 2], x: &Q8Block) -> __m256i {
    let low = four_quads::<0, SUMS>(codes, x, scales[0]);
    _mm256_add_epi32(low, four_quads::<4, SUMS>(codes, x, scales[1]))
}

/// One module per format: what is read of a half's piece `i`, and what that adds for each vector, in one or more steps.
macro_rules! product {
    (
        $name:ident, $codes:expr, $scales:expr,
        |$parts:ident, $i:ident, $h:ident| $load:expr,
        |$piece:ident, $s:ident| { $($w:ident = $read:expr => |$acc:ident, $x:ident| $add:expr;)+ }
    ) => {
        mod $name {
            use super::*;

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let (parts, n) = (Parts::of(group, $codes, $scales), group.n_pieces);
                // SAFETY: this function is reached through the table of this level only, which is handed out on
                // machines that have its instructions.
                unsafe {
                    match out.len() {
                        ROWS => add_pieces::<true>(&parts, n, x, out),
                        _ => add_pieces::<false>(&parts, n, x, out),
                    }
                }
            }

            /// Adds up the products of all pieces; the sums of a `SINGLE` vector stay in registers.
            #[target_feature(enable = "avx2,fma,f16c")]
            fn add_pieces<const SINGLE: bool>($parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                let out = out.as_chunks_mut::<LANES>().0;
                if !SINGLE {
                    out.fill([0.0; LANES]);
                }
                let mut single = [_mm256_setzero_ps(); 2];
                for $i in 0..n {
                    if SINGLE {
                        $parts.prefetch($i, $codes.bytes() + $scales.bytes());
                    }
                    let piece = &$parts.codes[$i * $codes.bytes()..][..$codes.bytes()];
                    for $h in 0..2 {
                        let ($piece, $s) = ((piece, $h), $load);
                        $({
                            let $w = $read;
                            if SINGLE {
                                let ($x, $acc) = (&x[$i], single[$h]);
                                single[$h] = $add;
                            } else {
                                for (x, out) in x.chunks_exact(n).zip(out.as_chunks_mut::<2>().0) {
                                    let ($x, out) = (&x[$i], &mut out[$h]);
                                    let $acc = load_f32(out);
                                    store_f32(out, $add);
                                }
                            }
                        })+
                    }
                }
                if SINGLE {
                    out.iter_mut().zip(single).for_each(|(out, single)| store_f32(out, single));
                }
            }
        }
    };
}

/// `acc + d * x.d * sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_sum(acc: __m256, d: __m256, sum: __m256i, x: &Q8Block) -> __m256 {
    _mm256_fmadd_ps(d, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(x.d)), acc)
}

/// `acc + d * x.d * sum + m * x.sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_with_minimum(acc: __m256, (d, m): (__m256, __m256), sum: __m256i, x: &Q8Block) -> __m256 {
    add_sum(_mm256_fmadd_ps(m, _mm256_set1_ps(x.sum), acc), d, sum, x)
}

/// `acc + unit * x.d * sum + offsets[0] * (sum of the first half) + offsets[1] * (that of the second)`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_halves(acc: __m256, unit: __m256, sum: __m256i, x: &Q8Block, offsets: [__m256; 2]) -> __m256 {
    let acc = _mm256_fmadd_ps(offsets[0], _mm256_set1_ps(x.sum_low), acc);
    let acc = _mm256_fmadd_ps(offsets[1], _mm256_set1_ps(x.sum - x.sum_low), acc);
    add_sum(acc, unit, sum, x)
}

/// A format with a scale per piece and no minimum: `d * x.d * Σ code·x - offset * d * x.sum`.
macro_rules! scaled {
    ($name:ident, $codes:expr, $read:expr, $sums:literal, $offset:expr, $kind:expr, $scale:expr) => {
        product!(
            $name,
            $codes,
            $kind,
            |parts, i, h| {
                let d = $scale(&parts.scales[i * 32 + 16 * h..]);
                (d, _mm256_mul_ps(d, _mm256_set1_ps(-($offset as f32))))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// As [`scaled`] with codes of eight bits, of which the low nibbles are multiplied first.
macro_rules! scaled_wide {
    ($name:ident, $codes:expr, $read:expr, $offset:expr) => {
        product!(
            $name,
            $codes,
            Scales::F16,
            |parts, i, h| {
                let d = load_f16(&parts.scales[i * 32 + 16 * h..]);
                (d, _mm256_mul_ps(d, _mm256_set1_ps(-($offset as f32))))
            },
            |piece, s| {
                w = low_nibbles(&$read(piece.0, piece.1)) =>
                    |acc, x| add_with_minimum(acc, s, sum::<8>(&w, x), x);
                w = high_nibbles(&$read(piece.0, piece.1)) =>
                    |acc, x| add_sum(acc, s.0, _mm256_slli_epi32::<4>(sum::<8>(&w, x)), x);
            }
        );
    };
}

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($name:ident, $codes:expr, $read:expr, $sums:literal) => {
        product!(
            $name,
            $codes,
            Scales::F16Min,
            |parts, i, h| {
                let scales = &parts.scales[i * 64 + 16 * h..];
                (load_f16(scales), load_f16(&scales[32..]))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// A format with a scale and a minimum per piece in units of eight pieces.
macro_rules! super_blocks {
    ($name:ident, $codes:expr, $read:expr, $sums:literal) => {
        product!(
            $name,
            $codes,
            Scales::Super,
            |parts, i, h| {
                let (units, scales) = (&parts.units[i / 8 * 64 + 16 * h..], &parts.scales[i * 32 + 8 * h..]);
                let m = _mm256_mul_ps(load_f16(&units[32..]), load_u8(&scales[16..]));
                (_mm256_mul_ps(load_f16(units), load_u8(scales)), _mm256_sub_ps(_mm256_setzero_ps(), m))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// The scales of piece `i` for the rows of half `h` of a format with a signed scale per half piece in units of eight pieces:
/// the units, the scales twice in each lane, and the units times scales times `-offset`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn half_scales(parts: &Parts<'_>, i: usize, h: usize, offset: f32) -> (__m256, [__m256i; 2], [__m256; 2]) {
    let unit = load_f16(&parts.units[i / 8 * 32 + 16 * h..]);
    let scales = &parts.scales[i * 32 + 8 * h..];
    let shift = _mm256_mul_ps(unit, _mm256_set1_ps(-offset));
    let offsets = [_mm256_mul_ps(shift, load_i8(scales)), _mm256_mul_ps(shift, load_i8(&scales[16..]))];
    (unit, [load_i8_twice(scales), load_i8_twice(&scales[16..])], offsets)
}

/// A format with a signed scale per half piece in units of eight pieces.
macro_rules! halves {
    ($name:ident, $codes:expr, $read:expr, $sums:literal, $offset:expr) => {
        product!(
            $name,
            $codes,
            Scales::Halves,
            |parts, i, h| half_scales(parts, i, h, $offset as f32),
            |piece, s| {
                w = $read(piece.0, piece.1) =>
                    |acc, x| add_halves(acc, s.0, scaled_sum::<$sums>(&w, s.1, x), x, s.2);
            }
        );
    };
}

/// As [`halves`] with codes of eight bits.
macro_rules! halves_wide {
    ($name:ident, $codes:expr, $read:expr, $offset:expr) => {
        product!(
            $name,
            $codes,
            Scales::Halves,
            |parts, i, h| half_scales(parts, i, h, $offset as f32),
            |piece, s| {
                w = low_nibbles(&$read(piece.0, piece.1)) =>
                    |acc, x| add_halves(acc, s.0, scaled_sum::<4>(&w, s.1, x), x, s.2);
                w = high_nibbles(&$read(piece.0, piece.1)) =>
                    |acc, x| add_sum(acc, s.0, _mm256_slli_epi32::<4>(scaled_sum::<4>(&w, s.1, x)), x);
            }
        );
    };
}

scaled!(q4_0, Codes::U4, nibbles, 8, 8, Scales::F16, load_f16);
scaled!(q5_0, Codes::U5, five_bits, 4, 16, Scales::F16, load_f16);
scaled!(mxfp4, Codes::U4, (|p, h| look_up(p, h, &E2M1)), 4, 12, Scales::Bf16, load_bf16);
scaled_wide!(q8_0, Codes::U8, eight_bits, 128);
scaled_wide!(iq4_nl, Codes::U4, (|p, h| look_up(p, h, &IQ4)), 128);
offset!(q4_1, Codes::U4, nibbles, 8);
offset!(q5_1, Codes::U5, five_bits, 4);
super_blocks!(q4_k, Codes::U4, nibbles, 8);
super_blocks!(q5_k, Codes::U5, five_bits, 4);
halves!(q3_k, Codes::U4, nibbles, 4, 4);
halves!(q6_k, Codes::U6, six_bits, 2, 32);
halves_wide!(iq4_xs, Codes::U4, (|p, h| look_up(p, h, &IQ4)), 128);
