//! Number formats of weights: one file per format, one row per format in [`FORMATS`].
//!
//! A *row* is the contiguous run of bytes of one row of a weight matrix: `n / block_len` blocks of `block_bytes`
//! bytes each, little-endian, with no alignment at all (rows are views into a model file). The layouts and the
//! arithmetic are those of GGUF files; quantizing and dequantizing give the same bits as GGUF's reference package.
//!
//! To add a format: write its file, add its variant to [`Format`] and its row to [`FORMATS`]. It is then right on
//! every machine, at the speed of plain Rust, and the tests of this module loop over it.
#![forbid(unsafe_code)]

mod activation;
pub mod bf16;
pub mod f16;
pub mod f32;
pub mod q4_0;
pub mod q4_1;
pub mod q8_0;
#[cfg(test)]
mod tests;

use crate::gguf::TensorType;
pub use activation::{Q8Block, quantize_activations};

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
}

/// What there is to know about a format.
#[derive(Debug, Clone, Copy)]
pub struct FormatInfo {
    /// The format this row describes.
    pub format: Format,
    /// The type number in GGUF files.
    pub tensor_type: u32,
    /// The name in GGUF tools, e.g. `"Q8_0"`.
    pub name: &'static str,
    /// Values per block; a row holds a whole number of blocks.
    pub block_len: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// Expands a row to `dst.len()` values; `src` holds `dst.len() / block_len * block_bytes` bytes of any alignment.
    pub dequantize: fn(src: &[u8], dst: &mut [f32]),
    /// Packs `src.len()` values into a row of `src.len() / block_len * block_bytes` bytes.
    pub quantize: fn(src: &[f32], dst: &mut [u8]),
    /// How a row is multiplied with an activation vector.
    pub dot: Dot,
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
pub const FORMAT_COUNT: usize = 6;

/// Every format, indexed by `Format as usize`.
pub static FORMATS: [FormatInfo; FORMAT_COUNT] =
    [f32::INFO, f16::INFO, bf16::INFO, q8_0::INFO, q4_0::INFO, q4_1::INFO];

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
