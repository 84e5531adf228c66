//! The memory of sequences: which pages of a KV cache each has, and what is kept for later texts.
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

/// Most tokens that lie ready behind a sequence.
pub const MAX_AHEAD: usize = 32;

/// An empty array with room for `n` elements.
pub fn reserved<T>(n: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    let no_memory = |_| Error::NoMemory(format!("no memory for a plan of {n} elements"));
    array.try_reserve_exact(n).map_err(no_memory)?;
    Ok(array)
}
