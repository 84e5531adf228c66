//! Number formats of weights: one file per format, one row per format in [`FORMATS`].
//!
//! A *row* is the contiguous run of bytes of one row of a weight matrix: `n / block_len` blocks of `block_bytes`
//! bytes each, little-endian, with no alignment at all (rows are views into a model file). The layouts and the
//! arithmetic are those of GGUF files (<https://github.com/ggml-org/ggml>): dequantizing gives the same bits as GGUF's
//! reference package `gguf`, and so does quantizing to the formats up to `Q8_0` that it can quantize to. To the K formats
//! Ember quantizes with a search of its own; the other formats it reads only.
//!
//! To add a format: write its file, add its variant to [`Format`] and its row to [`FORMATS`]. It is then right on
//! every machine, at the speed of plain Rust, and the tests of this module loop over it.
#![forbid(unsafe_code)]

mod activation;
pub mod bf16;
mod bits;
mod blocks;
pub mod f16;
pub mod f32;
pub mod f64;
pub(crate) mod grid;
pub mod i16;
pub mod i32;
pub mod i64;
pub mod i8;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod nvfp4;
pub mod pack;
pub mod packed;
pub mod q1_0;
pub mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
mod search;
#[cfg(test)]
pub(crate) mod tests;
pub mod tq1_0;
pub mod tq2_0;
pub mod words;

use crate::gguf::TensorType;
pub use activation::{Q8Block, quantize_activations};
use packed::Packing;

/// A number format of weights. The discriminant indexes [`FORMATS`].
#[allow(non_camel_case_types, reason = "the names are the format names of GGUF files")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// 32 values of 8 bits and a scale.
    Q8_0,
    /// 32 values of 4 bits and a scale.
    Q4_0,
    /// 32 values of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 values of 5 bits and a scale.
    Q5_0,
    /// 32 values of 5 bits, a scale and a minimum.
    Q5_1,
    /// 256 values of 2 bits; 16 scales and minima of 4 bits.
    Q2_K,
    /// 256 values of 3 bits; 16 scales of 6 bits.
    Q3_K,
    /// 256 values of 4 bits; 8 scales and minima of 6 bits.
    Q4_K,
    /// 256 values of 5 bits; 8 scales and minima of 6 bits.
    Q5_K,
    /// 256 values of 6 bits; 16 scales of 8 bits.
    Q6_K,
    /// 256 values, points of a grid of 2048; 1.56 bits per value.
    IQ1_S,
    /// 256 values, points of a grid of 2048; 1.75 bits per value.
    IQ1_M,
    /// 256 values, points of a grid of 256; 2.06 bits per value.
    IQ2_XXS,
    /// 256 values, points of a grid of 512; 2.31 bits per value.
    IQ2_XS,
    /// 256 values, points of a grid of 1024; 2.56 bits per value.
    IQ2_S,
    /// 256 values, points of a grid of 256; 3.06 bits per value.
    IQ3_XXS,
    /// 256 values, points of a grid of 512; 3.44 bits per value.
    IQ3_S,
    /// 32 values of 4 bits, unequally spaced, and a scale.
    IQ4_NL,
    /// 256 values of 4 bits, unequally spaced; 8 scales of 6 bits.
    IQ4_XS,
    /// 256 values of -1, 0 and 1, five to a byte, and a scale.
    TQ1_0,
    /// 256 values of -1, 0 and 1, four to a byte, and a scale.
    TQ2_0,
    /// 32 floats of 4 bits and a power of two.
    MXFP4,
    /// 64 floats of 4 bits; 4 scales that are floats of 8 bits.
    NVFP4,
    /// IEEE binary64.
    F64,
    /// Signed 8-bit integers.
    I8,
    /// Signed 16-bit integers.
    I16,
    /// Signed 32-bit integers.
    I32,
    /// Signed 64-bit integers.
    I64,
    /// 128 values of one bit and a scale.
    Q1_0,
    /// 64 values of two bits and a scale.
    Q2_0,
}

/// Packs a row of values: see [`FormatInfo::quantize`].
pub type Quantize = fn(src: &[f32], dst: &mut [u8]);

/// The properties of a format.
#[derive(Debug, Clone, Copy)]
pub struct FormatInfo {
    /// The format this row describes.
    pub format: Format,
    /// The type number in GGUF files.
    pub tensor_type: u32,
    /// The name in GGUF tools, e.g. `"Q8_0"`.
    pub name: &'static str,
    /// Values per block; a row has only full blocks.
    pub block_len: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// Expands a row to `dst.len()` values; `src` holds `dst.len() / block_len * block_bytes` bytes of any alignment.
    pub dequantize: fn(src: &[u8], dst: &mut [f32]),
    /// Packs `src.len()` values into a row of `src.len() / block_len * block_bytes` bytes; `None` for formats that Ember
    /// reads only.
    pub quantize: Option<Quantize>,
    /// How a row is multiplied with an activation vector.
    pub dot: Dot,
    /// How rows are rearranged for vector instructions; `None`: they are multiplied as they are.
    pub packing: Option<Packing>,
}

/// How the dot product of a weight row and an activation vector is computed.
#[derive(Debug, Clone, Copy)]
pub enum Dot {
    /// The row is dequantized and multiplied with the `f32` activations.
    F32,
    /// The packed row is multiplied with int8 activations: integer sums inside a block, `f32` across blocks in
    /// ascending order. `row` and `x` hold the same number of blocks of 32 values.
    Q8(fn(row: &[u8], x: &[Q8Block]) -> f32),
}

/// How many formats there are.
pub const FORMAT_COUNT: usize = 33;

/// Every format, indexed by `Format as usize`.
pub static FORMATS: [FormatInfo; FORMAT_COUNT] = [
    f32::INFO,
    f16::INFO,
    bf16::INFO,
    q8_0::INFO,
    q4_0::INFO,
    q4_1::INFO,
    q5_0::INFO,
    q5_1::INFO,
    q2_k::INFO,
    q3_k::INFO,
    q4_k::INFO,
    q5_k::INFO,
    q6_k::INFO,
    iq1_s::INFO,
    iq1_m::INFO,
    iq2_xxs::INFO,
    iq2_xs::INFO,
    iq2_s::INFO,
    iq3_xxs::INFO,
    iq3_s::INFO,
    iq4_nl::INFO,
    iq4_xs::INFO,
    tq1_0::INFO,
    tq2_0::INFO,
    mxfp4::INFO,
    nvfp4::INFO,
    f64::INFO,
    i8::INFO,
    i16::INFO,
    i32::INFO,
    i64::INFO,
    q1_0::INFO,
    q2_0::INFO,
];

impl Format {
    /// The format of a GGUF tensor type, or `None` if Ember cannot compute with that type.
    pub fn from_tensor_type(tensor_type: TensorType) -> Option<Format> {
        FORMATS.iter().find(|info| info.tensor_type == tensor_type.0).map(|info| info.format)
    }

    /// This format's row of [`FORMATS`].
    pub fn info(self) -> &'static FormatInfo {
        &FORMATS[self as usize]
    }

    /// Bytes of a row of `n` values; `n` is a multiple of the block length (a remainder is not counted).
    pub fn row_bytes(self, n: usize) -> usize {
        let info = self.info();
        n / info.block_len * info.block_bytes
    }
}
