//! Memory of the CPU backends: zero-initialised buffers, weights in the file's mapping or packed, the KV store.

mod kv;
mod packer;
mod weight;
mod zeroed;

pub use kv::{HostKv, Part, put};
pub use packer::Packer;
pub use weight::HostWeight;
pub use zeroed::Zeroed;
