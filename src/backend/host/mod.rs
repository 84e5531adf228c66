//! Memory of the CPU backends: weights in the file's mapping or packed, the KV store.
#![forbid(unsafe_code)]

mod kv;
mod kv_block;
mod packer;
mod pass;
mod states;
mod stop;
mod weight;

pub use crate::memory::Zeroed;
pub use kv::{HostKv, Part, turn_head};
pub use kv_block::{put, take};
pub use packer::{Loading, Packer};
pub use pass::HostPass;
pub use states::HostStates;
pub use stop::Stop;
pub use weight::HostWeight;
