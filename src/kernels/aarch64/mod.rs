//! Instruction sets of 64-bit Arm. Levels differ in how they multiply bytes; the rest is shared. [`group`] reads packed groups,
//! [`products`] goes over their pieces, and [`super::simd::numbers`] multiplies packed numbers.

mod group;
#[macro_use]
mod products;

pub mod dotprod;
pub mod i8mm;
pub mod neon;
