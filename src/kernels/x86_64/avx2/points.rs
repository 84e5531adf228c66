//! Blocks of formats whose values are points of a grid, or digits, in registers of 256 bits: each has a piece of one row, whose
//! values are looked up point by point. Packing makes the bytes of [`crate::quant::packed::Packing::pack`] of them. Products with
//! single vectors use them directly, and only their sums have to be put side by side.

use std::arch::x86_64::*;

use super::group::{add_sum, load_f16, store_f32};
use crate::kernels::RowsProduct;
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{COLS, Codes, Pack, ROWS, STRIP, Scales};
use crate::quant::{self, FORMAT_COUNT, Format, Q8Block, grid};

/// How this level packs rows, by format.
pub const TABLE: [Option<Pack>; FORMAT_COUNT] = {
    let mut table: [Option<Pack>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::IQ1_S as usize] = Some(iq1_s::pack);
    table[Format::IQ1_M as usize] = Some(iq1_m::pack);
    table[Format::IQ2_XXS as usize] = Some(iq2_xxs::pack);
    table[Format::IQ2_XS as usize] = Some(iq2_xs::pack);
    table[Format::IQ2_S as usize] = Some(iq2_s::pack);
    table[Format::IQ3_XXS as usize] = Some(iq3_xxs::pack);
    table[Format::IQ3_S as usize] = Some(iq3_s::pack);
    table[Format::TQ1_0 as usize] = Some(tq1_0::pack);
    table
};

/// The products of single vectors with rows as they lie in the file, by format.
pub const ROWS_TABLE: [Option<RowsProduct>; FORMAT_COUNT] = {
    let mut table: [Option<RowsProduct>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::IQ1_S as usize] = Some(iq1_s::product);
    table[Format::IQ1_M as usize] = Some(iq1_m::product);
    table[Format::IQ2_XXS as usize] = Some(iq2_xxs::product);
    table[Format::IQ2_XS as usize] = Some(iq2_xs::product);
    table[Format::IQ2_S as usize] = Some(iq2_s::product);
    table[Format::IQ3_XXS as usize] = Some(iq3_xxs::product);
    table[Format::IQ3_S as usize] = Some(iq3_s::product);
    table[Format::TQ1_0 as usize] = Some(tq1_0::product);
    table
};

/// Values of a block.
const LEN: usize = STRIP * COLS;
/// Rows whose sums share a register.
const LANES: usize = 8;

/// A block of one row.
#[derive(Clone, Copy)]
struct Block {
    /// The values of each piece.
    pieces: [__m256i; STRIP],
    /// The scales of the halves of each piece.
    scales: [u8; 2 * STRIP],
    /// A binary16.
    unit: [u8; 2],
}

/// Eight values.
type Point = [u8; 8];

/// 32 values: those of four points, one after another.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn together([a, b, c, d]: [Point; 4]) -> __m256i {
    let [a, b, c, d] = [a, b, c, d].map(i64::from_le_bytes);
    _mm256_setr_epi64x(a, b, c, d)
}

/// The values, negated where all bits of a byte of `masks` are set, and kept where none is.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn negated(values: [Point; 4], masks: [Point; 4]) -> __m256i {
    let (values, masks) = (together(values), together(masks));
    _mm256_sub_epi8(_mm256_xor_si256(values, masks), masks)
}

/// The odd number `2x + 1`.
#[inline(always)]
fn odd(x: u8) -> u8 {
    2 * x + 1
}

/// The bytes of a point.
#[inline(always)]
fn bytes<const N: usize>(values: [i8; N]) -> [u8; N] {
    values.map(i8::cast_unsigned)
}

