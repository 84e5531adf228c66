//! Memory of the CPU backends: weights in the file's mapping or packed, the KV store.
//!
//! # Where weights lie
//!
//! - A matrix with packed products on this instruction set is copied once, in packed order, by [`Packer`] when all weights are known.
//! - Vectors that are not f32, f32 data at an odd address, and all vectors of a model with packed matrices are copied.
//! - Everything else stays in the mapped file: metadata, and matrices without a packing.
//! - Rows of tables (token embeddings) are read from the file, not from its mapping (`FileBytes::read_at`). A mapping keeps 64 KB and
//!   more in memory for each row of a few hundred bytes.
//!
//! So a decoder with packed matrices reads nothing of the mapping while it runs. Where another program truncates the file,
//! packing and lookups give `Io` and no SIGBUS. If the host closes the file's descriptor, or another file gets its number, Ember
//! notices and reads the mapping.
//!
//! # How keys and values lie
//!
//! A page has 32 tokens and blocks `[layer][K, V][kv head]`. Pages of a run (eight pages where a block has 4 KB) lie as
//! `[layer][K, V][kv head][page]`. Decoding then walks a head's blocks in order: memory delivers stretches of 32 KB at 31 GB/s and blocks
//! of 4 KB at 14 (one core of Zen 4). A sequence gets the page after its last one if that is free, otherwise the first free one.
//!
//! In a block of keys lies `[head_dim][token]`, so a score needs no sum across lanes. In a block of values lies `[token][head_dim]`.
//!
//! | type | a vector of a head is |
//! |---|---|
//! | f32, f16 | its numbers |
//! | q8_0 | codes of 8 bits, and one scale for each 32 components after the codes |
//! | i16 | 16-bit integers, and one power of two in f32 after them |
//!
//! i16 is the default on x86-64 where heads are multiples of 16 components: AVX-512 multiplies and adds pairs of 16 bits twice as fast as
//! f32. Two components of a key, and the values of two tokens half a page apart, lie side by side for that.
//! Elsewhere the default is f16, since Arm's products of pairs are no faster than those of f32.
#![forbid(unsafe_code)]

mod kv;
mod kv_block;
mod packer;
mod pass;
mod states;
mod stop;
mod weight;

pub use crate::memory::Zeroed;
pub use kv::{HostKv, Part, rotate_head};
pub use kv_block::{put, take};
pub use packer::{Loading, Packer};
pub use pass::HostPass;
pub use states::HostStates;
pub use stop::Stop;
pub use weight::HostWeight;
