//! Activations, and their rounded forms for products with weights of few bits.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};

use super::super::host::{HostWeight, Zeroed};
use super::{ThreadedBackend, rows_per_task};
use crate::error::Result;
use crate::kernels::I16Block;
use crate::memory::Memory;
use crate::quant::{Dot, Q8Block};

/// Fewest blocks of [`Rounded::wide`] in a task: rounding them takes as long as a thread takes to join.
const FEWEST_WIDE: usize = 64;

/// A buffer of activations that knows whether it was written to since it was rounded.
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

/// The rounded values of one buffer at a time, and space for those of the next.
#[derive(Default)]
pub(super) struct Rounded {
    /// Of consecutive activations.
    pub blocks: Zeroed<Q8Block>,
    /// Space for the blocks of the next operation, computed from `blocks`.
    next: Zeroed<Q8Block>,
    /// The inputs of 16-bit products, rounded anew for each call.
    pub wide: Zeroed<I16Block>,
    /// The number of the last rounding, and how many activations it covers.
    last: u64,
    len: usize,
    /// Whether any product has wanted rounded activations so far.
    pub wanted: bool,
}

impl Rounded {
    /// Allocates space for `len` activations, in [`Rounded::wide`] too if so.
    pub fn reserve(&mut self, len: usize, wide: bool, memory: &Memory) -> Result<()> {
        self.len = 0;
        self.wide = Zeroed::default();
        if wide {
            self.wide = memory.zeroed(len.div_ceil(I16Block::LEN), "activations of 16 bits")?;
        }
        for blocks in [&mut self.blocks, &mut self.next] {
            *blocks = Zeroed::default();
            *blocks = memory.zeroed(len.div_ceil(Q8Block::LEN), "the quantized activations")?;
        }
        Ok(())
    }

    /// Whether it pays to round `len` activations while they are computed, in chunks of `part`.
    pub fn takes(&self, len: usize, part: usize) -> bool {
        let whole = len.is_multiple_of(Q8Block::LEN) && part.is_multiple_of(Q8Block::LEN);
        self.wanted && whole && len / Q8Block::LEN <= self.blocks.len()
    }

    /// Whether `blocks` are the first `len` activations of `x`.
    pub fn are_of(&self, x: &Activations, len: usize) -> bool {
        x.rounding != 0 && x.rounding == self.last && len <= self.len
    }

    /// Marks `blocks` as those of no buffer.
    pub fn forget(&mut self) {
        self.last += 1;
    }

    /// The rounded activations to read, and space for the next ones, which [`Rounded::advance`] puts in the place of `blocks`.
    pub fn all(&mut self) -> (&[Q8Block], &[I16Block], &mut [Q8Block]) {
        (&self.blocks, &self.wide, &mut self.next)
    }

    /// Replaces the blocks by the next ones, which are the first `len` activations of `x` until `x` is written to.
    pub fn advance(&mut self, x: &mut Activations, len: usize) {
        std::mem::swap(&mut self.blocks, &mut self.next);
        self.forget();
        self.become_those_of(x, len);
    }

    /// Marks `blocks`, which were forgotten and not claimed since, as the first `len` activations of `x` until `x` is written to.
    pub fn become_those_of(&mut self, x: &mut Activations, len: usize) {
        (x.rounding, self.len) = (self.last, len);
    }
}

impl ThreadedBackend {
    /// Rounds the first `n` rows of `x` as the products with `weights` need them.
    pub(super) fn prepare<'a>(
        &mut self,
        weights: impl Iterator<Item = &'a HostWeight>,
        x: &Activations,
        n: usize,
    ) {
        let (mut q8, mut wide) = (None, None);
        for w in weights {
            if matches!(self.kernels.dot[w.format as usize], Dot::Q8(_)) {
                q8 = Some(w.n_cols);
            } else if w.is_wide() {
                wide = Some(w.n_cols);
            }
        }
        if let Some(n_cols) = q8 {
            self.quantize(x, n, n_cols);
        }
        if let (Some(n_cols), Some(kernels)) = (wide, self.kernels.wide) {
            let n_blocks = n_cols / I16Block::LEN;
            let part = (rows_per_task(n, n_cols, self.pool.n_threads()) * n_blocks).max(FEWEST_WIDE);
            self.pool.for_parts(&mut self.rounded.wide[..n * n_blocks], part, |i, out| {
                (kernels.round)(&x[i * part * I16Block::LEN..][..out.len() * I16Block::LEN], out);
            });
        }
    }

    /// Rounds the first `n` rows of `x`, unless they were rounded when they were computed.
    fn quantize(&mut self, x: &Activations, n: usize, n_cols: usize) {
        if self.rounded.are_of(x, n * n_cols) {
            return;
        }
        self.rounded.wanted = true;
        self.rounded.forget();
        let n_blocks = n_cols / Q8Block::LEN;
        let quantize = self.kernels.quantize_activations;
        let part = rows_per_task(n, n_cols, self.pool.n_threads()) * n_blocks;
        self.pool.for_parts(&mut self.rounded.blocks[..n * n_blocks], part, |i, out| {
            quantize(&x[i * part * Q8Block::LEN..][..out.len() * Q8Block::LEN], out);
        });
    }
}
