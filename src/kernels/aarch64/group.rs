//! Reads packed groups (see [`crate::quant::packed`]) into 128-bit registers: for each quad, the four columns of four rows. `g`,
//! of four, says which rows: `4g..4g + 4`.
//!
//! Codes become signed numbers, without the format's offset. They always fit a byte, and the product needs no sum of activations.

use std::arch::aarch64::*;

use crate::quant::Q8Block;
use crate::quant::packed::{Group, Scales};

/// Four columns of sixteen rows: four bytes for each, four rows together.
pub type Quad = [[u8; 16]; 4];
/// The values of a piece, for four rows.
pub type Values = [int8x16_t; 8];

/// The parts of a group whose pieces have `QUADS` times 64 bytes of codes.
pub struct Parts<'a, const QUADS: usize> {
    /// Codes of each piece.
    pub codes: &'a [[Quad; QUADS]],
    /// Scales of all pieces, in sixteens of bytes.
    scales: &'a [[[u8; 4]; 4]],
    /// Units of the scales, of eight pieces each.
    units: &'a [[[u8; 4]; 4]],
}

impl<'a, const QUADS: usize> Parts<'a, QUADS> {
    /// Cuts a group up.
    pub fn of(group: &Group<'a>, scales: Scales) -> Parts<'a, QUADS> {
        let sixteens = group.bytes.as_chunks::<4>().0.as_chunks::<4>().0;
        let (codes, rest) = sixteens.split_at(group.n_pieces * QUADS * 4);
        let (scales, units) = rest.split_at(group.n_pieces * scales.bytes() / 16);
        let codes = codes.as_flattened().as_flattened().as_chunks::<16>().0.as_chunks::<4>().0;
        Parts { codes: codes.as_chunks::<QUADS>().0, scales, units }
    }
}

/// Sixteen bytes.
#[inline]
#[target_feature(enable = "neon")]
fn load(p: &[u8; 16]) -> uint8x16_t {
    // SAFETY: there are 16 bytes.
    unsafe { vld1q_u8(p.as_ptr()) }
}

/// Sixteen values.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_values(p: &[i8; 16]) -> int8x16_t {
    // SAFETY: there are 16 values.
    unsafe { vld1q_s8(p.as_ptr()) }
}

/// The low nibbles of four quads, then the high ones.
#[inline]
#[target_feature(enable = "neon")]
fn nibbles(p: &[Quad], g: usize) -> [uint8x16_t; 8] {
    let (mut q, mask) = ([vdupq_n_u8(0); 8], vdupq_n_u8(15));
    for (j, quad) in p.iter().take(4).enumerate() {
        let both = load(&quad[g]);
        (q[j], q[j + 4]) = (vandq_u8(both, mask), vshrq_n_u8::<4>(both));
    }
    q
}

/// Two-bit codes.
#[inline]
#[target_feature(enable = "neon")]
pub fn two_bits(p: &[Quad; 2], g: usize) -> Values {
    let (mut values, mask) = ([vdupq_n_s8(0); 8], vdupq_n_u8(3));
    for (values, quad) in values.as_chunks_mut::<4>().0.iter_mut().zip(p) {
        let bits = load(&quad[g]);
        let planes = [bits, vshrq_n_u8::<2>(bits), vshrq_n_u8::<4>(bits), vshrq_n_u8::<6>(bits)];
        for (value, plane) in values.iter_mut().zip(planes) {
            *value = vreinterpretq_s8_u8(vandq_u8(plane, mask));
        }
    }
    values
}

/// 1 where a bit of the word of a row is set, and -1 elsewhere.
#[inline]
#[target_feature(enable = "neon")]
pub fn signs(p: &[Quad; 1], g: usize) -> Values {
    const BITS: [[u8; 16]; 2] = [
        [1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8],
        [16, 32, 64, 128, 16, 32, 64, 128, 16, 32, 64, 128, 16, 32, 64, 128],
    ];
    const SPREAD: [u8; 16] = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12];
    let (words, spread, mut values) = (load(&p[0][g]), load(&SPREAD), [vdupq_n_s8(0); 8]);
    for (j, value) in values.iter_mut().enumerate() {
        let bytes = vqtbl1q_u8(words, vaddq_u8(spread, vdupq_n_u8(j as u8 / 2)));
        let set = vtstq_u8(bytes, load(&BITS[j % 2]));
        *value = vreinterpretq_s8_u8(vorrq_u8(vandq_u8(set, vdupq_n_u8(1)), vmvnq_u8(set)));
    }
    values
}

