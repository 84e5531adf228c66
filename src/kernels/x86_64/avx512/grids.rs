//! Codes of formats whose values are points of a grid, or digits, from groups that keep the bits of the file (see
//! [`crate::quant::words`]): sixteen rows at a time, a word of each in its 32-bit lane. Points are gathered from tables that the
//! first-level cache holds; those of eight values have two bits for each.

use std::arch::x86_64::*;

use super::formats::{self, BITS, Parts, load, load_128, load_f16};
use crate::quant::packed::{Codes, Packing, STRIP, Scales};
use crate::quant::{self, FORMAT_COUNT, Format, Q8Block, words};

/// How this level packs formats in layouts of its own.
pub static LAYOUTS: [Option<Packing>; FORMAT_COUNT] = {
    let mut table = [None; FORMAT_COUNT];
    table[Format::IQ1_S as usize] = Some(words::IQ1_S);
    table[Format::IQ1_M as usize] = Some(words::IQ1_M);
    table[Format::IQ2_XXS as usize] = Some(words::IQ2_XXS);
    table[Format::IQ2_XS as usize] = Some(words::IQ2_XS);
    table[Format::IQ2_S as usize] = Some(words::IQ2_S);
    table[Format::IQ3_XXS as usize] = Some(words::IQ3_XXS);
    table[Format::IQ3_S as usize] = Some(words::IQ3_S);
    table[Format::TQ1_0 as usize] = Some(words::TQ1_0);
    table
};

/// The numbers of the values of points in the list of possible values: bits `2c..2c + 2` for value `c`.
const fn numbered<const N: usize>(grid: &[[i8; 8]; N], values: [i8; 3]) -> [u32; N] {
    let mut table = [0; N];
    let mut i = 0;
    while i < 8 * N {
        let (point, column) = (i / 8, i % 8);
        let mut number = 0;
        while values[number] != grid[point][column] {
            number += 1;
        }
        table[point] |= (number as u32) << (2 * column);
        i += 1;
    }
    table
}

/// Values of points of IQ2, in eighths.
const IQ2: [i8; 3] = [8, 25, 43];
/// The same plus 128, padded to a register of 128 bits.
const IQ2_CODES: [u8; 16] = [136, 153, 171, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Values of points of IQ1, in eighths, plus 128.
const IQ1_CODES: [u8; 16] = [120, 128, 136, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

static IQ1_POINTS: [u32; 2048] = numbered(&quant::iq1_s::GRID, [-1, 0, 1]);
static IQ2_XXS_POINTS: [u32; 256] = numbered(&quant::iq2_xxs::GRID, IQ2);
static IQ2_XS_POINTS: [u32; 512] = numbered(&quant::iq2_xs::GRID, IQ2);
static IQ2_S_POINTS: [u32; 1024] = numbered(&quant::iq2_s::GRID, IQ2);

/// For quads `2p` and `2p + 1`, the places of their bytes' two bits in the numbers of point `p` of two rows.
const PAIRS: [[u8; 64]; 2] = {
    let mut pairs = [[0; 64]; 2];
    let mut i = 0;
    while i < 2 * 64 {
        let (j, r, k) = (i / 64, i / 4 % 2, i % 4);
        pairs[j][i % 64] = (32 * r + 8 * j + 2 * k) as u8;
        i += 1;
    }
    pairs
};

/// The words of a piece in a group.
struct Words<'a> {
    piece: &'a [u8],
    strip: &'a [u8],
    /// The number of the piece in its block.
    g: usize,
}

impl Words<'_> {
    /// Word `k` of the piece.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
    fn piece(&self, k: usize) -> __m512i {
        load(&self.piece[64 * k..])
    }

    /// Word `k` of the block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
    fn block(&self, k: usize) -> __m512i {
        load(&self.strip[64 * k..])
    }
}

/// The words shifted right by a number that is known only at run time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn shifted(words: __m512i, by: usize) -> __m512i {
    _mm512_srl_epi32(words, _mm_cvtsi32_si128(by as i32))
}

/// The lowest bits of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn lowest<const MASK: i32>(words: __m512i) -> __m512i {
    _mm512_and_si512(words, _mm512_set1_epi32(MASK))
}

