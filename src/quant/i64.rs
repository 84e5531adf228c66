//! I64: signed 64-bit integers, little-endian.
#![forbid(unsafe_code)]

use super::{Dot, Format, FormatInfo};

/// Bytes per value.
pub const BYTES: usize = 8;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::I64,
    tensor_type: 27,
    name: "I64",
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
        *value = i64::from_le_bytes(*bytes) as f32;
    }
}
