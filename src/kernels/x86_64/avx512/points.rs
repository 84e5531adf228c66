//! Packs rows of formats whose values are points of a grid, or digits: the bytes of [`crate::quant::packed::Packing::pack`].

use std::arch::x86_64::*;

use super::rows::whole_runs;
use crate::kernels::x86_64::fetch_line;
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{Codes, Pack, ROWS, STRIP, Scales};
use crate::quant::{FORMAT_COUNT, Format, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, tq1_0};

/// How this level packs rows, by format.
pub const TABLE: [Option<Pack>; FORMAT_COUNT] = {
    let mut table: [Option<Pack>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::IQ1_S as usize] = Some(packs::iq1_s);
    table[Format::IQ1_M as usize] = Some(packs::iq1_m);
    table[Format::IQ2_XXS as usize] = Some(packs::iq2_xxs);
    table[Format::IQ2_XS as usize] = Some(packs::iq2_xs);
    table[Format::IQ2_S as usize] = Some(packs::iq2_s);
    table[Format::IQ3_XXS as usize] = Some(packs::iq3_xxs);
    table[Format::IQ3_S as usize] = Some(packs::iq3_s);
    table[Format::TQ1_0 as usize] = Some(packs::tq1_0);
    table
};

/// Values of a block.
const LEN: usize = 256;
/// Bytes of the codes and of the scales of a block of all rows.
const CODES: usize = STRIP * Codes::U8.bytes();
const SCALES: usize = STRIP * Scales::Halves.bytes();
const UNITS: usize = Scales::Halves.unit_bytes();

/// A block of one row.
struct Block {
    /// Values plus 128.
    codes: [__m512i; 4],
    /// A byte for each sixteen values.
    scales: __m128i,
    /// A binary16.
    unit: [u8; 2],
}

/// Blocks of sixteen rows, unpacked.
#[repr(align(64))]
struct Blocks {
    codes: [[u8; LEN]; ROWS],
    scales: [[u8; ROWS]; ROWS],
    units: [[u8; 2]; ROWS],
}

impl Blocks {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
    fn put(&mut self, r: usize, block: Block) {
        for (out, codes) in self.codes[r].as_chunks_mut::<64>().0.iter_mut().zip(block.codes) {
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), codes) };
        }
        // SAFETY: there is room for 16 bytes.
        unsafe { _mm_storeu_si128(self.scales[r].as_mut_ptr().cast(), block.scales) };
        self.units[r] = block.unit;
    }

    /// Writes them side by side.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
    fn write(&self, codes: &mut [u8], scales: &mut [u8], units: &mut [u8]) {
        whole_runs::<false>(self.codes.as_flattened(), LEN, codes.as_chunks_mut().0);
        let mut quads = [[0; 16 * ROWS]; 1];
        whole_runs::<false>(self.scales.as_flattened(), ROWS, &mut quads);
        // Byte `4r + k` of a quad is half piece `k` of row `r`.
        let order: [u8; 64] = std::array::from_fn(|i| (i % 16 * 4 + i / 16) as u8);
        let pairs = quads.as_flattened().as_chunks::<64>().0.iter().zip(scales.as_chunks_mut::<64>().0);
        for (quad, out) in pairs {
            let halves = _mm512_permutexvar_epi8(load_512(&order), load_512(quad));
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), halves) };
        }
        units.copy_from_slice(self.units.as_flattened());
    }
}

/// One function for each format.
mod packs {
    use super::*;

    macro_rules! packs {
        ($($name:ident)*) => { $(
            /// See [`crate::quant::packed::Packing::pack`].
            pub fn $name(rows: &Rows<'_>, _: Transpose, out: &mut [u8]) {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
                fn pack(rows: &Rows<'_>, out: &mut [u8]) {
                    const BYTES: usize = crate::quant::$name::BYTES;
                    let n_blocks = rows.row_bytes / BYTES;
                    let (codes, rest) = out.split_at_mut(n_blocks * CODES);
                    let (scales, units) = rest.split_at_mut(n_blocks * SCALES);
                    let (codes, scales) = (codes.chunks_exact_mut(CODES), scales.chunks_exact_mut(SCALES));
                    let rows: [&[[u8; BYTES]]; ROWS] = std::array::from_fn(|r| rows.row(r).as_chunks().0);
                    let mut blocks =
                        Blocks { codes: [[128; LEN]; ROWS], scales: [[0; ROWS]; ROWS], units: [[0; 2]; ROWS] };
                    let outs = codes.zip(scales).zip(units.chunks_exact_mut(UNITS));
                    for (b, ((codes, scales), units)) in outs.enumerate() {
                        for (r, row) in rows.iter().enumerate() {
                            let Some(block) = row.get(b) else { break };
                            fetch_next(block, row.len());
                            blocks.put(r, super::$name(bytemuck::cast_ref(block)));
                        }
                        blocks.write(codes, scales, units);
                    }
                }
                // SAFETY: this function is reached through the tables of this level and those above only, which are handed out
                // on machines that have its instructions.
                unsafe { pack(rows, out) }
            }
        )* };
    }

