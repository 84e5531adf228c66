//! The shared input of the operations of one pass through a model: the rows of its batch and what is stored for their sequences.
#![forbid(unsafe_code)]

use super::StatePlan;
use crate::cancel::Watch;

/// Consecutive batch rows of one sequence at consecutive positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First row in the batch.
    pub first: usize,
    /// Number of rows.
    pub len: usize,
    /// Position of the first row in its sequence.
    pub position: usize,
    /// Tokens at the beginning of the sequence that an encoder reads, before a decoder's; otherwise 0.
    pub encoded: usize,
    /// Where the sequence's page table begins in [`PageTables::pages`].
    pub pages: usize,
}

/// The part of its sequence that a row sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sees {
    /// All of it.
    #[default]
    All,
    /// The encoder's input: the first [`Run::encoded`] positions.
    Encoded,
    /// The positions after that.
    Decoded,
}

/// The KV slots of some rows, and the page tables of their sequences, in a group of layers.
#[derive(Debug, Clone, Default)]
pub struct PageTables {
    /// For each row the slot its key and value go to: `page * PAGE_LEN + index in the page`.
    pub slots: Vec<u32>,
    /// The page tables of the sequences, one after another; those of a sequence begin at the same index in all groups. Entries of
    /// positions that no row sees may be invalid.
    pub pages: Vec<u32>,
}

impl PageTables {
    /// Removes all rows.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.pages.clear();
    }
}

/// Arguments of [`Backend::begin`](super::Backend::begin).
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    /// Position of each row in its sequence.
    pub positions: &'a [u32],
    /// The rows by sequence.
    pub runs: &'a [Run],
    /// Where keys and values are, for each group of layers.
    pub groups: &'a [PageTables],
    /// The recurrent states of `runs`.
    pub states: StatePlan<'a>,
    /// What may end it: a backend may then skip work, and gives `Cancelled` when it finishes.
    pub watch: Watch<'a>,
}
