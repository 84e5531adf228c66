//! What encoding one text may take. A file may describe a tokenizer that reads a text again and again, or multiplies it: real
//! ones do not, and nobody shall wait for one that does.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How many times longer normalization may make a text, and by how many bytes beyond that. Unicode's own tables (NFKC)
/// make it 11 times longer at most; without a limit a few steps that each double the text would fill the memory.
const MAX_GROWTH: usize = 32;
const MAX_PREFIX: usize = 1024;

/// Time and room that are left for a text, in all of its parts together.
pub(super) struct Effort {
    /// When the clock was last looked at.
    last: Instant,
    time: Duration,
    n_calls: u32,
    /// Bytes of normalized text.
    room: usize,
}

impl Effort {
    /// For a text of `len` bytes: some hundred times what real tokenizers take.
    pub(super) fn new(len: usize) -> Effort {
        let time = Duration::from_secs(2)
            + Duration::from_micros(4).saturating_mul(u32::try_from(len).unwrap_or(u32::MAX));
        let room = len.saturating_mul(MAX_GROWTH).saturating_add(MAX_PREFIX);
        Effort { last: Instant::now(), time, n_calls: 0, room }
    }

    /// To be called for each match, or what takes no longer than one: looks at the clock now and then, which takes longer.
    ///
    /// # Errors
    /// `Unsupported` when the time is over.
    pub(super) fn check(&mut self) -> Result<()> {
        self.n_calls = self.n_calls.wrapping_add(1);
        if self.n_calls.is_multiple_of(256) { self.check_now() } else { Ok(()) }
    }

    /// To be called before what may take longer.
    ///
    /// # Errors
    /// `Unsupported` when the time is over.
    pub(super) fn check_now(&mut self) -> Result<()> {
        // A process may be stopped for hours between two looks: that is not this text's fault.
        const MOST: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let spent = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        self.time = self.time.saturating_sub(spent.min(MOST));
        if self.time.is_zero() {
            return Err(Error::Unsupported(
                "the tokenizer takes too long on this text: it reads it again and again".into(),
            ));
        }
        Ok(())
    }

    /// The most bytes that a part of the text may become.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Takes the room for `len` bytes of normalized text.
    pub(super) fn take_room(&mut self, len: usize) {
        self.room = self.room.saturating_sub(len);
    }
}
