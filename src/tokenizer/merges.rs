//! Byte-pair merging: ranked pairs of tokens, and the engine that applies them to a word.
//!
//! Ember has its own engine because building a general one takes longer than loading the model: it would own two
//! strings per merge and one per token, where a pair of tokens is eight bytes.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::AHashMap;

use super::effort::Effort;
use crate::error::Result;

/// Ranked merges: which adjacent tokens become which token, the lowest rank first.
pub(super) struct Merges {
    by_pair: AHashMap<(u32, u32), Merge>,
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    joint: u32,
}

/// A token of the word under way, linked to its neighbours; `alive` until it is joined to its left neighbour.
#[derive(Clone, Copy)]
struct Symbol {
    token: u32,
    prev: u32,
    next: u32,
    alive: bool,
}

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A merge that may be applied at `left`: ordered by rank, then from left to right.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    joint: u32,
}

impl Merges {
    /// Capacity for `n` merges, if there is memory for that.
    pub(super) fn with_capacity(n: usize) -> Option<Merges> {
        let mut by_pair = AHashMap::new();
        by_pair.try_reserve(n).ok()?;
        Some(Merges { by_pair })
    }

    /// Adds the next merge; of a repeated pair the first counts.
    pub(super) fn push(&mut self, rank: u32, left: u32, right: u32, joint: u32) {
        self.by_pair.entry((left, right)).or_insert(Merge { rank, joint });
    }

    /// Merges `word` and appends the result to `out`. Takes O(n log n) time.
    ///
    /// # Errors
    /// What ends the call.
    pub(super) fn apply(&self, word: &[u32], effort: &mut Effort, out: &mut Vec<u32>) -> Result<()> {
        // Link numbers are 32 bits wide; a word of 4 Gi tokens would take 64 GiB here.
        let Ok(n) = u32::try_from(word.len()) else {
            out.extend_from_slice(word);
            return Ok(());
        };
        if n < 2 {
            out.extend_from_slice(word);
            return Ok(());
        }
        let link = |(i, &token): (u32, &u32)| Symbol {
            token,
            prev: i.wrapping_sub(1),
            next: if i + 1 < n { i + 1 } else { NONE },
            alive: true,
        };
        let mut symbols: Vec<Symbol> = (0..).zip(word).map(link).collect();
        let mut queue: Vec<Reverse<Candidate>> = Vec::with_capacity(word.len());
        for left in 0..n {
            effort.step()?;
            queue.extend(self.candidate(&symbols, left));
        }
        let mut queue = BinaryHeap::from(queue);
        while let Some(Reverse(Candidate { left, joint, .. })) = queue.pop() {
            effort.step()?;
            let symbol = symbols[left as usize];
            // A stale entry: one of the two has been joined to another token since.
            let current = if symbol.alive { self.candidate(&symbols, left) } else { None };
            if current.is_none_or(|Reverse(c)| c.joint != joint) {
                continue;
            }
            let (right, prev) = (symbol.next, symbol.prev);
            let after = symbols[right as usize].next;
            symbols[right as usize].alive = false;
            symbols[left as usize] = Symbol { token: joint, next: after, ..symbol };
            if after != NONE {
                symbols[after as usize].prev = left;
            }
            if prev != NONE {
                queue.extend(self.candidate(&symbols, prev));
            }
            queue.extend(self.candidate(&symbols, left));
        }
        out.extend(symbols.iter().filter(|s| s.alive).map(|s| s.token));
        Ok(())
    }

    /// The merge of `left` with its right neighbour, if there is one.
    fn candidate(&self, symbols: &[Symbol], left: u32) -> Option<Reverse<Candidate>> {
        let symbol = symbols[left as usize];
        let right = symbols.get(symbol.next as usize)?;
        let &Merge { rank, joint } = self.by_pair.get(&(symbol.token, right.token))?;
        Some(Reverse(Candidate { rank, left, joint }))
    }
}
