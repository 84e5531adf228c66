//! Reads packed groups (see [`crate::quant::packed`]) into 256-bit registers: for each quad, the four columns of eight rows, one
//! in each 32-bit lane. `h` says which rows: the first eight or the others.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernels::x86_64::{fetch_line, holds_stretch};
use crate::quant::Q8Block;
use crate::quant::packed::{Ahead, Codes, Group, STRIP, Scales};

/// Rows in a register.
pub const LANES: usize = 8;

/// Bytes between the current weights of a single vector's product and those that are fetched meanwhile, where the first-level
/// cache holds all lines under way ([`holds_stretch`]): then one step fetches them into it. On Zen 5 one thread then reads 37 to
/// 40 GB/s of most formats in a loop of its own, of the 41 to 43 that a plain sum reads; 32 to 35 in two steps.
const AHEAD_IN_ONE_STEP: usize = 24576;
/// The same in two steps: into the second-level cache, and from there. On Zen 4 one thread then reads 24 GB/s of Q4_0 and Q6_K,
/// of the 25 to 30 that a plain sum reads; 20 with 12 KB, 17 with 8 KB into the first-level cache.
const AHEAD: usize = 32768;
const NEAR: usize = 2048;
/// The same for several vectors, which take longer: 4 KB are too little, and 32 KB are no better. Many vectors need it too:
/// without it, prompts of 512 tokens in a file of Llama 3.2 1B's shape took a fifth longer (Q8_0, Zen 5).
const AHEAD_OF_SEVERAL: usize = 14336;

/// The values of the four-bit codes of IQ4_NL and IQ4_XS, plus 128.
const IQ4: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// Twice the values of the codes of MXFP4, plus 12.
const E2M1: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// [`IQ4`] less 128.
const IQ4_SIGNED: [u8; 16] = {
    let mut values = IQ4;
    let mut i = 0;
    while i < values.len() {
        values[i] ^= 0x80;
        i += 1;
    }
    values
};

/// Adds up the products of `n` pieces with each vector of `x`, compiled for the instructions of some level.
pub type AddPieces = unsafe fn(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]);

/// The parts of a group.
pub struct Parts<'a> {
    pub codes: &'a [u8],
    pub scales: &'a [u8],
    pub units: &'a [u8],
    /// Bytes from the beginning of the codes to the end of the groups that are multiplied next.
    end: usize,
    /// The memory that is multiplied after those.
    then: &'a Ahead,
    /// Bytes from the first to the last that are multiplied without a break.
    stretch: usize,
    /// Whether a single vector's weights are fetched in one step.
    in_one_step: bool,
}

impl<'a> Parts<'a> {
    pub fn of(group: &Group<'a>, codes: Codes, scales: Scales) -> Parts<'a> {
        let n = group.n_pieces;
        let (codes, rest) = group.bytes.split_at(n * codes.bytes());
        let (scales, units) = rest.split_at(n * scales.bytes());
        let end = group.bytes.len() + group.n_following;
        Parts {
            codes,
            scales,
            units,
            end,
            then: group.then,
            stretch: group.n_before + end,
            in_one_step: holds_stretch(),
        }
    }

    /// Fetches what is read some pieces later, perhaps of a following group: too far ahead for the processor's own prefetching,
    /// to which groups are many short streams. `bytes` are the bytes of a piece in the group. For a `single` vector they go into
    /// the first-level cache.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn prefetch(&self, i: usize, bytes: usize, single: bool) {
        let bytes = i * bytes..(i + 1) * bytes;
        match (single, self.in_one_step) {
            (false, _) => self.fetch(bytes, AHEAD_OF_SEVERAL),
            (true, true) => self.fetch_lines::<_MM_HINT_NTA, false, true>(bytes, AHEAD_IN_ONE_STEP),
            (true, false) => self.fetch_lines::<_MM_HINT_T1, true, true>(bytes, AHEAD),
        }
    }

