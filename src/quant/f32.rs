//! F32: IEEE binary32, little-endian.
#![forbid(unsafe_code)]

use super::packed::SINGLES;
use super::{Dot, Format, FormatInfo};

/// Bytes per value.
pub const BYTES: usize = 4;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::F32,
    tensor_type: 0,
    name: "F32",
    block_len: 1,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::F32,
    packing: Some(SINGLES),
};

/// Copies a row of any alignment.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len(), dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in src.as_chunks::<BYTES>().0.iter().zip(dst) {
        *value = f32::from_le_bytes(*bytes);
    }
}

/// Copies values to a row.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len(), src.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in dst.as_chunks_mut::<BYTES>().0.iter_mut().zip(src) {
        *bytes = value.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_row() {
        let mut bytes = [0u8; 9];
        quantize(&[1.0, -0.0], &mut bytes[1..]);
        assert_eq!(bytes, [0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x80]);
        let mut values = [0.0; 2];
        dequantize(&bytes[1..], &mut values);
        assert_eq!(values.map(f32::to_bits), [0x3f80_0000, 0x8000_0000]);
    }
}
