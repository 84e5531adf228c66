//! SentencePiece-style vocabularies (`tokenizer.ggml.model` = `llama`): pieces with scores, byte fallback and `▁` for
//! the space.
//!
//! Text is cut into characters; then the adjacent pair whose joint text is the best-scored piece is joined, leftmost
//! first among equals, until no pair is a piece (T. Kudo and J. Richardson, "SentencePiece", 2018, with BPE pieces).
//! This is written out rather than expressed as ranked merges for a general BPE engine, because the two disagree:
//! scores may tie, where ranks cannot, and a piece may contain a character that is no piece of its own. It also
//! needs no derived table of merges at load: a 32,000-piece vocabulary has about 60,000 of them.
#![forbid(unsafe_code)]

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::vocab::{Pieces, TokenType, Vocab};
use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// How SentencePiece writes a space.
const SPACE: &str = "\u{2581}";

/// The key of the scores.
const SCORES: &str = "tokenizer.ggml.scores";

/// The encoder of a SentencePiece-style vocabulary.
pub(super) struct Spm {
    /// Text (with `▁` for the space) to token and score. Control, unknown and byte tokens are left out, so that
    /// plain text can never spell one.
    pieces: HashMap<Box<str>, (u32, f32)>,
    /// The length in bytes of the longest text in `pieces`.
    max_len: usize,
    /// The tokens `<0x00>` to `<0xFF>` for characters without a piece.
    bytes: [Option<u32>; 256],
    /// Stands for a byte without a token.
    unk: Option<u32>,
    /// Whether a space is put before text at the start and after special tokens.
    pub(super) add_space_prefix: bool,
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
    /// Reads the scores and flags, and indexes the vocabulary. `unk` is the unknown token, if there is one.
    pub(super) fn from_gguf(meta: &Metadata, vocab: &Vocab<'_>, unk: Option<u32>) -> Result<Spm> {
        let scores = meta
            .f32s(SCORES)?
            .ok_or_else(|| Error::Format(format!("the required key {SCORES:?} is missing")))?;
        vocab.check_len(SCORES, scores.len())?;
        let mut pieces = HashMap::with_capacity(vocab.len());
        let mut bytes = [None; 256];
        let mut max_len = 0;
        for (id, text, ty) in vocab.iter() {
            let score = scores[id as usize];
            if score.is_nan() {
                return Err(Error::Format(format!("the score of token {id} in {SCORES:?} is not a number")));
            }
            if let Some(byte) = byte_token(text) {
                bytes[byte as usize].get_or_insert(id);
            }
            let spelled = !matches!(ty, TokenType::Control | TokenType::Unknown | TokenType::Byte);
            if spelled && !text.is_empty() {
                max_len = max_len.max(text.len());
                pieces.entry(text.into()).or_insert((id, score + 0.0)); // -0.0 and 0.0 are one score
            }
        }
        let add_space_prefix = meta.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(Spm { pieces, max_len, bytes, unk, add_space_prefix })
    }

    /// The exact bytes of each token: `▁` is a space, a byte token its byte, any other special token its own text.
    pub(super) fn token_bytes(vocab: &Vocab<'_>) -> Result<Pieces> {
        let mut pieces = Pieces::with_capacity(vocab.len());
        for (id, text, ty) in vocab.iter() {
            match ty {
                TokenType::Byte => pieces.push(&[byte_token(text).ok_or_else(|| {
                    Error::Format(format!("token {id} is a byte token, but its text is {text:?}, not <0xNN>"))
                })?]),
                _ if ty.is_special() => pieces.push(text.as_bytes()),
                _ => pieces.push(text.replace(SPACE, " ").as_bytes()),
            }
        }
        Ok(pieces)
    }

    /// Appends the tokens of `text`; `after_special` says that it starts the sequence or follows a special token.
    ///
    /// A character that is no piece becomes its byte tokens; a byte without a token becomes the unknown token, or
    /// nothing if there is none. Takes O(n log n) time and O(n) memory.
    pub(super) fn encode(&self, text: &str, after_special: bool, out: &mut Vec<u32>) {
        let prefix = if self.add_space_prefix && after_special { SPACE } else { "" };
        let text = [prefix, &text.replace(' ', SPACE)].concat();
        let mut symbols = characters(&text);
        let mut queue = BinaryHeap::with_capacity(symbols.len());
        for left in 0..symbols.len() {
            self.propose(&text, &symbols, left, &mut queue);
        }
        while let Some(Pair { left, len, .. }) = queue.pop() {
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
                self.propose(&text, &symbols, prev, &mut queue);
            }
            self.propose(&text, &symbols, left, &mut queue);
        }
        for symbol in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text[symbol.start..symbol.start + symbol.len];
            match self.pieces.get(piece) {
                Some(&(id, _)) => out.push(id),
                None => out.extend(piece.bytes().filter_map(|b| self.bytes[b as usize].or(self.unk))),
            }
        }
    }

    /// Queues the pair that symbol `left` and its right neighbour make, if their joint text is a piece.
    fn propose(&self, text: &str, symbols: &[Symbol], left: usize, queue: &mut BinaryHeap<Pair>) {
        let Symbol { start, len, next, .. } = symbols[left];
        if next == NONE || len + symbols[next].len > self.max_len {
            return;
        }
        let len = len + symbols[next].len;
        if let Some(&(_, score)) = self.pieces.get(&text[start..start + len]) {
            queue.push(Pair { score, left, len });
        }
    }
}

/// One symbol per character, linked in order.
fn characters(text: &str) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(text.len());
    for (index, (start, c)) in text.char_indices().enumerate() {
        symbols.push(Symbol { start, len: c.len_utf8(), prev: index.wrapping_sub(1), next: index + 1 });
    }
    if let Some(last) = symbols.last_mut() {
        last.next = NONE;
    }
    symbols
}

/// The byte that a text of the form `<0xNN>` stands for.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let two_digits = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if two_digits { u8::from_str_radix(digits, 16).ok() } else { None }
}
