//! NVFP4: 64 four-bit floats (E2M1) in four groups, each with a scale that is an eight-bit float (E4M3
//! without its sign); value `i` of group `g` is `e4m3(scale[g]) * e2m1[q[i]]`.
//! <https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/>
#![forbid(unsafe_code)]

use super::blocks::unpack_row;
use super::grid::E2M1_DOUBLED;
use super::{Dot, Format, FormatInfo};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 64;
/// Bytes per block.
pub const BYTES: usize = 36;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::NVFP4,
    tensor_type: 40,
    name: "NVFP4",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::F32,
    packing: None,
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scales.
    scales: [u8; 4],
    /// Byte `i` of a group holds number `i` in its low nibble and number `i + 8` in its high nibble.
    q: [[u8; GROUP / 2]; 4],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

/// Values per group.
const GROUP: usize = 16;

/// A group's scale, halved, and its values, doubled.
#[inline]
fn unpack(packed: &Packed) -> [(f32, [i8; GROUP]); 4] {
    std::array::from_fn(|g| {
        let nibble = |i: usize| packed.q[g][i % (GROUP / 2)] >> (i / (GROUP / 2) * 4) & 15;
        let q = std::array::from_fn(|i| E2M1_DOUBLED[usize::from(nibble(i))]);
        (half_scale(packed.scales[g]), q)
    })
}

/// Half an E4M3 number (four bits of exponent with bias 7, three of mantissa). The sign is left out; 0x7f, which would
/// be NaN, is 0.
#[inline]
fn half_scale(bits: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 3 & 15), f32::from(bits & 7));
    match (bits, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((exponent + 127 - 7 - 1) << 23),
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values: &mut [f32; LEN]| {
        for (values, (d, q)) in values.as_chunks_mut::<GROUP>().0.iter_mut().zip(unpack(packed)) {
            for (value, q) in values.iter_mut().zip(q) {
                *value = d * f32::from(q);
            }
        }
    });
}