/// One module per format: how a block is read, and the fraction of the unit that values are multiples of.
macro_rules! format {
    ($name:ident, $factor:literal, |$block:ident, $g:ident| $piece:expr, |$scaled:ident, $h:ident| $scale:expr, |$of:ident| $unit:expr) => {
        mod $name {
            use super::*;
            use quant::$name::{BYTES, Packed};

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn piece($block: &Packed, $g: usize) -> __m256i {
                $piece
            }

            #[inline(always)]
            fn scale($scaled: &Packed, $h: usize) -> u8 {
                $scale
            }

            #[inline(always)]
            fn unit($of: &Packed) -> [u8; 2] {
                $unit
            }

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn read(block: &Packed) -> Block {
                let mut pieces = [_mm256_setzero_si256(); STRIP];
                for (g, out) in pieces.iter_mut().enumerate() {
                    *out = piece(block, g);
                }
                Block { pieces, scales: std::array::from_fn(|h| scale(block, h)), unit: unit(block) }
            }

            /// See [`crate::quant::packed::Packing::pack`].
            pub fn pack(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn all(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
                    let mut values = [[128; LEN]; ROWS];
                    let mut out = Group::of(out, rows.row_bytes / BYTES);
                    for b in 0..rows.row_bytes / BYTES {
                        for (r, values) in values.iter_mut().enumerate() {
                            let Some(block) = rows.row(r).get(b * BYTES..(b + 1) * BYTES) else { break };
                            let block = read(bytemuck::from_bytes(block));
                            put(&block, values);
                            out.put_scales(b, r, &block);
                        }
                        out.put_codes(b, &values, transpose);
                    }
                }
                // SAFETY: this function is reached through the tables of this level and those above only, which are handed out
                // on machines that have its instructions.
                unsafe { all(rows, transpose, out) }
            }

            /// See [`RowsProduct`].
            pub fn product(rows: &Rows<'_>, x: &[Q8Block], out: &mut [f32; ROWS]) {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn all(rows: &Rows<'_>, x: &[Q8Block], out: &mut [f32; ROWS]) {
                    for (h, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                        let mut lanes: [&[[u8; BYTES]]; LANES] = [&[]; LANES];
                        for (r, lane) in lanes.iter_mut().enumerate() {
                            *lane = rows.row(LANES * h + r).as_chunks().0;
                        }
                        let mut acc = _mm256_setzero_ps();
                        let zeros = Block {
                            pieces: [_mm256_setzero_si256(); STRIP],
                            scales: [0; 2 * STRIP],
                            unit: [0; 2],
                        };
                        let mut blocks = [zeros; LANES];
                        for (b, x) in x.as_chunks::<STRIP>().0.iter().enumerate() {
                            for (block, lane) in blocks.iter_mut().zip(lanes) {
                                if let Some(bytes) = lane.get(b) {
                                    *block = read(bytemuck::cast_ref(bytes));
                                }
                            }
                            acc = add_blocks(&blocks, $factor, x, acc);
                        }
                        store_f32(out, acc);
                    }
                }
                // SAFETY: as above.
                unsafe { all(rows, x, out) }
            }
        }
    };
}

/// Writes the values plus 128.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn put(block: &Block, values: &mut [u8; LEN]) {
    for (piece, out) in block.pieces.iter().zip(values.as_chunks_mut::<COLS>().0) {
        let codes = _mm256_xor_si256(*piece, _mm256_set1_epi8(-128));
        // SAFETY: there is space for 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), codes) };
    }
}

/// A group that is written.
struct Group<'a> {
    codes: &'a mut [u8],
    scales: &'a mut [u8],
    units: &'a mut [u8],
}

impl<'a> Group<'a> {
    /// A group of this many blocks. Missing rows become zeros.
    fn of(out: &'a mut [u8], n_blocks: usize) -> Group<'a> {
        let (codes, rest) = out.split_at_mut(n_blocks * STRIP * Codes::U8.bytes());
        rest.fill(0);
        let (scales, units) = rest.split_at_mut(n_blocks * STRIP * Scales::Halves.bytes());
        Group { codes, scales, units }
    }

    fn put_scales(&mut self, b: usize, r: usize, block: &Block) {
        let scales = &mut self.scales[b * STRIP * Scales::Halves.bytes()..];
        for (half, scale) in scales.chunks_exact_mut(ROWS).zip(block.scales) {
            half[r] = scale;
        }
        let bits = u16::from_le_bytes(block.unit);
        // NaNs become quiet.
        let bits = if bits & 0x7FFF > 0x7C00 { bits | 0x200 } else { bits };
        self.units[b * Scales::Halves.unit_bytes() + 2 * r..][..2].copy_from_slice(&bits.to_le_bytes());
    }

    fn put_codes(&mut self, b: usize, values: &[[u8; LEN]; ROWS], transpose: Transpose) {
        let codes = &mut self.codes[b * STRIP * Codes::U8.bytes()..][..STRIP * Codes::U8.bytes()];
        transpose(&Rows { bytes: values.as_flattened(), row_bytes: LEN }, 0, codes);
    }
}

/// Adds the products of a block of each of eight rows: the sums, in the order of [`super::packed`]'s products of such formats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_blocks(blocks: &[Block; LANES], factor: f32, x: &[Q8Block; STRIP], mut acc: __m256) -> __m256 {
    let mut units = [[0; 2]; LANES];
    let mut scales = [_mm256_setzero_si256(); LANES];
    for (r, block) in blocks.iter().enumerate() {
        units[r] = block.unit;
        // SAFETY: there are 16 bytes.
        let bytes = unsafe { _mm_loadu_si128(block.scales.as_ptr().cast()) };
        scales[r] = _mm256_cvtepi8_epi16(bytes);
    }
    let unit = _mm256_mul_ps(load_f16(units.as_flattened()), _mm256_set1_ps(factor));
    for (g, x) in x.iter().enumerate() {
        // SAFETY: there are 32 bytes.
        let activations = unsafe { _mm256_loadu_si256(x.qs.as_ptr().cast()) };
        let mut sums = [_mm256_setzero_si256(); LANES];
        for (r, block) in blocks.iter().enumerate() {
            let values = block.pieces[g];
            let products =
                _mm256_maddubs_epi16(_mm256_abs_epi8(values), _mm256_sign_epi8(activations, values));
            sums[r] = _mm256_madd_epi16(products, of_halves(scales[r], g));
        }
        acc = add_sum(acc, unit, sum_of_each(sums), x);
    }
    acc
}