/// The entries of a table with the numbers in the lowest bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn gather<T, const N: usize>(table: &[T; N], numbers: __m512i) -> __m512i {
    const { assert!(N.is_power_of_two() && size_of::<T>() == 4) };
    let numbers = _mm512_and_si512(numbers, _mm512_set1_epi32(N as i32 - 1));
    // SAFETY: the numbers are those of entries.
    unsafe { _mm512_i32gather_epi32::<4>(numbers, table.as_ptr().cast()) }
}

/// The two quads of a point of eight values, whose number each row has.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn point<const N: usize>(table: &[u32; N], number: __m512i, codes: &[u8; 16]) -> [__m512i; 2] {
    let (numbers, codes) = (gather(table, number), _mm512_broadcast_i32x4(load_128(codes)));
    let of_pair = |at: &[u8; 64]| {
        let bits = _mm512_multishift_epi64_epi8(load(at), numbers);
        _mm512_shuffle_epi8(codes, _mm512_and_si512(bits, _mm512_set1_epi8(3)))
    };
    [of_pair(&PAIRS[0]), of_pair(&PAIRS[1])]
}

/// The quads of four points: `number` is evaluated for each of them.
macro_rules! points {
    ($table:expr, $codes:expr, |$p:ident| $number:expr) => {{
        let mut quads = [_mm512_setzero_si512(); 8];
        for $p in 0..4usize {
            [quads[2 * $p], quads[2 * $p + 1]] = point($table, $number, $codes);
        }
        quads
    }};
}

/// The quads of eight points of four values, plus 128: `number` is evaluated for each of them.
macro_rules! small_points {
    ($grid:expr, |$j:ident| $number:expr) => {{
        let mut quads = [_mm512_set1_epi8(-128); 8];
        for ($j, quad) in quads.iter_mut().enumerate() {
            *quad = _mm512_xor_si512(*quad, gather($grid, $number));
        }
        quads
    }};
}

/// The codes of values, negated where a bit of the word of their row is set, in the order of columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn signed(mut quads: [__m512i; 8], signs: __m512i) -> [__m512i; 8] {
    for (quad, bits) in quads.iter_mut().zip(&BITS) {
        let negated = _mm512_bitshuffle_epi64_mask(signs, load(bits));
        *quad = _mm512_mask_sub_epi8(*quad, negated, _mm512_setzero_si512(), *quad);
    }
    quads
}

/// The signs of the four points of a piece from seven bits of each, a byte for a point. The eighth bit makes the number of set
/// bits even.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn even(bits: __m512i) -> __m512i {
    /// The highest bit where a number of four bits has an odd number of them.
    const ODD: [u8; 16] = {
        let mut odd = [0; 16];
        let mut i = 0;
        while i < 16 {
            odd[i] = ((i as u8).count_ones() as u8 & 1) << 7;
            i += 1;
        }
        odd
    };
    let bits = _mm512_and_si512(bits, _mm512_set1_epi8(127));
    let folded = _mm512_xor_si512(bits, _mm512_srli_epi16::<4>(bits));
    let folded = _mm512_and_si512(folded, _mm512_set1_epi8(15));
    let odd = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(&ODD)), folded);
    _mm512_or_si512(bits, odd)
}

/// [`even`] of four times seven bits in a word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn even_signs(words: __m512i) -> __m512i {
    const AT: [u8; 8] = [0, 7, 14, 21, 32, 39, 46, 53];
    even(_mm512_multishift_epi64_epi8(_mm512_set1_epi64(i64::from_le_bytes(AT)), words))
}

/// [`even`] of the upper seven bits of each half of two words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn even_signs_of_halves(words: [__m512i; 2]) -> __m512i {
    let bytes = |words: __m512i| {
        let sevens = _mm512_srli_epi16::<9>(words);
        _mm512_or_si512(sevens, _mm512_srli_epi32::<8>(sevens))
    };
    let (low, high) = (bytes(words[0]), _mm512_slli_epi32::<16>(bytes(words[1])));
    even(_mm512_mask_blend_epi16(0xAAAA_AAAA, low, high))
}

/// `1` in each byte of rows, or `-1` where a bit of the row's word is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn shifts(words: __m512i, bit: usize) -> __m512i {
    let down = _mm512_test_epi32_mask(words, _mm512_set1_epi32(1 << bit));
    _mm512_mask_blend_epi32(down, _mm512_set1_epi8(1), _mm512_set1_epi8(-1))
}

/// Odd numbers `2x + 1` of scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn odd(scales: __m512i) -> __m512 {
    let twice = _mm512_add_epi32(scales, scales);
    _mm512_cvtepi32_ps(_mm512_add_epi32(twice, _mm512_set1_epi32(1)))
}

