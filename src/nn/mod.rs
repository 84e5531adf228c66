//! Blocks that architectures share, generic over [`crate::backend::Backend`]. A block holds its weights and
//! parameters; its `forward` reads and writes named buffers of the [`workspace::Workspace`].
#![forbid(unsafe_code)]

use crate::backend::{Backend, KvHeads, Run, StatePlan};
use crate::cancel::Watch;

pub mod altup;
pub mod attention;
pub mod decoder;
pub mod encoder;
pub mod gated_delta;
pub mod head;
pub mod latent;
pub mod linear;
pub mod mamba2;
pub mod mixer;
pub mod mlp;
pub mod moe;
pub mod norm;
pub mod per_layer;
pub mod pooling;
pub mod short_conv;
pub mod workspace;

/// Where a block reads its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The workspace's `norm`.
    Norm,
    /// The residual stream, the workspace's `x`.
    Residual,
}

/// What layers keep of sequences.
pub struct Cache<B: Backend> {
    /// Keys and values.
    pub kv: B::Kv,
    /// Recurrent states.
    pub states: B::States,
}

/// What one layer keeps of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// Keys and values of each token.
    Kv(KvHeads),
    /// Two states of so many f32 elements, however long the sequence is.
    States {
        /// The last rows that a convolution saw.
        conv: usize,
        /// The matrices of a recurrence.
        scan: usize,
    },
}

/// Tokens whose keys and values move, as if they had been run some positions earlier.
#[derive(Debug, Clone, Copy)]
pub struct Shift<'a> {
    /// The KV slots they lie in, by ascending positions.
    pub from: &'a [u32],
    /// The slots they go to, likewise. A slot that was not read yet is not written to.
    pub to: &'a [u32],
    /// How many positions earlier.
    pub by: usize,
    /// Positions that a sequence of this context can have.
    pub n_ctx: usize,
}

/// Some rows of tokens to run, planned by the context. All slices but `outputs` and `pages` have one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Token ids, each below `n_vocab`.
    pub tokens: &'a [u32],
    /// Position of each token in its sequence.
    pub positions: &'a [u32],
    /// KV slot of each token.
    pub slots: &'a [u32],
    /// The rows by sequence.
    pub runs: &'a [Run],
    /// Page tables that `runs` point into.
    pub pages: &'a [u32],
    /// The recurrent states of `runs`.
    pub states: StatePlan<'a>,
    /// The rows whose logits or hidden states are wanted, ascending.
    pub outputs: &'a [u32],
    /// Positions that a sequence of this context can have: LongRoPE chooses its factors by it.
    pub n_ctx: usize,
    /// What may end the pass early: looked at before each layer, and before each turn of logits.
    pub watch: Watch<'a>,
}
