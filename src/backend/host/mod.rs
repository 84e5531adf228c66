//! Memory of the CPU backends: weights in the file's mapping or packed, the KV store.
#![forbid(unsafe_code)]

mod kv;
mod packer;
mod weight;

pub use crate::memory::Zeroed;
pub use kv::{HostKv, Part, put, take, turn_head};
pub use packer::{Loading, Packer};
pub use weight::HostWeight;