/// The two scales of piece `g`, of sixteen, each in all numbers of 16 bits of a half.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn of_halves(scales: __m256i, g: usize) -> __m256i {
    let pair = match g / 4 {
        0 => _mm256_permute2x128_si256::<0x00>(scales, scales),
        _ => _mm256_permute2x128_si256::<0x11>(scales, scales),
    };
    let first = 4 * (g % 4) as i8;
    let (low, high) = (
        i16::from_le_bytes([first as u8, first as u8 + 1]),
        i16::from_le_bytes([first as u8 + 2, first as u8 + 3]),
    );
    let at = _mm256_setr_m128i(_mm_set1_epi16(low), _mm_set1_epi16(high));
    _mm256_shuffle_epi8(pair, at)
}

/// The sum of each of eight registers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum_of_each(x: [__m256i; LANES]) -> __m256i {
    let four = |a, b, c, d| _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let (low, high) = (four(x[0], x[1], x[2], x[3]), four(x[4], x[5], x[6], x[7]));
    let first = _mm256_permute2x128_si256::<0x20>(low, high);
    _mm256_add_epi32(first, _mm256_permute2x128_si256::<0x31>(low, high))
}

/// The point of eight values with the number in the lowest bits.
#[inline(always)]
fn point<const N: usize>(table: &[[i8; 8]; N], number: usize) -> Point {
    bytes(table[number % N])
}

/// Two points of four values.
#[inline(always)]
fn two<const N: usize>(table: &[[i8; 4]; N], numbers: [usize; 2]) -> Point {
    bytemuck::cast(numbers.map(|number| bytes(table[number % N])))
}

/// Four values of a function.
#[inline(always)]
fn four<T>(of: impl Fn(usize) -> T) -> [T; 4] {
    [of(0), of(1), of(2), of(3)]
}

