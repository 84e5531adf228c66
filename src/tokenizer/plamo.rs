//! PLaMo 2 (`tokenizer.ggml.model` = `plamo2`): of all ways to cut a text into pieces the one with the greatest sum of scores,
//! integers in ten-thousandths, found from the text's end on. A character without a piece becomes its bytes, and costs more than
//! any piece.
#![forbid(unsafe_code)]

use super::effort::Effort;
use super::looks::Looks;
use super::unigram::Unigram;
use super::vocab::Lexicon;
use crate::error::{Error, Result};
use crate::gguf::with_capacity;

/// The cost of a character without a piece.
const UNKNOWN_COST: i64 = 10_000_000;
/// The upper limit of costs; pieces at it or above do not exist.
const MAX_COST: i64 = 20_000_000;
/// Ten-thousandths of one.
const UNIT: f64 = 1e4;

/// The encoder of such a vocabulary.
pub(super) struct Plamo {
    /// Finds the pieces.
    pieces: Unigram,
    /// The cost of each piece; `None` for tokens that are never found.
    costs: Vec<Option<i64>>,
    pub(super) unk: Option<u32>,
}

/// The best way to cut the text from a position on.
#[derive(Clone, Copy)]
struct Best {
    cost: i64,
    /// The length of its first piece.
    len: usize,
    /// `None`: the bytes of a character.
    token: Option<u32>,
}

impl Plamo {
    /// Orders the vocabulary. `scores` has one for each token.
    ///
    /// # Errors
    /// `Format` if a byte has no token; `NoMemory`; what ends it early.
    pub(super) fn new(
        lexicon: &Lexicon,
        scores: &[f32],
        unk: Option<u32>,
        looks: Looks<'_>,
    ) -> Result<Plamo> {
        if let Some(byte) = lexicon.bytes.iter().position(Option::is_none) {
            return Err(Error::Format(format!("no token stands for the byte 0x{byte:02X}")));
        }
        let cost = |score: &f32| {
            let cost = -(f64::from(*score) * UNIT).round() as i64;
            (score.is_finite() && cost < MAX_COST).then_some(cost)
        };
        let mut costs = with_capacity(scores.len(), "the costs of pieces")?;
        costs.extend(scores.iter().map(cost));
        // Its scores are not used.
        let pieces = Unigram::new(lexicon, Vec::new(), 0.0, Some(0), false, looks)?;
        Ok(Plamo { pieces, costs, unk })
    }

    /// Appends the tokens of `text`.
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
        // A byte order mark is not text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let nowhere = Best { cost: i64::MAX, len: 0, token: None };
        let mut best = vec![nowhere; text.len() + 1];
        best[text.len()].cost = 0;
        for (start, c) in text.char_indices().rev() {
            effort.check()?;
            let mut found = nowhere;
            let mut n_offers = 0;
            self.pieces.for_each_prefix(lexicon, &text.as_bytes()[start..], |len, token| {
                n_offers += 1;
                // Tokens that are not text by themselves may end within a character.
                let rest = best[start + len].cost;
                if let (Some(cost), true) = (self.costs[token as usize], rest < i64::MAX) {
                    let cost = rest.saturating_add(cost);
                    // Of equal ones the longest.
                    if cost <= found.cost {
                        found = Best { cost, len, token: Some(token) };
                    }
                }
            });
            effort.steps(n_offers)?;
            let cost = best[start + c.len_utf8()].cost.saturating_add(UNKNOWN_COST);
            if cost < found.cost {
                found = Best { cost, len: c.len_utf8(), token: None };
            }
            best[start] = found;
        }
        let mut at = 0;
        while at < text.len() {
            let Best { len, token, .. } = best[at];
            match token {
                Some(token) => out.push(token),
                None => lexicon.fall_back(&text.as_bytes()[at..at + len], self.unk, out),
            }
            at += len;
        }
        Ok(())
    }
}
