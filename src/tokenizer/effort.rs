//! Limits on encoding one text. A file may describe a tokenizer that reads a text again and again, or multiplies it. Real
//! tokenizers do not, and no caller should wait for one that does.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How many times longer normalization may make a text, and by how many bytes beyond that. Unicode's own tables (NFKC) make it at
/// most 11 times longer. Without a limit a few steps that each double the text would fill the memory.
const MAX_GROWTH: usize = 32;
const MAX_PREFIX: usize = 1024;

/// Steps of work between two checks for cancelling: far less than a millisecond's.
const STEPS: u32 = 1024;

/// Time and bytes that are left for a text, in all of its parts together.
pub(super) struct Effort<'l> {
    /// The tokenizer's name, for errors; may be empty.
    name: &'l str,
    /// Ends the call.
    looks: &'l dyn Fn() -> Result<()>,
    /// When the clock was last read.
    last: Instant,
    time: Duration,
    n_calls: u32,
    n_steps: u32,
    /// Remaining bytes of normalized text.
    n_left: usize,
}

impl<'l> Effort<'l> {
    /// For a text of `len` bytes: some hundred times what real tokenizers take.
    #[cfg(test)]
    pub(super) fn new(len: usize) -> Effort<'l> {
        Effort::under(len, "", &|| Ok(()))
    }

    /// As above for the tokenizer `name`; `looks` is called now and then, and its error ends the call.
    pub(super) fn under(len: usize, name: &'l str, looks: &'l dyn Fn() -> Result<()>) -> Effort<'l> {
        let time = Duration::from_secs(2)
            + Duration::from_micros(4).saturating_mul(u32::try_from(len).unwrap_or(u32::MAX));
        let n_left = len.saturating_mul(MAX_GROWTH).saturating_add(MAX_PREFIX);
        Effort { name, looks, last: Instant::now(), time, n_calls: 0, n_steps: 0, n_left }
    }

    /// To be called for each of many small steps, whose number is bounded: checks for cancelling.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn step(&mut self) -> Result<()> {
        self.steps(1)
    }

    /// As [`Effort::step`], for `n` steps.
    ///
    /// # Errors
    /// As [`Effort::step`].
    pub(super) fn steps(&mut self, n: u32) -> Result<()> {
        self.n_steps += n;
        if self.n_steps < STEPS {
            return Ok(());
        }
        self.n_steps = 0;
        (self.looks)()
    }

    /// To be called for each match, or for work that takes no longer than one: reads the clock now and then.
    ///
    /// # Errors
    /// `Unsupported` when the time is over, and those of the check.
    pub(super) fn check(&mut self) -> Result<()> {
        self.n_calls = self.n_calls.wrapping_add(1);
        if self.n_calls.is_multiple_of(256) { self.check_now() } else { Ok(()) }
    }

    /// To be called before work that may take longer.
    ///
    /// # Errors
    /// `Unsupported` when the time is over.
    pub(super) fn check_now(&mut self) -> Result<()> {
        // A process may be stopped for hours between two checks, which does not count against this text.
        const MOST: Duration = Duration::from_secs(1);
        (self.looks)()?;
        let now = Instant::now();
        let spent = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        self.time = self.time.saturating_sub(spent.min(MOST));
        if self.time.is_zero() {
            let error = Error::Unsupported(
                "the tokenizer takes too long on this text: it reads it again and again".into(),
            );
            return Err(if self.name.is_empty() { error } else { error.within(self.name) });
        }
        Ok(())
    }

    /// The most bytes that the rest of the normalized text may have.
    pub(super) fn n_left(&self) -> usize {
        self.n_left
    }

    /// Counts `len` bytes of normalized text against the limit.
    pub(super) fn spend(&mut self, len: usize) {
        self.n_left = self.n_left.saturating_sub(len);
    }
}
