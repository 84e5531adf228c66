//! I8: signed 8-bit integers.
#![forbid(unsafe_code)]

use super::{Dot, Format, FormatInfo};

/// Bytes per value.
pub const BYTES: usize = 1;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::I8,
    tensor_type: 24,
    name: "I8",
    block_len: 1,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::F32,
    packing: None,
};

/// Expands a row of any alignment; exact.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len(), dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, value) in src.as_chunks::<BYTES>().0.iter().zip(dst) {
        *value = f32::from(i8::from_le_bytes(*bytes));
    }
}
