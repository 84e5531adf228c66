//! Grids: the IQ formats store an index into a table of points of 4 or 8 values, and their signs apart.
//!
//! The tables are facts of the formats (<https://github.com/ggml-org/ggml>, `ggml-common.h`); `*.bin` beside this file
//! hold each value as its number in the short list of values that occur, as the `gguf` package does.
//! `tests/oracle/quant_grids.py` writes them from that package.
#![forbid(unsafe_code)]

/// Expands a table: a point has `LEN` values; lists of up to four values take two bits each, longer ones a nibble.
pub(super) const fn unpack<const BYTES: usize, const N: usize, const LEN: usize>(
    packed: &[u8; BYTES],
    values: &[i8],
) -> [[i8; LEN]; N] {
    let bits = if values.len() <= 4 { 2 } else { 4 };
    assert!(BYTES * 8 == N * LEN * bits, "the table has another size");
    let mut grid = [[0; LEN]; N];
    let mut i = 0;
    while i < N * LEN {
        let number = packed[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
        grid[i / LEN][i % LEN] = values[number as usize];
        i += 1;
    }
    grid
}

/// All bits of byte `i` where bit `i` of the number is set.
const MASKS: [[u8; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut i = 0;
    while i < 8 * masks.len() {
        masks[i / 8][i % 8] = if (i / 8) >> (i % 8) & 1 == 1 { 0xFF } else { 0 };
        i += 1;
    }
    masks
};

/// All bits of byte `i` where bit `i` of `signs` is set.
#[inline]
pub(crate) fn mask(signs: u8) -> [u8; 8] {
    static ALL: [[u8; 8]; 256] = MASKS;
    ALL[usize::from(signs)]
}

/// As [`mask`], of the lowest seven bits and an eighth, which makes the number of set bits even.
#[inline]
pub(crate) fn even_mask(bits: u32) -> [u8; 8] {
    EVEN_MASKS[(bits & 0x7f) as usize]
}

/// Negates value `i` where bit `i` of `signs` is set. No value is 0.
#[inline]
pub(super) fn signed(values: [i8; 8], signs: u8) -> [i8; 8] {
    negated(values, mask(signs))
}

/// Negates the values whose bytes of `mask` have all bits. No value is 0, so no carry leaves a byte.
#[inline]
fn negated(values: [i8; 8], mask: [u8; 8]) -> [i8; 8] {
    let (values, mask) = (u64::from_ne_bytes(values.map(i8::cast_unsigned)), u64::from_ne_bytes(mask));
    let negated = (values ^ mask).wrapping_add(mask & 0x0101_0101_0101_0101);
    negated.to_ne_bytes().map(u8::cast_signed)
}

/// [`MASKS`] of seven bits and an eighth, which makes the number of set bits even.
static EVEN_MASKS: [[u8; 8]; 128] = {
    let mut masks = [[0; 8]; 128];
    let mut bits = 0;
    while bits < masks.len() {
        masks[bits] = MASKS[bits | (bits.count_ones() as usize & 1) << 7];
        bits += 1;
    }
    masks
};

/// As [`signed`], with signs from the seven lowest bits: the eighth makes the number of negative values even.
#[inline]
pub(super) fn signed_evenly(values: [i8; 8], bits: u32) -> [i8; 8] {
    negated(values, even_mask(bits))
}

/// The sixteen values that the four-bit formats IQ4_NL and IQ4_XS distinguish.
pub(super) const IQ4_VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the sixteen values of a four-bit float (E2M1: sign, two bits of exponent, one of mantissa).
pub(super) const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Looks 32 four-bit numbers up in a list of sixteen values: low nibbles first, then high nibbles.
#[inline]
pub(super) fn look_up(nibbles: &[u8; 16], values: &[i8; 16]) -> [i8; 32] {
    let mut q = [0; 32];
    let (low, high) = q.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(nibbles) {
        *low = values[usize::from(byte & 15)];
        *high = values[usize::from(byte >> 4)];
    }
    q
}