    /// Fetches what lies `ahead` of some bytes of the group into the second-level cache: the lines that begin there, so that each
    /// line is fetched exactly one time.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn fetch(&self, bytes: Range<usize>, ahead: usize) {
        self.fetch_lines::<_MM_HINT_T1, false, false>(bytes, ahead);
    }

    /// As [`Parts::fetch`], into the cache of `HINT`, and what is near into the first-level cache if `NEAR_TOO`. With `APART` the
    /// rare cases are in a function of their own: loops over one vector are faster for it; loops over eight, whose sums would go
    /// through memory, are slower.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn fetch_lines<const HINT: i32, const NEAR_TOO: bool, const APART: bool>(
        &self,
        bytes: Range<usize>,
        ahead: usize,
    ) {
        let first = self.codes.as_ptr().cast::<i8>();
        // Of a short stretch all, and then the beginning of what follows.
        let ahead = self.stretch.min(ahead);
        let (mut line, end) = (bytes.start.next_multiple_of(64), bytes.end);
        if ahead + end <= self.end {
            // Mostly no line needs a check.
            while line < end {
                fetch_line::<HINT>(first.wrapping_add(ahead + line));
                if NEAR_TOO {
                    fetch_line::<_MM_HINT_T0>(first.wrapping_add(NEAR + line));
                }
                line += 64;
            }
        } else if APART {
            self.fetch_each_apart::<HINT, NEAR_TOO>(line, end, ahead);
        } else {
            self.fetch_each::<HINT, NEAR_TOO>(line, end, ahead);
        }
    }

    /// Fetches lines of which some may belong to what follows.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn fetch_each<const HINT: i32, const NEAR_TOO: bool>(&self, mut line: usize, end: usize, ahead: usize) {
        let first = self.codes.as_ptr().cast::<i8>();
        while line < end {
            let at = ahead + line;
            if at < self.end {
                fetch_line::<HINT>(first.wrapping_add(at));
            } else if at - self.end < self.then.n_bytes {
                fetch_line::<HINT>(first.with_addr(self.then.address + (at - self.end)));
            }
            if NEAR_TOO {
                fetch_line::<_MM_HINT_T0>(first.wrapping_add(NEAR + line));
            }
            line += 64;
        }
    }

    /// [`Parts::fetch_each`].
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn fetch_each_apart<const HINT: i32, const NEAR_TOO: bool>(&self, line: usize, end: usize, ahead: usize) {
        self.fetch_each::<HINT, NEAR_TOO>(line, end, ahead);
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
pub fn load_f32(x: &[f32; LANES]) -> __m256 {
    // SAFETY: there are 8 numbers.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn store_f32(out: &mut [f32; LANES], x: __m256) {
    // SAFETY: there is space for 8 numbers.
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
pub fn load_f16(p: &[u8]) -> __m256 {
    _mm256_cvtph_ps(load_128(p))
}

/// Eight bfloat16 numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn load_bf16(p: &[u8]) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_128(p))))
}

/// Eight bytes as numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn load_u8(p: &[u8]) -> __m256 {
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
pub fn load_i8_twice(p: &[u8]) -> __m256i {
    let x = _mm256_cvtepi8_epi32(load_64(p));
    _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32::<16>(x))
}

/// Half of eight numbers of four bits of exponent with a bias of 7 and three of mantissa.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn load_half_e4m3(p: &[u8]) -> __m256 {
    let bits = _mm256_slli_epi32::<20>(_mm256_cvtepu8_epi32(load_64(p)));
    _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(f32::from_bits((127 + 119) << 23)))
}

/// Unsigned bytes of the low nibbles and of the high ones, each byte in a lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles_wide(p: &[u8]) -> [__m256i; 2] {
    let bytes = _mm256_cvtepu8_epi32(load_64(p));
    [_mm256_and_si256(bytes, _mm256_set1_epi32(15)), _mm256_srli_epi32::<4>(bytes)]
}

/// The low nibbles of four quads, then the high ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn nibbles(p: &[u8], h: usize) -> [__m256i; 8] {
    let mask = _mm256_set1_epi8(15);
    let mut q = [mask; 8];
    for j in 0..4 {
        let both = load(&p[64 * j + 32 * h..]);
        q[j] = _mm256_and_si256(both, mask);
        q[j + 4] = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
    }
    q
}

/// The values of four-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn look_up(p: &[u8], h: usize, values: &[u8; 16]) -> [__m256i; 8] {
    let values = _mm256_broadcastsi128_si256(load_128(values));
    let mut q = nibbles(p, h);
    for q in &mut q {
        *q = _mm256_shuffle_epi8(values, *q);
    }
    q
}

/// The values of IQ4_NL and IQ4_XS, plus 128.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn iq4(p: &[u8], h: usize) -> [__m256i; 8] {
    look_up(p, h, &IQ4)
}

