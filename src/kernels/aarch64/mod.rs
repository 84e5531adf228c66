//! Instruction sets of 64-bit Arm. Levels differ in how they multiply bytes; the rest is shared: what a packed group
//! holds is read by [`group`], and [`products`] goes over its pieces; those of numbers are
//! multiplied by [`numbers`].

mod group;
#[macro_use]
mod products;

pub mod dotprod;
pub mod i8mm;
pub mod neon;