    packs!(iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0);

    /// Fetches the block at the same place of the sixteen rows that come next.
    #[inline(always)]
    fn fetch_next<const BYTES: usize>(block: &[u8; BYTES], n_blocks: usize) {
        let next = block.as_ptr().cast::<i8>().wrapping_add(ROWS * n_blocks * BYTES);
        fetch_line::<_MM_HINT_T0>(next);
        if BYTES > 64 {
            fetch_line::<_MM_HINT_T0>(next.wrapping_add(64));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_512(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: there are 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_256(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_128(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: there are 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_64(bytes: [u8; 8]) -> __m128i {
    _mm_cvtsi64_si128(i64::from_le_bytes(bytes))
}

/// The four registers of 64 bytes of a block: `codes` is evaluated for each quarter `j`.
macro_rules! quarters {
    (|$j:ident| $codes:expr) => {{
        let mut codes = [_mm512_setzero_si512(); 4];
        for $j in 0..4usize {
            codes[$j] = $codes;
        }
        codes
    }};
}

/// Numbers `8j..8j + 8` of 32 of sixteen bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn eight(numbers: __m512i, j: usize) -> __m256i {
    _mm256_cvtepu16_epi32(match j {
        0 => _mm512_castsi512_si128(numbers),
        1 => _mm512_extracti32x4_epi32::<1>(numbers),
        2 => _mm512_extracti32x4_epi32::<2>(numbers),
        _ => _mm512_extracti32x4_epi32::<3>(numbers),
    })
}

/// The points with those eight numbers, of which the lowest bits count.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn points<T, const N: usize>(grid: &[[T; 8]; N], numbers: __m256i) -> __m512i {
    const { assert!(N.is_power_of_two() && size_of::<T>() == 1) };
    let numbers = _mm256_and_si256(numbers, _mm256_set1_epi32(N as i32 - 1));
    // SAFETY: the numbers are those of points.
    unsafe { _mm512_i32gather_epi64::<8>(numbers, grid.as_ptr().cast()) }
}

/// The points of four values with those sixteen numbers, of which the lowest bits count.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn small_points<const N: usize>(grid: &[[i8; 4]; N], numbers: __m512i) -> __m512i {
    const { assert!(N.is_power_of_two()) };
    let numbers = _mm512_and_si512(numbers, _mm512_set1_epi32(N as i32 - 1));
    // SAFETY: the numbers are those of points.
    unsafe { _mm512_i32gather_epi32::<4>(numbers, grid.as_ptr().cast()) }
}

/// Values plus 128, negated where a bit of `signs` is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn signed(values: __m512i, signs: u64) -> __m512i {
    let codes = _mm512_xor_si512(values, _mm512_set1_epi8(-128));
    _mm512_mask_sub_epi8(codes, signs, _mm512_setzero_si512(), codes)
}

/// The signs of 32 points from seven bits of each: the eighth makes the number of those that are set even.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn even_signs(bits: __m256i) -> [u64; 4] {
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
    let nibble = _mm256_set1_epi8(15);
    let folded = _mm256_and_si256(_mm256_xor_si256(bits, _mm256_srli_epi16::<4>(bits)), nibble);
    let odd = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_128(&ODD)), folded);
    words(_mm256_or_si256(bits, odd))
}

/// Four words of 64 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn words(bytes: __m256i) -> [u64; 4] {
    let mut words = [0; 4];
    // SAFETY: there is room for 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), bytes) };
    words
}

/// The signs of groups of 32 values, each of which has four times seven bits in a word of 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn signs_of_groups(groups: __m256i) -> [u64; 4] {
    const AT: [u8; 8] = [0, 7, 14, 21, 32, 39, 46, 53];
    let at = _mm256_set1_epi64x(i64::from_le_bytes(AT));
    let bits = _mm256_multishift_epi64_epi8(at, groups);
    even_signs(_mm256_and_si256(bits, _mm256_set1_epi8(127)))
}

/// Odd numbers `2x + 1`.
#[inline]
#[target_feature(enable = "avx2")]
fn odd(scales: __m128i) -> __m128i {
    _mm_add_epi8(_mm_add_epi8(scales, scales), _mm_set1_epi8(1))
}