/// One module per format, as those of [`super::formats`]: its packing, the fraction of the unit that values are multiples of, the
/// codes of a piece, and its scale or those of its halves.
macro_rules! grid {
    ($name:ident, $packing:expr, $parts:literal, $lines:literal, |$codes:ident| $read:expr, |$scales:ident| $read_scales:expr) => {
        pub mod $name {
            use super::*;

            /// How codes are stored.
            pub const CODES: Codes = $packing.codes;
            /// How scales are stored.
            pub const SCALES: Scales = $packing.scales;
            /// Whether the halves of a piece have scales of their own.
            pub const HALVES: bool = LINES == 2;
            /// Whether codes are 128 larger than what they stand for.
            pub const BIASED: bool = true;
            /// The vectors of scales of a piece.
            pub const LINES: usize = $lines;

            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            fn words<'a>(parts: &Parts<'a>, i: usize) -> Words<'a> {
                let (bytes, unit) = (CODES.bytes(), SCALES.unit_bytes());
                let piece = &parts.codes[i * bytes..][..bytes];
                Words { piece, strip: &parts.units[i / STRIP * unit..][..unit], g: i % STRIP }
            }

            /// The start values of the sums of a block's products: of a piece or of its halves.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn begin(x: &Q8Block) -> [__m512i; 2] {
                formats::begin(BIASED, HALVES, x)
            }

            /// All codes of piece `i`.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn codes(parts: &Parts<'_>, i: usize) -> [__m512i; 8] {
                let $codes = words(parts, i);
                $read
            }

            /// Its scale, or those of its halves.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn line(parts: &Parts<'_>, i: usize) -> [__m512; LINES] {
                let $scales = words(parts, i);
                let unit = load_f16(&$scales.strip[SCALES.unit_bytes() - 32..]);
                let unit = _mm512_mul_ps(unit, _mm512_set1_ps(1.0 / $parts));
                let mut scales: [__m512; LINES] = $read_scales;
                for scale in &mut scales {
                    *scale = _mm512_mul_ps(unit, *scale);
                }
                scales
            }

            /// The sum plus what a piece adds to it, from the sums of products of the piece, or of its halves, and its scales.
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c"
            )]
            pub fn add(acc: __m512, sums: [__m512; 2], s: [__m512; LINES], x: &Q8Block) -> __m512 {
                let mut sum = _mm512_mul_ps(s[0], sums[0]);
                if HALVES {
                    sum = _mm512_fmadd_ps(s[LINES - 1], sums[1], sum);
                }
                _mm512_fmadd_ps(sum, _mm512_set1_ps(x.d), acc)
            }
        }
    };
}

/// The nibbles of byte `g % 4` of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn nibbles(words: __m512i, g: usize) -> [__m512; 2] {
    let bytes = shifted(words, 8 * (g % 4));
    [odd(lowest::<15>(bytes)), odd(lowest::<15>(_mm512_srli_epi32::<4>(bytes)))]
}