/// Two-bit codes less 1.
#[inline]
#[target_feature(enable = "neon")]
pub fn two_bits_less_one(p: &[Quad; 2], g: usize) -> Values {
    let mut values = two_bits(p, g);
    for value in &mut values {
        *value = vsubq_s8(*value, vdupq_n_s8(1));
    }
    values
}

/// Four-bit codes less the format's offset.
#[inline]
#[target_feature(enable = "neon")]
pub fn four_bits<const OFFSET: i8>(p: &[Quad; 4], g: usize) -> Values {
    let (q, offset) = (nibbles(p, g), vdupq_n_s8(OFFSET));
    let mut values = [offset; 8];
    for (value, q) in values.iter_mut().zip(q) {
        *value = vsubq_s8(vreinterpretq_s8_u8(q), offset);
    }
    values
}

/// The values of the codes of IQ4_NL and IQ4_XS.
#[inline]
#[target_feature(enable = "neon")]
pub fn iq4(p: &[Quad; 4], g: usize) -> Values {
    look_up(p, g, &[-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
}

/// Twice the values of the codes of MXFP4.
#[inline]
#[target_feature(enable = "neon")]
pub fn e2m1(p: &[Quad; 4], g: usize) -> Values {
    look_up(p, g, &[0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])
}

/// The values of four-bit codes.
#[inline]
#[target_feature(enable = "neon")]
fn look_up(p: &[Quad; 4], g: usize, table: &[i8; 16]) -> Values {
    let (q, table) = (nibbles(p, g), load_values(table));
    let mut values = [table; 8];
    for (value, q) in values.iter_mut().zip(q) {
        *value = vqtbl1q_s8(table, q);
    }
    values
}

/// Five-bit codes.
#[inline]
#[target_feature(enable = "neon")]
pub fn five_bits(p: &[Quad; 5], g: usize) -> Values {
    let mut values = five_bits_centred(p, g);
    for value in &mut values {
        *value = vaddq_s8(*value, vdupq_n_s8(16));
    }
    values
}

/// Five-bit codes less 16: a clear fifth bit is a sign.
#[inline]
#[target_feature(enable = "neon")]
pub fn five_bits_centred(p: &[Quad; 5], g: usize) -> Values {
    let q = nibbles(p, g);
    let mut values = [vdupq_n_s8(0); 8];
    let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
    // Of the eight bytes of a quad's mask two belong to the rows, one for two of them; a register holds two masks.
    let byte = vcombine_u8(vdup_n_u8(2 * g as u8), vdup_n_u8(2 * g as u8 + 1));
    let bytes = [byte, vaddq_u8(byte, vdupq_n_u8(8))];
    for (k, masks) in p[4].iter().enumerate() {
        let clear = vmvnq_u8(load(masks));
        for (half, byte) in bytes.into_iter().enumerate() {
            let signs = vtstq_u8(vqtbl1q_u8(clear, byte), bit);
            values[2 * k + half] = vreinterpretq_s8_u8(vsliq_n_u8::<4>(q[2 * k + half], signs));
        }
    }
    values
}

/// Six-bit codes less 32: their upper two bits, with the upper of these inverted, are a signed number.
#[inline]
#[target_feature(enable = "neon")]
pub fn six_bits_centred(p: &[Quad; 6], g: usize) -> Values {
    let q = nibbles(p, g);
    let mut values = [vdupq_n_s8(0); 8];
    for (plane, quad) in p[4..].iter().enumerate() {
        let bits = vreinterpretq_s8_u8(veorq_u8(load(&quad[g]), vdupq_n_u8(0xAA)));
        let high = [vshlq_n_s8::<6>(bits), vshlq_n_s8::<4>(bits), vshlq_n_s8::<2>(bits), bits];
        for (i, high) in high.into_iter().enumerate() {
            let j = 4 * plane + i;
            values[j] = vsliq_n_s8::<4>(vreinterpretq_s8_u8(q[j]), vshrq_n_s8::<6>(high));
        }
    }
    values
}

/// Eight-bit codes less 128.
#[inline]
#[target_feature(enable = "neon")]
pub fn eight_bits_centred(p: &[Quad; 8], g: usize) -> Values {
    let mut values = [vdupq_n_s8(0); 8];
    for (value, quad) in values.iter_mut().zip(p) {
        *value = vreinterpretq_s8_u8(veorq_u8(load(&quad[g]), vdupq_n_u8(128)));
    }
    values
}

/// Numbers of two bytes, of sixteen rows in 32 bytes.
#[inline]
#[target_feature(enable = "neon")]
fn u16s(p: &[[[u8; 4]; 4]], g: usize) -> uint16x4_t {
    let p = &p[g / 2];
    let (low, high) = (u32::from_le_bytes(p[g % 2 * 2]), u32::from_le_bytes(p[g % 2 * 2 + 1]));
    vcreate_u16(u64::from(low) | u64::from(high) << 32)
}

/// Binary16 numbers.
#[inline]
#[target_feature(enable = "neon")]
fn f16s(p: &[[[u8; 4]; 4]], g: usize) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(u16s(p, g)))
}

