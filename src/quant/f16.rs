//! F16: IEEE binary16, little-endian.
#![forbid(unsafe_code)]

use super::packed::HALVES;
use super::{Dot, Format, FormatInfo};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Bytes per value.
pub const BYTES: usize = 2;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::F16,
    tensor_type: 1,
    name: "F16",
    block_len: 1,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::F32,
    packing: Some(HALVES),
};

/// Values converted at a time, through a small aligned buffer.
const CHUNK: usize = 256;

/// Expands a row of any alignment; exact.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len(), dst.len() * BYTES, "row bytes and number of values do not agree");
    let mut buffer = [f16::ZERO; CHUNK];
    for (src, dst) in src.as_chunks::<BYTES>().0.chunks(CHUNK).zip(dst.chunks_mut(CHUNK)) {
        let n = src.len().min(dst.len());
        for (value, bytes) in buffer.iter_mut().zip(&src[..n]) {
            *value = f16::from_le_bytes(*bytes);
        }
        buffer[..n].convert_to_f32_slice(&mut dst[..n]);
    }
}

/// Rounds to nearest, ties to even; magnitudes from 65520 up become infinity.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len(), src.len() * BYTES, "row bytes and number of values do not agree");
    let mut buffer = [f16::ZERO; CHUNK];
    for (src, dst) in src.chunks(CHUNK).zip(dst.as_chunks_mut::<BYTES>().0.chunks_mut(CHUNK)) {
        let n = src.len().min(dst.len());
        buffer[..n].convert_from_f32_slice(&src[..n]);
        for (bytes, value) in dst.iter_mut().zip(&buffer[..n]) {
            *bytes = value.to_le_bytes();
        }
    }
}

/// The scale of a block, as stored: a little-endian binary16. Exact; a NaN stays one. Written without branches, since a
/// look at the CPU's features per block costs more than the conversion, and without subnormal `f32`s, so that a host
/// that flushes those to zero changes nothing.
#[inline]
pub(super) fn scale(bytes: [u8; BYTES]) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, magnitude) = (bits & 0x8000, bits & 0x7fff);
    let normal = (magnitude << 13) + REBIAS;
    let normal = if magnitude >= 0x7c00 { normal + REBIAS } else { normal };
    // In the sum of one half and a subnormal, the last bits of the mantissa are the subnormal's.
    let subnormal = (f32::from_bits(0x3f00_0000 | magnitude) - 0.5).to_bits();
    f32::from_bits(sign << 16 | if magnitude < 0x0400 { subnormal } else { normal })
}

/// A scale as it is stored.
pub(super) fn scale_bytes(d: f32) -> [u8; BYTES] {
    f16::from_f32_const(d).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_pattern_survives() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut values = vec![0.0; 1 << 16];
        dequantize(&bytes, &mut values);
        let mut back = vec![0; bytes.len()];
        quantize(&values, &mut back);
        for (bytes, (value, back)) in
            bytes.as_chunks::<2>().0.iter().zip(values.iter().zip(back.as_chunks::<2>().0))
        {
            let expected = f16::from_le_bytes(*bytes);
            if expected.is_nan() {
                assert!(
                    value.is_nan() && scale(*bytes).is_nan() && f16::from_le_bytes(*back).is_nan(),
                    "{bytes:?}"
                );
            } else {
                assert_eq!(value.to_bits(), expected.to_f32_const().to_bits(), "{bytes:?}");
                assert_eq!(value.to_bits(), scale(*bytes).to_bits(), "{bytes:?}");
                assert_eq!((bytes, scale_bytes(*value)), (back, *back));
            }
        }
    }

    #[test]
    fn ties_go_to_even() {
        let mut row = [0; 6];
        quantize(&[2049.0, 2051.0, 65520.0], &mut row);
        let mut values = [0.0; 3];
        dequantize(&row, &mut values);
        assert_eq!(values, [2048.0, 2052.0, f32::INFINITY]);
    }
}
