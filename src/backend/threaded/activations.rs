//! Activations, and their rounded form for products with quantized weights.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};

use super::super::host::Zeroed;
use crate::error::Result;
use crate::memory::Memory;
use crate::quant::Q8Block;

/// A buffer of activations, which knows whether it was written to since it was rounded.
pub struct Activations {
    values: Zeroed<f32>,
    /// The number of its rounding; 0 if it was written to since, or never was rounded.
    rounding: u64,
}

impl Activations {
    /// `len` zeros.
    pub(super) fn new(len: usize, memory: &Memory) -> Result<Activations> {
        Ok(Activations { values: memory.zeroed(len, "an activation buffer")?, rounding: 0 })
    }
}

impl Deref for Activations {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.values
    }
}

impl DerefMut for Activations {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.rounding = 0;
        &mut self.values
    }
}

/// The rounding of one buffer at a time, and room to make the next one of it.
#[derive(Default)]
pub(super) struct Rounded {
    /// Of consecutive activations.
    pub blocks: Zeroed<Q8Block>,
    /// Room for as many, which are made of those.
    next: Zeroed<Q8Block>,
    /// The number of the last rounding, and how many activations it was of.
    last: u64,
    len: usize,
    /// Whether any product has wanted rounded activations so far.
    pub wanted: bool,
}

impl Rounded {
    /// Makes room for `len` activations.
    pub fn reserve(&mut self, len: usize, memory: &Memory) -> Result<()> {
        self.len = 0;
        for blocks in [&mut self.blocks, &mut self.next] {
            *blocks = Zeroed::default();
            *blocks = memory.zeroed(len.div_ceil(Q8Block::LEN), "the quantized activations")?;
        }
        Ok(())
    }

    /// Whether `len` activations are worth rounding while they are made, in parts of `part`.
    pub fn takes(&self, len: usize, part: usize) -> bool {
        let whole = len.is_multiple_of(Q8Block::LEN) && part.is_multiple_of(Q8Block::LEN);
        self.wanted && whole && len / Q8Block::LEN <= self.blocks.len()
    }

    /// Whether `blocks` are the first `len` activations of `x`.
    pub fn are_of(&self, x: &Activations, len: usize) -> bool {
        x.rounding != 0 && x.rounding == self.last && len <= self.len
    }

    /// Says that `blocks` are no buffer's any more.
    pub fn forget(&mut self) {
        self.last += 1;
    }

    /// The blocks, to be read, and room for what is made of them, which [`Rounded::advance`] puts in their place.
    pub fn both(&mut self) -> (&[Q8Block], &mut [Q8Block]) {
        (&self.blocks, &mut self.next)
    }

    /// Forgets the blocks; those that were made of them are the first `len` activations of `x` until these are written to.
    pub fn advance(&mut self, x: &mut Activations, len: usize) {
        std::mem::swap(&mut self.blocks, &mut self.next);
        self.forget();
        self.become_those_of(x, len);
    }

    /// Says that `blocks`, which nobody was told of since they were forgotten, are the first `len` activations of `x` until these
    /// are written to.
    pub fn become_those_of(&mut self, x: &mut Activations, len: usize) {
        (x.rounding, self.len) = (self.last, len);
    }
}
