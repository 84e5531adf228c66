//! SentencePiece-style vocabularies with scores (`tokenizer.ggml.model` = `llama`).
//!
//! Text is cut into characters. Then the adjacent pair whose joint text is the best-scored piece is joined, leftmost first among
//! equals, until no pair is a piece (T. Kudo and J. Richardson, "SentencePiece", 2018, with BPE pieces). It is not expressed as
//! ranked merges, because the two disagree: scores may tie, where ranks cannot, and a piece may contain a character that is no
//! piece of its own. It also needs no derived table of merges when loading: a 262,144-piece vocabulary has about 515,000 of them.
#![forbid(unsafe_code)]

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::effort::Effort;
use super::vocab::Lexicon;
use crate::error::Result;

/// The encoder of a SentencePiece-style vocabulary.
pub(super) struct Spm {
    /// One for each token; -0.0 is not among them.
    pub(super) scores: Vec<f32>,
    /// The token of a byte without a token.
    pub(super) unk: Option<u32>,
}

/// A run of characters that is one piece so far; `len` 0 once it was joined to its left neighbour.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    len: usize,
    prev: usize,
    next: usize,
}

/// No neighbour.
const NONE: usize = usize::MAX;

/// A pair that may be joined: symbol `left` with its right neighbour, `len` bytes together.
struct Pair {
    score: f32,
    left: usize,
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl Spm {
    /// Appends the tokens of `text`.
    ///
    /// A character that is no piece becomes its byte tokens; a byte without a token becomes the unknown token, or
    /// nothing if there is none. Takes O(n log n) time and O(n) memory.
    ///
    /// # Errors
    /// What ends the call.
    pub(super) fn encode(
        &self,
        lexicon: &Lexicon,
        text: &str,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut symbols = characters(text, effort)?;
        let mut queue = BinaryHeap::with_capacity(symbols.len());
        for left in 0..symbols.len() {
            effort.step()?;
            self.propose(lexicon, text, &symbols, left, &mut queue);
        }
        while let Some(Pair { left, len, .. }) = queue.pop() {
            effort.step()?;
            let Symbol { len: left_len, next: right, prev, .. } = symbols[left];
            // A symbol only ever grows or goes to 0, so an equal sum means that neither has changed.
            if left_len == 0 || right == NONE || left_len + symbols[right].len != len {
                continue;
            }
            let after = symbols[right].next;
            symbols[right].len = 0;
            symbols[left].len = len;
            symbols[left].next = after;
            if after != NONE {
                symbols[after].prev = left;
            }
            if prev != NONE {
                self.propose(lexicon, text, &symbols, prev, &mut queue);
            }
            self.propose(lexicon, text, &symbols, left, &mut queue);
        }
        for symbol in symbols.iter().filter(|s| s.len > 0) {
            effort.step()?;
            let piece = &text.as_bytes()[symbol.start..symbol.start + symbol.len];
            match lexicon.find(piece) {
                Some(token) => out.push(token),
                None => lexicon.fall_back(piece, self.unk, out),
            }
        }
        Ok(())
    }

    /// Queues the pair of symbol `left` and its right neighbour, if their joint text is a piece.
    fn propose(
        &self,
        lexicon: &Lexicon,
        text: &str,
        symbols: &[Symbol],
        left: usize,
        queue: &mut BinaryHeap<Pair>,
    ) {
        let Symbol { start, len, next, .. } = symbols[left];
        if next == NONE {
            return;
        }
        let len = len + symbols[next].len;
        if let Some(token) = lexicon.find(&text.as_bytes()[start..start + len]) {
            queue.push(Pair { score: self.scores[token as usize], left, len });
        }
    }
}

/// One symbol per character, linked in order.
fn characters(text: &str, effort: &mut Effort) -> Result<Vec<Symbol>> {
    let mut symbols = Vec::with_capacity(text.len());
    for (index, (start, c)) in text.char_indices().enumerate() {
        effort.step()?;
        symbols.push(Symbol { start, len: c.len_utf8(), prev: index.wrapping_sub(1), next: index + 1 });
    }
    if let Some(last) = symbols.last_mut() {
        last.next = NONE;
    }
    Ok(symbols)
}
