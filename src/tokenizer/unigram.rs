//! Unigram (`tokenizer.ggml.model` = `t5`): of all ways to cut a text into pieces the one with the greatest sum of
//! scores, found by dynamic programming (T. Kudo, "Subword Regularization", 2018).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::effort::Effort;
use super::looks::Looks;
use super::vocab::Lexicon;
use crate::error::{Error, Result};
use crate::gguf::{append, with_capacity};

/// The purpose of memory, in error sentences.
const WHAT: &str = "the order of the vocabulary's pieces";

/// How much worse than the worst piece an unknown character is; SentencePiece's constant.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Longer pieces, in bytes, are never found: real ones are shorter by far, and the limit keeps the search linear in the
/// text for any vocabulary.
const MAX_SEARCHED: usize = 512;

/// The encoder of a Unigram vocabulary.
pub(super) struct Unigram {
    /// One for each token.
    scores: Vec<f64>,
    /// The pieces that text may spell, ordered by their bytes.
    sorted: Vec<u32>,
    /// Where in `sorted` the pieces that begin with a byte start; the last entry is its length.
    starts: Vec<u32>,
    unknown_score: f64,
    pub(super) unk: u32,
    byte_fallback: bool,
}

/// The best way to cut the text up to a place.
#[derive(Clone, Copy)]
struct Best {
    /// -inf where there is no way.
    score: f64,
    /// Where its last piece starts.
    start: usize,
    token: u32,
}

impl Unigram {
    /// Orders the vocabulary. `scores` has one for each token; user-defined pieces should have 0.
    ///
    /// # Errors
    /// `Format` if there is no unknown token; `NoMemory`; what ends it early.
    pub(super) fn new(
        lexicon: &Lexicon,
        scores: Vec<f64>,
        min_score: f64,
        unk: Option<u32>,
        byte_fallback: bool,
        looks: Looks<'_>,
    ) -> Result<Unigram> {
        let unk = unk.ok_or_else(|| Error::Format("a Unigram vocabulary needs an unknown token".into()))?;
        let bytes = |&id: &u32| lexicon.get(id).unwrap_or_default();
        // Pieces with the same first two bytes are sorted together: no single sort is long.
        let mut by_start: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        for (i, id) in lexicon.spelled().enumerate() {
            looks.at(i)?;
            let piece = bytes(&id);
            if (1..=MAX_SEARCHED).contains(&piece.len()) {
                let pieces = by_start.entry(&piece[..piece.len().min(2)]).or_default();
                append(pieces, id, WHAT)?;
            }
        }
        let mut sorted = with_capacity(lexicon.len(), WHAT)?;
        for mut pieces in by_start.into_values() {
            looks.at_one_of(sorted.len()..sorted.len() + pieces.len())?;
            pieces.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
            sorted.append(&mut pieces);
        }
        let starts = (0..=256)
            .map(|first| sorted.partition_point(|id| usize::from(bytes(id)[0]) < first) as u32)
            .collect();
        let unknown_score = min_score - UNKNOWN_PENALTY;
        Ok(Unigram { scores, sorted, starts, unknown_score, unk, byte_fallback })
    }

    /// Appends the tokens of `text`. Unknown characters in a row are one unknown token.
    ///
    /// # Errors
    /// `Unsupported` when that takes too long.
    pub(super) fn encode(
        &self,
        lexicon: &Lexicon,
        text: &str,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let nowhere = Best { score: f64::NEG_INFINITY, start: usize::MAX, token: self.unk };
        let mut best = vec![nowhere; bytes.len() + 1];
        best[0].score = 0.0;
        for (start, c) in text.char_indices() {
            effort.check()?;
            let so_far = best[start].score;
            let mut offer = |end: usize, score: f64, token: u32| {
                let score = so_far + score;
                if best[end].start == usize::MAX || score > best[end].score {
                    best[end] = Best { score, start, token };
                }
            };
            let mut whole_char = false;
            let mut n_offers = 0;
            self.for_each_prefix(lexicon, &bytes[start..], |len, token| {
                offer(start + len, self.scores[token as usize], token);
                whole_char |= len == c.len_utf8();
                n_offers += 1;
            });
            effort.steps(n_offers)?;
            if !whole_char {
                offer(start + c.len_utf8(), self.unknown_score, self.unk);
            }
        }
        let first = out.len();
        let mut end = bytes.len();
        let mut unknown_end = None; // where the run of unknown characters being passed ends
        while end > 0 {
            let Best { start, token, .. } = best[end];
            if token == self.unk {
                unknown_end.get_or_insert(end);
            } else {
                self.push_unknown(lexicon, bytes, end, &mut unknown_end, out);
                out.push(token);
            }
            end = start;
        }
        self.push_unknown(lexicon, bytes, 0, &mut unknown_end, out);
        out[first..].reverse();
        Ok(())
    }

    /// Appends the tokens for the unknown `bytes[start..*end]`, last token first.
    fn push_unknown(
        &self,
        lexicon: &Lexicon,
        bytes: &[u8],
        start: usize,
        end: &mut Option<usize>,
        out: &mut Vec<u32>,
    ) {
        if let Some(end) = end.take() {
            let before = out.len();
            self.encode_bytes(lexicon, &bytes[start..end], out);
            out[before..].reverse();
        }
    }

    /// Appends the tokens of bytes that no piece contains.
    pub(super) fn encode_bytes(&self, lexicon: &Lexicon, bytes: &[u8], out: &mut Vec<u32>) {
        let has_token = |&b: &u8| lexicon.bytes[b as usize].is_some();
        if self.byte_fallback && bytes.iter().all(has_token) {
            lexicon.fall_back(bytes, None, out);
        } else {
            out.push(self.unk);
        }
    }

    /// Calls `found` with the length and token of each piece that `text` begins with, shortest first.
    pub(super) fn for_each_prefix(&self, lexicon: &Lexicon, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let Some(&first) = text.first() else { return };
        let [from, to] = [0, 1].map(|i| self.starts[usize::from(first) + i] as usize);
        // All of these begin with `text[..len]`, the shortest first.
        let mut candidates = &self.sorted[from..to];
        let mut len = 1;
        loop {
            let Some(&shortest) = candidates.first() else { return };
            if lexicon.get(shortest).is_some_and(|piece| piece.len() == len) {
                found(len, shortest);
                candidates = &candidates[1..];
            }
            let Some(&next) = text.get(len) else { return };
            let byte = |&id: &u32| lexicon.get(id).unwrap_or_default()[len];
            let from = candidates.partition_point(|id| byte(id) < next);
            let n = candidates[from..].partition_point(|id| byte(id) == next);
            candidates = &candidates[from..from + n];
            len += 1;
        }
    }
}