/// The scales in the upper four bits of words of 32, each for two half pieces.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn scales_of_groups(groups: __m256i) -> __m128i {
    let scales = _mm256_cvtepi32_epi8(_mm256_srli_epi32::<28>(groups));
    odd(_mm_unpacklo_epi8(scales, scales))
}

/// The nibbles of eight bytes, the lower first.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: __m128i) -> __m128i {
    let wide = _mm_cvtepu8_epi16(bytes);
    _mm_and_si128(_mm_or_si128(wide, _mm_slli_epi16::<4>(wide)), _mm_set1_epi8(15))
}

/// The unit that is written for a scale of a file: what is no number is quiet.
#[inline]
fn unit(d: [u8; 2]) -> [u8; 2] {
    let bits = u16::from_le_bytes(d);
    (if bits & 0x7FFF > 0x7C00 { bits | 0x200 } else { bits }).to_le_bytes()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq2_xxs(packed: &iq2_xxs::Packed) -> Block {
    let groups = load_512(bytemuck::cast_ref(&packed.groups));
    let (low, high) = (_mm512_cvtepi64_epi32(groups), _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(groups)));
    let (numbers, signs) = (_mm512_cvtepu8_epi16(low), signs_of_groups(high));
    let codes = quarters!(|j| signed(points(&iq2_xxs::GRID, eight(numbers, j)), signs[j]));
    Block { codes, scales: scales_of_groups(high), unit: unit(packed.d) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq2_xs(packed: &iq2_xs::Packed) -> Block {
    let numbers = load_512(bytemuck::cast_ref(&packed.points));
    let signs = even_signs(_mm512_cvtepi16_epi8(_mm512_srli_epi16::<9>(numbers)));
    let codes = quarters!(|j| signed(points(&iq2_xs::GRID, eight(numbers, j)), signs[j]));
    Block { codes, scales: odd(nibbles(load_64(packed.scales))), unit: unit(packed.d) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq2_s(packed: &iq2_s::Packed) -> Block {
    /// Where the two bits of each point are.
    const AT: [u8; 32] = {
        let mut at = [0; 32];
        let mut i = 0;
        while i < 32 {
            at[i] = 2 * i as u8;
            i += 1;
        }
        at
    };
    let high = _mm256_set1_epi64x(i64::from_le_bytes(packed.high));
    let high = _mm256_and_si256(_mm256_multishift_epi64_epi8(load_256(&AT), high), _mm256_set1_epi8(3));
    let numbers = numbers(load_256(&packed.low), high);
    let signs: [u64; 4] = words(load_256(&packed.signs));
    let codes = quarters!(|j| signed(points(&iq2_s::GRID, eight(numbers, j)), signs[j]));
    Block { codes, scales: odd(nibbles(load_64(packed.scales))), unit: unit(packed.d) }
}

/// Numbers of sixteen bits from their lower and their higher bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn numbers(low: __m256i, high: __m256i) -> __m512i {
    let high = _mm512_slli_epi16::<8>(_mm512_cvtepu8_epi16(high));
    _mm512_or_si512(_mm512_cvtepu8_epi16(low), high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq3_xxs(packed: &iq3_xxs::Packed) -> Block {
    let points: &[[u8; 16]; 4] = bytemuck::cast_ref(&packed.points);
    let groups = load_256(bytemuck::cast_ref(&packed.groups));
    let signs = signs_of_groups(groups);
    let number = |j: usize| _mm512_cvtepu8_epi32(load_128(&points[j]));
    let codes = quarters!(|j| signed(small_points(&iq3_xxs::GRID, number(j)), signs[j]));
    Block { codes, scales: scales_of_groups(groups), unit: unit(packed.d) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq3_s(packed: &iq3_s::Packed) -> Block {
    let low: &[[u8; 16]; 4] = bytemuck::cast_ref(&packed.low);
    let high: [[u8; 2]; 4] = bytemuck::cast(packed.high);
    let number = |j: usize| {
        let (low, high) = (_mm512_cvtepu8_epi32(load_128(&low[j])), u16::from_le_bytes(high[j]));
        _mm512_mask_add_epi32(low, high, low, _mm512_set1_epi32(256))
    };
    let signs: [u64; 4] = words(load_256(&packed.signs));
    let codes = quarters!(|j| signed(small_points(&iq3_s::GRID, number(j)), signs[j]));
    let [a, b, c, d] = packed.scales;
    let scales = nibbles(load_64([a, b, c, d, 0, 0, 0, 0]));
    Block { codes, scales: odd(_mm_unpacklo_epi8(scales, scales)), unit: unit(packed.d) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq1_s(packed: &iq1_s::Packed) -> Block {
    const AT: [u8; 8] = [0, 3, 6, 9, 16, 19, 22, 25];
    let groups = load_128(bytemuck::cast_ref(&packed.groups));
    let at = _mm256_set1_epi64x(i64::from_le_bytes(AT));
    let high = _mm256_multishift_epi64_epi8(at, _mm256_cvtepu32_epi64(groups));
    let high = _mm256_and_si256(high, _mm256_set1_epi8(7));
    let numbers = numbers(load_256(bytemuck::cast_ref(&packed.low)), high);
    // Bit `g` says that group `g` is shifted down.
    let down = _mm_movepi16_mask(groups);
    let shift = |j: usize| {
        let down = u64::from(down) >> (2 * j);
        let down = ((down & 1) * 0xFFFF_FFFF) | ((down >> 1 & 1) * (0xFFFF_FFFF << 32));
        _mm512_mask_blend_epi8(down, _mm512_set1_epi8(1), _mm512_set1_epi8(-1))
    };
    let codes = quarters!(|j| _mm512_add_epi8(points(&iq1_s::EIGHTHS, eight(numbers, j)), shift(j)));
    let scales = _mm_and_si128(_mm_srli_epi16::<12>(groups), _mm_set1_epi16(7));
    let scales = _mm_or_si128(scales, _mm_slli_epi16::<8>(scales));
    Block { codes, scales: odd(scales), unit: unit(packed.d) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn iq1_m(packed: &iq1_m::Packed) -> Block {
    const AT: [u8; 16] = [0, 3, 6, 9, 16, 19, 22, 25, 32, 35, 38, 41, 48, 51, 54, 57];
    let wide = _mm256_cvtepu8_epi16(load_128(&packed.high));
    let high = _mm256_or_si256(wide, _mm256_slli_epi16::<4>(wide));
    // Bit `i` says that point `i` is shifted down.
    let down = _mm256_test_epi8_mask(high, _mm256_set1_epi8(8));
    let high = _mm256_and_si256(high, _mm256_set1_epi8(7));
    let numbers = numbers(load_256(&packed.low), high);
    let shift = |j: usize| {
        let down = (down >> (8 * j)) as u8;
        _mm512_mask_blend_epi64(down, _mm512_set1_epi8(1), _mm512_set1_epi8(-1))
    };
    let codes = quarters!(|j| _mm512_add_epi8(points(&iq1_s::EIGHTHS, eight(numbers, j)), shift(j)));
    let words = _mm_set1_epi64x(i64::from_le_bytes(bytemuck::cast(packed.scales)));
    let scales = _mm_and_si128(_mm_multishift_epi64_epi8(load_128(&AT), words), _mm_set1_epi8(7));
    Block { codes, scales: odd(scales), unit: unit(packed.unit()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,f16c")]
fn tq1_0(packed: &tq1_0::Packed) -> Block {
    let bytes: &[u8; tq1_0::BYTES] = bytemuck::cast_ref(packed);
    // SAFETY: the mask lets as many bytes be read as there are.
    let mut rest = unsafe { _mm512_maskz_loadu_epi8((1 << tq1_0::BYTES) - 1, bytes.as_ptr().cast()) };
    let mut codes = [[0; LEN / 4]; 4];
    let values = codes.as_flattened_mut();
    for k in 0..5 {
        // The digit, which tripling brings to the front, less 1 and plus 128.
        let one = _mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8(86));
        let two = _mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8(171u8.cast_signed()));
        let digits = _mm512_mask_blend_epi8(one, _mm512_set1_epi8(127), _mm512_set1_epi8(-128));
        let digits = _mm512_mask_blend_epi8(two, digits, _mm512_set1_epi8(129u8.cast_signed()));
        rest = _mm512_add_epi8(_mm512_add_epi8(rest, rest), rest);
        let (low, high) = (_mm512_castsi512_si256(digits), _mm512_extracti64x4_epi64::<1>(digits));
        let (next, last) = (_mm256_castsi256_si128(high), _mm256_extracti128_si256::<1>(high));
        let a: &mut [u8; 32] = values[32 * k..].first_chunk_mut().expect("room for each digit");
        // SAFETY: there is room for 32 bytes.
        unsafe { _mm256_storeu_si256(a.as_mut_ptr().cast(), low) };
        let b: &mut [u8; 16] = values[160 + 16 * k..].first_chunk_mut().expect("room for each digit");
        // SAFETY: there is room for 16 bytes.
        unsafe { _mm_storeu_si128(b.as_mut_ptr().cast(), next) };
        if k < 4 {
            let c = _mm_cvtsi128_si32(last);
            values[240 + 4 * k..][..4].copy_from_slice(&c.to_le_bytes());
        }
    }
    let codes = quarters!(|j| load_512(&codes[j]));
    Block { codes, scales: _mm_set1_epi8(1), unit: unit(packed.d) }
}
