//! The memory of sequences: which pages of a KV cache each has, and which pages are kept for later texts.
//!
//! - A sequence has a list of pages of 32 tokens in each group of layers. A *group* is the layers that see equally far back.
//! - Pages are counted. A copy of a sequence shares them; a sequence that writes to a shared page takes a copy first.
//! - A call takes all pages of all groups before it computes. So running out of pages changes nothing.
//! - With kept prefixes, whole pages stay in a tree when no sequence has them (`prefixes`). The leaf that was unused for the longest time goes
//!   first. Equal pages of two sequences become one.
//! - Sequences of recurrent models have states in slots (`recurrent`). A call reads one slot and writes another. Snapshots are weak: a slot
//!   keeps its state until another state needs it.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};

mod pool;
mod prefixes;
mod recurrent;
mod sequences;
mod tokens;

pub use recurrent::{EMBED_SLOTS, Recurrent};
pub use sequences::{ALL, Moves, PAGE_LEN, Sequences, Window, most_pages};
pub use tokens::Tokens;

/// Most draft tokens that a sequence can have ready.
pub const MAX_AHEAD: usize = 32;

/// An empty array with capacity for `n` elements.
pub fn reserved<T>(n: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    let no_memory = |_| Error::NoMemory(format!("no memory for a plan of {n} elements"));
    array.try_reserve_exact(n).map_err(no_memory)?;
    Ok(array)
}
