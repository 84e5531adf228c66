//! I32: signed 32-bit integers, little-endian.
#![forbid(unsafe_code)]

use super::{Dot, Format, FormatInfo};

/// Bytes per value.
pub const BYTES: usize = 4;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::I32,
    tensor_type: 26,
    name: "I32",
    block_len: 1,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::F32,
    packing: None,
};

/// Expands a row of any alignment; rounds to nearest, ties to even.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len(), dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in src.as_chunks::<BYTES>().0.iter().zip(dst) {
        *value = i32::from_le_bytes(*bytes) as f32;
    }
}
