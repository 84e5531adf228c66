//! Numbers as 16-bit integers, for products with F16 and BF16 weights: two of these products cost as much as one in f32.
//!
//! Activations are rounded in blocks of 32, each with a unit of its own. Weights are rounded when they are packed, each row in
//! units of a power of two for 256 columns, so that most keep all their bits. The sum of the squares of a block's integers is
//! less than 2^31, and so is that of as many weights. By the inequality of Cauchy and Schwarz, sums of products then fit 32 bits,
//! and so does every part of them. The error is some 5e-5 of a product's size, for normally distributed activations and weights.
#![forbid(unsafe_code)]

use super::{PackedPair, PackedProduct};
use crate::quant::Format;
use crate::quant::packed::Packing;

/// 32 activations: number `i` is about `d * qs[i]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct I16Block {
    /// The unit; NaN if a number of the block is NaN or infinite.
    pub d: f32,
    /// The numbers in units of `d`.
    pub qs: [i16; I16Block::LEN],
}

impl I16Block {
    /// Numbers in a block.
    pub const LEN: usize = 32;
    /// A block of zeros.
    pub const ZERO: I16Block = I16Block { d: 0.0, qs: [0; I16Block::LEN] };
    /// A block with a number that is NaN or infinite.
    pub const NAN: I16Block = I16Block { d: f32::NAN, qs: [0; I16Block::LEN] };
}

/// The root of the largest sum of squares of a block before rounding, which adds at most √32 / 2, less than 3, to the root. It stays
/// below √2^31.
const NORM: f32 = 46_336.0;
/// The largest integer.
const LARGEST: f32 = 32_767.0;

/// The smallest unit of a block whose largest number and sum of squares are given.
#[inline(always)]
pub fn unit(largest: f32, squares: f32) -> f32 {
    f32::max(squares.sqrt() / NORM, largest / LARGEST)
}

/// The smallest power of two that is at least `x`, which is positive, finite and not subnormal.
#[inline(always)]
pub fn power_of_two(x: f32) -> f32 {
    f32::from_bits((x.to_bits() + 0x7F_FFFF) & f32::INFINITY.to_bits())
}

/// How an instruction set multiplies with F16 and BF16 weights as integers.
#[derive(Debug, Clone, Copy)]
pub struct Wide {
    /// Rounds activations, one block per 32: [`super::scalar::wide::round`].
    pub round: fn(x: &[f32], out: &mut [I16Block]),
    /// How F16 weights are packed: [`super::scalar::wide::pack`].
    pub f16: Packing,
    /// How BF16 weights are packed.
    pub bf16: Packing,
    /// The product with packed weights.
    pub product: PackedProduct<I16Block>,
    /// The product of two groups in one call, where that is faster.
    pub pair: Option<PackedPair<I16Block>>,
}

impl Wide {
    /// How weights of `format` are packed, if they are multiplied as integers.
    pub fn packing(&self, format: Format) -> Option<&Packing> {
        match format {
            Format::F16 => Some(&self.f16),
            Format::BF16 => Some(&self.bf16),
            _ => None,
        }
    }
}

/// The bits of a power of two as a bfloat16.
#[inline(always)]
pub fn unit_bits(unit: f32) -> [u8; 2] {
    ((unit.to_bits() >> 16) as u16).to_le_bytes()
}