/// Unsigned bytes as numbers.
#[inline]
#[target_feature(enable = "neon")]
fn u8s(p: &[[u8; 4]; 4], g: usize) -> float32x4_t {
    let bytes = vcreate_u8(u64::from(u32::from_le_bytes(p[g])));
    vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
}

/// Signed bytes.
#[inline]
#[target_feature(enable = "neon")]
fn i8s(p: &[[u8; 4]; 4], g: usize) -> int32x4_t {
    let bytes = vcreate_s8(u64::from(u32::from_le_bytes(p[g])));
    vmovl_s16(vget_low_s16(vmovl_s8(bytes)))
}

/// The scales of piece `i`, of [`Scales::F16`].
#[inline]
#[target_feature(enable = "neon")]
pub fn f16_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> float32x4_t {
    f16s(&parts.scales[2 * i..][..2], g)
}

/// Those of [`Scales::Strip`].
#[inline]
#[target_feature(enable = "neon")]
pub fn strip_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> float32x4_t {
    f16s(&parts.units[i / 8 * 2..][..2], g)
}

/// Those of [`Scales::Pairs`].
#[inline]
#[target_feature(enable = "neon")]
pub fn pair_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> float32x4_t {
    f16s(&parts.units[i / 2 * 2..][..2], g)
}

/// Those of [`Scales::Fours`].
#[inline]
#[target_feature(enable = "neon")]
pub fn four_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> float32x4_t {
    f16s(&parts.units[i / 4 * 2..][..2], g)
}

/// Those of [`Scales::HalvesE4m3`].
#[inline]
#[target_feature(enable = "neon")]
pub fn e4m3_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> [float32x4_t; 2] {
    let scales = &parts.scales[2 * i..][..2];
    let half = |p: &[[u8; 4]; 4]| {
        let bytes = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(u64::from(u32::from_le_bytes(p[g]))))));
        // Where the bits of f32 are, which are then 2^-120 of it.
        vmulq_n_f32(vreinterpretq_f32_u32(vshlq_n_u32::<20>(bytes)), f32::from_bits((127 + 119) << 23))
    };
    [half(&scales[0]), half(&scales[1])]
}

/// Those of [`Scales::Bf16`].
#[inline]
#[target_feature(enable = "neon")]
pub fn bf16_scales<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> float32x4_t {
    vreinterpretq_f32_u32(vshll_n_u16::<16>(u16s(&parts.scales[2 * i..][..2], g)))
}

/// Scales and minima of [`Scales::F16Min`].
#[inline]
#[target_feature(enable = "neon")]
pub fn f16_minima<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> [float32x4_t; 2] {
    let (scales, minima) = parts.scales[4 * i..][..4].split_at(2);
    [f16s(scales, g), f16s(minima, g)]
}

/// Scales and minima of [`Scales::Super`].
#[inline]
#[target_feature(enable = "neon")]
pub fn super_minima<const Q: usize>(parts: &Parts<'_, Q>, i: usize, g: usize) -> [float32x4_t; 2] {
    let scales = &parts.scales[2 * i..][..2];
    let (units, min_units) = parts.units[i / 8 * 4..][..4].split_at(2);
    let minima = vmulq_f32(f16s(min_units, g), u8s(&scales[1], g));
    [vmulq_f32(f16s(units, g), u8s(&scales[0], g)), vnegq_f32(minima)]
}

/// The unit and the two scales of [`Scales::Halves`].
#[inline]
#[target_feature(enable = "neon")]
pub fn half_scales<const Q: usize>(
    parts: &Parts<'_, Q>,
    i: usize,
    g: usize,
) -> (float32x4_t, [int32x4_t; 2]) {
    let scales = &parts.scales[2 * i..][..2];
    let unit = f16s(&parts.units[i / 8 * 2..][..2], g);
    (unit, [i8s(&scales[0], g), i8s(&scales[1], g)])
}