grid!(
    iq2_xxs,
    words::IQ2_XXS,
    8.0,
    1,
    |w| {
        let numbers = w.piece(0);
        signed(points!(&IQ2_XXS_POINTS, &IQ2_CODES, |p| shifted(numbers, 8 * p)), even_signs(w.piece(1)))
    },
    |w| [odd(_mm512_srli_epi32::<28>(w.piece(1)))]
);
grid!(
    iq2_xs,
    words::IQ2_XS,
    8.0,
    2,
    |w| {
        let halves = [w.piece(0), w.piece(1)];
        let quads = points!(&IQ2_XS_POINTS, &IQ2_CODES, |p| shifted(halves[p / 2], 16 * (p % 2)));
        signed(quads, even_signs_of_halves(halves))
    },
    |w| nibbles(w.block(w.g / 4), w.g)
);
grid!(
    iq2_s,
    words::IQ2_S,
    8.0,
    2,
    |w| {
        let (low, high) = (w.piece(0), shifted(w.block(w.g / 4), 8 * (w.g % 4)));
        let quads = points!(&IQ2_S_POINTS, &IQ2_CODES, |p| {
            let upper = lowest::<0x300>(_mm512_slli_epi32::<8>(shifted(high, 2 * p)));
            _mm512_or_si512(lowest::<255>(shifted(low, 8 * p)), upper)
        });
        signed(quads, w.piece(1))
    },
    |w| nibbles(w.block(2 + w.g / 4), w.g)
);
grid!(
    iq3_xxs,
    words::IQ3_XXS,
    4.0,
    1,
    |w| {
        let numbers = [w.piece(0), w.piece(1)];
        let quads = small_points!(&quant::iq3_xxs::GRID, |j| shifted(numbers[j / 4], 8 * (j % 4)));
        signed(quads, even_signs(w.piece(2)))
    },
    |w| [odd(_mm512_srli_epi32::<28>(w.piece(2)))]
);
grid!(
    iq3_s,
    words::IQ3_S,
    1.0,
    1,
    |w| {
        let (low, high) = ([w.piece(0), w.piece(1)], shifted(w.block(w.g / 4), 8 * (w.g % 4)));
        let quads = small_points!(&quant::iq3_s::GRID, |j| {
            let upper = lowest::<0x100>(_mm512_slli_epi32::<8>(shifted(high, j)));
            _mm512_or_si512(lowest::<255>(shifted(low[j / 4], 8 * (j % 4))), upper)
        });
        signed(quads, w.piece(2))
    },
    |w| [odd(lowest::<15>(shifted(w.block(2), 4 * w.g)))]
);
grid!(
    iq1_s,
    words::IQ1_S,
    8.0,
    1,
    |w| {
        let (low, high) = (w.piece(0), shifted(w.block(w.g / 2), 16 * (w.g % 2)));
        let mut quads = points!(&IQ1_POINTS, &IQ1_CODES, |p| {
            let upper = lowest::<0x700>(_mm512_slli_epi32::<8>(shifted(high, 3 * p)));
            _mm512_or_si512(lowest::<255>(shifted(low, 8 * p)), upper)
        });
        let shift = shifts(high, 15);
        for quad in &mut quads {
            *quad = _mm512_add_epi8(*quad, shift);
        }
        quads
    },
    |w| [odd(lowest::<7>(shifted(w.block(w.g / 2), 16 * (w.g % 2) + 12)))]
);
grid!(
    iq1_m,
    words::IQ1_M,
    8.0,
    2,
    |w| {
        let (low, high) = (w.piece(0), shifted(w.block(w.g / 2), 16 * (w.g % 2)));
        let mut quads = points!(&IQ1_POINTS, &IQ1_CODES, |p| {
            let upper = lowest::<0x700>(_mm512_slli_epi32::<8>(shifted(high, 4 * p)));
            _mm512_or_si512(lowest::<255>(shifted(low, 8 * p)), upper)
        });
        for (p, pair) in quads.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let shift = shifts(high, 4 * p + 3);
            *pair = [_mm512_add_epi8(pair[0], shift), _mm512_add_epi8(pair[1], shift)];
        }
        quads
    },
    |w| {
        // Four scales in each half of a word.
        let (scales, first) = (w.block(4 + w.g / 4), 16 * (w.g / 2 % 2) + 6 * (w.g % 2));
        [odd(lowest::<7>(shifted(scales, first))), odd(lowest::<7>(shifted(scales, first + 3)))]
    }
);
// Values 0..160 are five digits of eight words, 160..240 those of four, and 240..256 four digits of one.
grid!(
    tq1_0,
    words::TQ1_0,
    1.0,
    1,
    |w| {
        let mut quads = [_mm512_setzero_si512(); 8];
        for (j, quad) in quads.iter_mut().enumerate() {
            let (word, k) = match (w.g, j) {
                (0..5, _) => (j, w.g),
                (7, 4..) => (12, j - 4),
                _ => (8 + j % 4, 2 * (w.g - 5) + j / 4),
            };
            *quad = digit(w.block(word), k);
        }
        quads
    },
    |_w| [_mm512_set1_ps(1.0)]
);

/// Digit `k` of bytes, less 1 and plus 128: tripling brings the next one to the front.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,f16c")]
fn digit(mut bytes: __m512i, k: usize) -> __m512i {
    for _ in 0..k {
        bytes = _mm512_add_epi8(_mm512_add_epi8(bytes, bytes), bytes);
    }
    let one = _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(86));
    let two = _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(171u8.cast_signed()));
    let digits = _mm512_mask_blend_epi8(one, _mm512_set1_epi8(127), _mm512_set1_epi8(-128));
    _mm512_mask_blend_epi8(two, digits, _mm512_set1_epi8(129u8.cast_signed()))
}
