//! Blocks that architectures share, generic over [`crate::backend::Backend`]. A block holds its weights and
//! parameters; its `forward` reads and writes named buffers of the [`workspace::Workspace`].
#![forbid(unsafe_code)]

use crate::backend::{Backend, KvHeads, PageTables, Pass, Run, StatePlan};
use crate::cancel::Watch;

pub mod altup;
pub mod attention;
pub mod decoder;
pub mod encoder;
pub mod gated_delta;
pub mod head;
pub mod latent;
pub mod linear;
pub mod mamba;
pub mod mamba2;
pub mod mixer;
pub mod mlp;
pub mod moe;
pub mod norm;
pub mod per_layer;
pub mod pooling;
pub mod short_conv;
pub mod time_mix;
pub mod workspace;

/// Where a block reads its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The workspace's `norm`.
    Norm,
    /// The residual stream, the workspace's `x`.
    Residual,
}

impl Source {
    /// One of the workspace's `norm` and `x`.
    fn of<'a, T>(self, norm: &'a T, x: &'a T) -> &'a T {
        match self {
            Source::Norm => norm,
            Source::Residual => x,
        }
    }
}

/// What layers keep of sequences.
pub struct Cache<B: Backend> {
    /// Keys and values of each group of layers.
    pub kv: Vec<B::Kv>,
    /// Recurrent states.
    pub states: B::States,
}

/// What one layer keeps of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// Keys and values of each token.
    Kv(KvHeads, KvPlace),
    /// Nothing of its own: it reads the keys and values of an earlier layer.
    Shared(KvPlace),
    /// Two states with these numbers of f32 elements, however long the sequence is.
    States {
        /// The last rows that a convolution saw.
        conv: usize,
        /// The matrices of a recurrence.
        scan: usize,
        /// The number of layers before it that keep states.
        before: usize,
    },
}

/// Where the keys and values of a layer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvPlace {
    /// The group of the layers that see equally far back.
    pub group: usize,
    /// The layer's number in the group.
    pub layer: usize,
}

/// Slots of a group between which keys and values move.
#[derive(Debug, Clone)]
pub struct KvMoves {
    /// The slots they lie in, by ascending positions.
    pub from: Vec<u32>,
    /// The slots they go to, likewise. No slot is written to before it was read.
    pub to: Vec<u32>,
}

/// Tokens whose keys and values move, as if they had been run some positions earlier.
#[derive(Debug, Clone, Copy)]
pub struct Shift<'a> {
    /// Their slots in each group.
    pub groups: &'a [KvMoves],
    /// How many positions earlier.
    pub by: usize,
    /// Positions that a sequence of this context can have.
    pub n_ctx: usize,
}

/// Some rows of tokens to run, planned by the context. `tokens` and `positions` have one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Token ids, each below `n_vocab`.
    pub tokens: &'a [u32],
    /// Position of each token in its sequence.
    pub positions: &'a [u32],
    /// Which text of a pair each token belongs to, for encoders; empty: all belong to the first.
    pub types: &'a [u32],
    /// Where keys and values of each group are.
    pub groups: &'a [PageTables],
    /// The rows by sequence.
    pub runs: &'a [Run],
    /// The recurrent states of `runs`.
    pub states: StatePlan<'a>,
    /// The rows whose logits or hidden states are wanted, ascending.
    pub outputs: &'a [u32],
    /// Positions that a sequence of this context can have: LongRoPE chooses its factors by it.
    pub n_ctx: usize,
    /// What may end the pass early: checked before each layer, and before each chunk of logits.
    pub watch: Watch<'a>,
}

impl<'a> Batch<'a> {
    /// The part of it that backends get.
    pub fn pass(&self) -> Pass<'a> {
        let &Batch { positions, runs, groups, states, watch, .. } = self;
        Pass { positions, runs, groups, states, watch }
    }
}