/// As [`half_scales`] with a quarter of the unit.
#[inline]
#[target_feature(enable = "neon")]
pub fn quarter_scales<const Q: usize>(
    parts: &Parts<'_, Q>,
    i: usize,
    g: usize,
) -> (float32x4_t, [int32x4_t; 2]) {
    let (unit, scales) = half_scales(parts, i, g);
    (vmulq_n_f32(unit, 0.25), scales)
}

/// As [`half_scales`] with an eighth of the unit.
#[inline]
#[target_feature(enable = "neon")]
pub fn eighth_scales<const Q: usize>(
    parts: &Parts<'_, Q>,
    i: usize,
    g: usize,
) -> (float32x4_t, [int32x4_t; 2]) {
    let (unit, scales) = half_scales(parts, i, g);
    (vmulq_n_f32(unit, 0.125), scales)
}

/// The low nibbles of bytes, and the high ones.
#[inline]
#[target_feature(enable = "neon")]
fn u4s(p: &[[u8; 4]; 4], g: usize) -> [uint32x4_t; 2] {
    let bytes = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(u64::from(u32::from_le_bytes(p[g]))))));
    [vandq_u32(bytes, vdupq_n_u32(15)), vshrq_n_u32::<4>(bytes)]
}

/// The unit, the two scales and the two minima of [`Scales::HalvesMin`].
#[inline]
#[target_feature(enable = "neon")]
pub fn half_minima<const Q: usize>(
    parts: &Parts<'_, Q>,
    i: usize,
    g: usize,
) -> (float32x4_t, [int32x4_t; 2], [float32x4_t; 2]) {
    let scales = &parts.scales[2 * i..][..2];
    let (units, min_units) = parts.units[i / 8 * 4..][..4].split_at(2);
    let ([low, low_min], [high, high_min]) = (u4s(&scales[0], g), u4s(&scales[1], g));
    let minus = vnegq_f32(f16s(min_units, g));
    let minima = [vmulq_f32(minus, vcvtq_f32_u32(low_min)), vmulq_f32(minus, vcvtq_f32_u32(high_min))];
    (f16s(units, g), [vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)], minima)
}

/// `acc + d * (x.d * Σ code·x)`.
#[inline]
#[target_feature(enable = "neon")]
pub fn add_scaled(acc: float32x4_t, d: float32x4_t, x: &Q8Block, dot: int32x4_t) -> float32x4_t {
    vfmaq_f32(acc, d, vmulq_n_f32(vcvtq_f32_s32(dot), x.d))
}

/// `acc + x.d * (d[0] * Σ code·x of the first half + d[1] * that of the second)`.
#[inline]
#[target_feature(enable = "neon")]
pub fn add_float_halves(
    acc: float32x4_t,
    d: [float32x4_t; 2],
    x: &Q8Block,
    dots: [int32x4_t; 2],
) -> float32x4_t {
    let sum = vmulq_f32(d[0], vcvtq_f32_s32(dots[0]));
    vfmaq_n_f32(acc, vfmaq_f32(sum, d[1], vcvtq_f32_s32(dots[1])), x.d)
}

/// `acc + m * x.sum + d * (x.d * Σ code·x)`.
#[inline]
#[target_feature(enable = "neon")]
pub fn add_with_minima(
    acc: float32x4_t,
    [d, m]: [float32x4_t; 2],
    x: &Q8Block,
    dot: int32x4_t,
) -> float32x4_t {
    add_scaled(vfmaq_n_f32(acc, m, x.sum), d, x, dot)
}

/// `acc + unit * (x.d * Σ scale * Σ code·x)` over the halves; the sums are integers of at most 26 bits.
#[inline]
#[target_feature(enable = "neon")]
pub fn add_halves(
    acc: float32x4_t,
    (unit, scales): (float32x4_t, [int32x4_t; 2]),
    x: &Q8Block,
    dots: [int32x4_t; 2],
) -> float32x4_t {
    add_scaled(acc, unit, x, vmlaq_s32(vmulq_s32(scales[0], dots[0]), scales[1], dots[1]))
}

/// As [`add_halves`], with minima.
#[inline]
#[target_feature(enable = "neon")]
pub fn add_halves_with_minima(
    acc: float32x4_t,
    (unit, scales, minima): (float32x4_t, [int32x4_t; 2], [float32x4_t; 2]),
    x: &Q8Block,
    dots: [int32x4_t; 2],
) -> float32x4_t {
    let acc = vfmaq_n_f32(vfmaq_n_f32(acc, minima[0], x.sum_low), minima[1], x.sum - x.sum_low);
    add_halves(acc, (unit, scales), x, dots)
}
