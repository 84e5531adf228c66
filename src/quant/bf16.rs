//! BF16: the upper 16 bits of a binary32, little-endian.
#![forbid(unsafe_code)]

use super::packed::HALVES;
use super::{Dot, Format, FormatInfo};
use half::bf16;

/// Bytes per value.
pub const BYTES: usize = 2;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::BF16,
    tensor_type: 30,
    name: "BF16",
    block_len: 1,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::F32,
    packing: Some(HALVES),
};

/// Expands a row of any alignment; exact, NaNs keep their bits.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len(), dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in src.as_chunks::<BYTES>().0.iter().zip(dst) {
        *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
    }
}

/// Rounds to nearest, ties to even; a NaN becomes a quiet NaN with the upper bits of its payload.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len(), src.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in dst.as_chunks_mut::<BYTES>().0.iter_mut().zip(src) {
        *bytes = bf16::from_f32(*value).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: u32) -> u16 {
        let mut row = [0; 2];
        quantize(&[f32::from_bits(value)], &mut row);
        u16::from_le_bytes(row)
    }

    #[test]
    fn rounding_and_nan() {
        assert_eq!(bits(0x3f80_8000), 0x3f80, "a tie goes to even");
        assert_eq!(bits(0x3f81_8000), 0x3f82, "a tie goes to even");
        assert_eq!(bits(0x3f80_8001), 0x3f81);
        assert_eq!(bits(0x7f7f_ffff), 0x7f80, "the largest number rounds to infinity");
        assert_eq!(bits(0x7f80_0001), 0x7fc0, "a NaN stays one");
        assert_eq!(bits(0xff81_2345), 0xffc1);
        assert_eq!(bits(0x8000_0001), 0x8000);
    }
}