/// The values of IQ4_NL and IQ4_XS, signed.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn iq4_signed(p: &[u8], h: usize) -> [__m256i; 8] {
    look_up(p, h, &IQ4_SIGNED)
}

/// Twice the values of MXFP4, plus 12.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn e2m1(p: &[u8], h: usize) -> [__m256i; 8] {
    look_up(p, h, &E2M1)
}

/// Two planes, whose bits `2i..2i + 2` belong to quad `4p + i`: those of each quad, moved to bits `SHIFT..SHIFT + 2`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn planes<const SHIFT: i32>(p: &[u8], h: usize) -> [__m256i; 8] {
    let mask = _mm256_set1_epi8(3 << SHIFT);
    let mut q = [mask; 8];
    for (plane, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let bits = load(&p[64 * plane + 32 * h..]);
        let shifted = match SHIFT {
            4 => [
                _mm256_slli_epi16::<4>(bits),
                _mm256_slli_epi16::<2>(bits),
                bits,
                _mm256_srli_epi16::<2>(bits),
            ],
            _ => [
                bits,
                _mm256_srli_epi16::<2>(bits),
                _mm256_srli_epi16::<4>(bits),
                _mm256_srli_epi16::<6>(bits),
            ],
        };
        for (q, shifted) in q.iter_mut().zip(shifted) {
            *q = _mm256_and_si256(shifted, mask);
        }
    }
    q
}

/// Twice the bits `4j..4j + 4` of the word of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn one_bit_twice(p: &[u8], h: usize) -> [__m256i; 8] {
    let (words, two) = (load(&p[32 * h..]), _mm256_set1_epi8(2));
    let bits = [0x0804_0201, 0x8040_2010u32.cast_signed()].map(|bits| _mm256_set1_epi32(bits));
    let mut q = [two; 8];
    for (j, q) in q.iter_mut().enumerate() {
        // Byte `j / 2` of each row in all of its bytes.
        let first = 0x0101_0101 * (j as i32 / 2);
        let spread = _mm256_broadcastsi128_si256(_mm_setr_epi32(
            first,
            0x0404_0404 + first,
            0x0808_0808 + first,
            0x0C0C_0C0C + first,
        ));
        let set = _mm256_and_si256(_mm256_shuffle_epi8(words, spread), bits[j % 2]);
        *q = _mm256_and_si256(_mm256_cmpeq_epi8(set, bits[j % 2]), two);
    }
    q
}

/// Two-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn two_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    planes::<0>(p, h)
}

/// Five-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn five_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    let mut q = nibbles(p, h);
    let masks = &p[256..320].as_chunks::<4>().0;
    // Byte i of a register tests bit i % 8 of byte i / 8 of its mask.
    let spread = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201u64.cast_signed());
    let sixteen = _mm256_set1_epi8(16);
    for (j, q) in q.iter_mut().enumerate() {
        let mask = _mm256_set1_epi32(i32::from_le_bytes(masks[2 * j + h]));
        let set = _mm256_and_si256(_mm256_shuffle_epi8(mask, spread), bits);
        *q = _mm256_or_si256(*q, _mm256_and_si256(_mm256_cmpeq_epi8(set, bits), sixteen));
    }
    q
}

/// Six-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn six_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    let mut q = nibbles(p, h);
    for (q, high) in q.iter_mut().zip(planes::<4>(&p[256..], h)) {
        *q = _mm256_or_si256(*q, high);
    }
    q
}

/// Eight-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn eight_bits(p: &[u8], h: usize) -> [__m256i; 8] {
    let mut q = [_mm256_setzero_si256(); 8];
    for (j, q) in q.iter_mut().enumerate() {
        *q = load(&p[64 * j + 32 * h..]);
    }
    q
}

/// Eight-bit codes less 128, signed.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn eight_bits_signed(p: &[u8], h: usize) -> [__m256i; 8] {
    let mut q = eight_bits(p, h);
    for q in &mut q {
        *q = _mm256_xor_si256(*q, _mm256_set1_epi8(-128));
    }
    q
}

/// Quad `j` of a block in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quad(x: &Q8Block, j: usize) -> __m256i {
    let quads = x.qs.as_chunks::<4>().0;
    _mm256_set1_epi32(i32::from_le_bytes(quads[j].map(i8::cast_unsigned)))
}

/// `acc + d * x.d * sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_sum(acc: __m256, d: __m256, sum: __m256i, x: &Q8Block) -> __m256 {
    _mm256_fmadd_ps(d, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(x.d)), acc)
}

