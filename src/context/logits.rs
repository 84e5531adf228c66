//! The logits of the last call: which rows there are, and after which tokens of which sequences.
#![forbid(unsafe_code)]

use super::Context;
use crate::error::{Error, Result};

/// A token whose logits are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its sequence.
    pub(super) seq: u32,
    /// Its position there.
    pub(super) position: u32,
    /// Its row of the logits, which sequences with the same beginning may share.
    pub(super) row: u32,
}

/// The origin of the rows of logits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Origin {
    /// None: no call has given any.
    #[default]
    Never,
    /// They are gone.
    Gone,
    /// The last decode, of this many tokens.
    Decode(usize),
    /// A state that was loaded.
    State,
}

impl Context {
    /// The logits of token `i` of the last [`Context::decode`], `[n_vocab]`.
    /// `NotFound` when there are none, `Unsupported` for an encoder.
    pub fn logits(&self, i: usize) -> Result<&[f32]> {
        self.model.require_logits()?;
        match self.outputs.binary_search_by(|&row| (row as usize).cmp(&i)) {
            Ok(row) => Ok(self.row_of_logits(row)),
            Err(_) => Err(Error::NotFound(self.no_logits(i))),
        }
    }

    /// Why there are no logits of token `i`.
    fn no_logits(&self, i: usize) -> String {
        match self.origin {
            Origin::Never => "there are no logits: nothing was decoded yet".into(),
            Origin::Gone => {
                "there are no logits: the last decode failed, or a call since then took them away".into()
            }
            Origin::Decode(n) if i < n => {
                format!("token {i} of the last decode has no logits: it did not ask")
            }
            Origin::Decode(n) => {
                format!("token {i} does not exist: the last decode had {n} tokens, from 0 on")
            }
            Origin::State => {
                let n = self.outputs.len();
                format!("there are no logits number {i}: the state that was loaded has {n}, from 0 on")
            }
        }
    }

    fn row_of_logits(&self, row: usize) -> &[f32] {
        let n_vocab = self.model.info().n_vocab;
        &self.logits[row * n_vocab..(row + 1) * n_vocab]
    }

    /// The logits after the last token of sequence `seq`.
    /// `NotFound` when the last [`Context::decode`] did not give them, or they are gone.
    pub fn end_logits(&self, seq: u32) -> Result<&[f32]> {
        self.model.require_logits()?;
        let len = self.n_past(seq)?;
        match self.place(seq, len) {
            Some(place) => Ok(self.row_of_logits(place.row as usize)),
            None => Err(Error::NotFound(format!(
                "the logits of the end of sequence {seq} are not there: the last decode was not of its last token"
            ))),
        }
    }

    /// The place of the logits after the first `n` tokens of sequence `seq`.
    pub(super) fn place(&self, seq: u32, n: usize) -> Option<Place> {
        let is_it = |place: &&Place| place.seq == seq && place.position as usize + 1 == n;
        self.places.iter().rev().find(is_it).copied()
    }

    /// Allocates memory for the logits of `n` tokens. Where they are more than before, the last call's are gone.
    pub(super) fn reserve_outputs(&mut self, n: usize) -> Result<()> {
        let n_vocab = self.model.info().n_vocab;
        let n_logits = n.saturating_mul(n_vocab);
        let no_memory =
            |_| Error::NoMemory(format!("no memory for the logits of {n} tokens of {n_vocab} each"));
        if n_logits > self.logits.len() {
            let what = format!("the logits of {n} tokens of {n_vocab} each");
            let logits = self.memory.zeroed(n_logits, &what)?;
            self.forget_logits();
            self.logits = logits;
        }
        self.outputs.try_reserve(n.saturating_sub(self.outputs.len())).map_err(no_memory)?;
        self.places.try_reserve(n.saturating_sub(self.places.len())).map_err(no_memory)
    }

    pub(super) fn forget_logits(&mut self) {
        self.outputs.clear();
        self.places.clear();
        if !matches!(self.origin, Origin::Never) {
            self.origin = Origin::Gone;
        }
    }

    /// Sequence `to` has become the first `n` tokens of `from`, and shares the logits after them.
    pub(super) fn share_place(&mut self, from: u32, to: u32, n: usize) {
        self.places.retain(|place| place.seq != to);
        let shared = self.place(from, n).map(|place| Place { seq: to, ..place });
        self.places.extend(shared);
    }

    /// Sequence `seq` has forgotten `drop` tokens after its first `keep`.
    pub(super) fn shift_places(&mut self, seq: u32, keep: usize, drop: usize) {
        self.places.retain_mut(|place| {
            let position = place.position as usize;
            if place.seq != seq || position < keep {
                return true;
            }
            let moved = position.checked_sub(drop).filter(|&moved| moved >= keep);
            place.position = moved.map_or(place.position, |moved| moved as u32);
            moved.is_some()
        });
    }
}