format!(
    iq2_xxs,
    0.125,
    |block, g| {
        let [a, b, c, d, bits @ ..] = block.groups[g];
        let (numbers, bits) = ([a, b, c, d], u32::from_le_bytes(bits));
        negated(
            four(|p| point(&quant::iq2_xxs::GRID, usize::from(numbers[p]))),
            four(|p| grid::even_mask(bits >> (7 * p))),
        )
    },
    |block, h| odd(block.groups[h / 2][7] >> 4),
    |block| block.d
);
format!(
    iq2_xs,
    0.125,
    |block, g| {
        let words = four(|p| u16::from_le_bytes(block.points[4 * g + p]));
        negated(
            four(|p| point(&quant::iq2_xs::GRID, usize::from(words[p]))),
            four(|p| grid::even_mask(u32::from(words[p] >> 9))),
        )
    },
    |block, h| odd(block.scales[h / 2] >> (4 * (h % 2)) & 15),
    |block| block.d
);
format!(
    iq2_s,
    0.125,
    |block, g| {
        let high = |p: usize| usize::from(block.high[g] >> (2 * p) & 3) << 8;
        negated(
            four(|p| point(&quant::iq2_s::GRID, usize::from(block.low[4 * g + p]) | high(p))),
            four(|p| grid::mask(block.signs[4 * g + p])),
        )
    },
    |block, h| odd(block.scales[h / 2] >> (4 * (h % 2)) & 15),
    |block| block.d
);
format!(
    iq3_xxs,
    0.25,
    |block, g| {
        let bits = u32::from_le_bytes(block.groups[g]);
        negated(
            four(|p| two(&quant::iq3_xxs::GRID, block.points[g][p].map(usize::from))),
            four(|p| grid::even_mask(bits >> (7 * p))),
        )
    },
    |block, h| odd(block.groups[h / 2][3] >> 4),
    |block| block.d
);
format!(
    iq3_s,
    1.0,
    |block, g| {
        let number = |p: usize, i: usize| {
            let high = block.high[g] >> (2 * p + i) & 1;
            usize::from(block.low[4 * g + p][i]) | usize::from(high) << 8
        };
        negated(
            four(|p| two(&quant::iq3_s::GRID, [number(p, 0), number(p, 1)])),
            four(|p| grid::mask(block.signs[4 * g + p])),
        )
    },
    |block, h| odd(block.scales[h / 4] >> (4 * (h / 2 % 2)) & 15),
    |block| block.d
);
format!(
    iq1_s,
    0.125,
    |block, g| {
        let bits = u16::from_le_bytes(block.groups[g]);
        let high = |p: usize| usize::from(bits >> (3 * p) & 7) << 8;
        let points = four(|p| quant::iq1_s::EIGHTHS[usize::from(block.low[g][p]) | high(p)]);
        // These tables hold the points plus 128.
        let shift = if bits >> 15 == 0 { 1 - -128 } else { -1 - -128 };
        _mm256_add_epi8(together(points), _mm256_set1_epi8(shift as i16 as i8))
    },
    |block, h| odd(block.groups[h / 2][1] >> 4 & 7),
    |block| block.d
);
format!(
    iq1_m,
    0.125,
    |block, g| {
        let nibble = |p: usize| block.high[2 * g + p / 2] >> (4 * (p % 2)) & 15;
        let number = |p: usize| usize::from(block.low[4 * g + p]) | usize::from(nibble(p) & 7) << 8;
        let shift = |p: usize| [if nibble(p) & 8 == 0 { 129 } else { 127 }; 8];
        _mm256_add_epi8(together(four(|p| quant::iq1_s::EIGHTHS[number(p)])), together(four(shift)))
    },
    |block, h| odd((u16::from_le_bytes(block.scales[h / 4]) >> (3 * (h % 4)) & 7) as u8),
    |block| block.unit()
);
format!(
    tq1_0,
    1.0,
    |block, g| match g {
        0..5 => digit(load_32(&block.a), g),
        5 | 6 => digits_of_b(block, 2 * (g - 5)),
        _ => last(block),
    },
    |_block, _h| 1,
    |block| block.d
);

/// 32 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Digit `k` of bytes, less 1: tripling brings the next one to the front.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn digit(mut bytes: __m256i, k: usize) -> __m256i {
    for _ in 0..k {
        bytes = _mm256_add_epi8(_mm256_add_epi8(bytes, bytes), bytes);
    }
    // Bytes with all bits set where the digit is at least 1, and 2.
    let at_least =
        |least: u8| _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, _mm256_set1_epi8(least.cast_signed())), bytes);
    let less = _mm256_add_epi8(at_least(86), at_least(171));
    _mm256_sub_epi8(_mm256_set1_epi8(-1), less)
}

/// Digits `k` and `k + 1` of sixteen bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn digits_of_b(block: &quant::tq1_0::Packed, k: usize) -> __m256i {
    let both = load_32(bytemuck::cast_ref(&[block.b, block.b]));
    _mm256_blend_epi32::<0xF0>(digit(both, k), digit(both, k + 1))
}

/// The last digit of sixteen bytes, and four digits of four bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn last(block: &quant::tq1_0::Packed) -> __m256i {
    let b = digit(load_32(bytemuck::cast_ref(&[block.b, block.b])), 4);
    let mut c = [block.c; 4];
    for (k, bytes) in c.iter_mut().enumerate() {
        *bytes = bytes.map(|byte| byte.wrapping_mul([1, 3, 9, 27][k]));
    }
    let c: [u8; 16] = bytemuck::cast(c);
    _mm256_blend_epi32::<0xF0>(b, digit(load_32(bytemuck::cast_ref(&[c, c])), 0))
}