/// `acc + d * x.d * sum + m * x.sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_with_minimum(acc: __m256, (d, m): (__m256, __m256), sum: __m256i, x: &Q8Block) -> __m256 {
    add_sum(_mm256_fmadd_ps(m, _mm256_set1_ps(x.sum), acc), d, sum, x)
}

/// `acc + unit * x.d * sum + offsets[0] * (sum of the first half) + offsets[1] * (that of the second)`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_halves(acc: __m256, unit: __m256, sum: __m256i, x: &Q8Block, offsets: [__m256; 2]) -> __m256 {
    let acc = _mm256_fmadd_ps(offsets[0], _mm256_set1_ps(x.sum_low), acc);
    let acc = _mm256_fmadd_ps(offsets[1], _mm256_set1_ps(x.sum - x.sum_low), acc);
    add_sum(acc, unit, sum, x)
}

/// `acc + d * x.d * sum - m * x.sum`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_less_minimum(acc: __m256, (d, m): (__m256, __m256), sum: __m256i, x: &Q8Block) -> __m256 {
    add_sum(_mm256_fnmadd_ps(m, _mm256_set1_ps(x.sum), acc), d, sum, x)
}

/// The bits of `d[0] * Σ code·x` of the first half of a piece plus `d[1]` times that of the second, from the sums of codes that
/// are 12 too large.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn float_halves([low, high]: [__m256i; 2], d: [__m256; 2], x: &Q8Block) -> __m256i {
    // The biases are -128 times the sums of activations.
    let less = |sums: __m256i, bias: i32| {
        _mm256_cvtepi32_ps(_mm256_add_epi32(sums, _mm256_set1_epi32(bias / 128 * 12)))
    };
    let low = _mm256_mul_ps(d[0], less(low, x.bias_low));
    _mm256_castps_si256(_mm256_fmadd_ps(d[1], less(high, x.bias - x.bias_low), low))
}

/// The scales of piece `i`, `N` bytes.
#[inline(always)]
pub fn scales<'a, const N: usize>(parts: &Parts<'a>, i: usize) -> &'a [u8; N] {
    &parts.scales.as_chunks().0[i]
}

/// The units of piece `i`, `N` bytes.
#[inline(always)]
pub fn units<'a, const N: usize>(parts: &Parts<'a>, i: usize) -> &'a [u8; N] {
    &parts.units.as_chunks().0[i / STRIP]
}

/// The units, scales twice in each lane, and offsets of the halves of a piece for eight rows.
pub type HalfLine = (__m256, [__m256i; 2], [__m256; 2]);

/// The scales of piece `i` for the rows of half `h` of a format with a signed scale per half piece in units of eight pieces:
/// the units times `factor`, the scales twice in each lane, and those units times scales times `-offset`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_scales(parts: &Parts<'_>, i: usize, h: usize, offset: f32, factor: f32) -> HalfLine {
    let unit = _mm256_mul_ps(load_f16(&units::<32>(parts, i)[16 * h..]), _mm256_set1_ps(factor));
    let scales = &scales::<32>(parts, i)[8 * h..];
    let shift = _mm256_mul_ps(unit, _mm256_set1_ps(-offset));
    let offsets = [_mm256_mul_ps(shift, load_i8(scales)), _mm256_mul_ps(shift, load_i8(&scales[16..]))];
    (unit, [load_i8_twice(scales), load_i8_twice(&scales[16..])], offsets)
}

/// As [`half_scales`] of a format with a scale and a minimum of four bits per half piece: the units, the scales twice in each
/// lane, and the minima, negative.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_minima(parts: &Parts<'_>, i: usize, h: usize) -> HalfLine {
    let (units, scales) = (&units::<64>(parts, i)[16 * h..], &scales::<32>(parts, i)[8 * h..]);
    let minus = _mm256_sub_ps(_mm256_setzero_ps(), load_f16(&units[32..]));
    let ([low, low_min], [high, high_min]) = (nibbles_wide(scales), nibbles_wide(&scales[16..]));
    let twice = |x: __m256i| _mm256_or_si256(x, _mm256_slli_epi32::<16>(x));
    let minimum = |x: __m256i| _mm256_mul_ps(minus, _mm256_cvtepi32_ps(x));
    (load_f16(units), [twice(low), twice(high)], [minimum(low_min), minimum(high_min)])
}
