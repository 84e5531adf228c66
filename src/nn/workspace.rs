//! Every activation buffer of a forward pass, named and allocated once.
#![forbid(unsafe_code)]

use crate::backend::{Backend, Limits};
use crate::error::{Error, Result};

/// Rows of logits computed at a time; more outputs than this are computed in chunks.
const N_OUT: usize = 16;

/// The sizes of a backend's copy of the page tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Most positions in a sequence.
    pub n_ctx: usize,
    /// Most sequences.
    pub n_seq: usize,
    /// Groups of layers that have pages of their own.
    pub n_groups: usize,
}

/// The sizes of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceShape {
    /// Most rows in a batch.
    pub n_tokens: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Widest queries of a token.
    pub n_q: usize,
    /// Widest keys or values of a token.
    pub n_kv: usize,
    /// Longest vector of a head.
    pub head_dim: usize,
    /// Query heads.
    pub n_head: usize,
    /// Width of the buffers of recurrent layers; 0 where there are none.
    pub n_mix: usize,
    /// Heads of recurrent layers.
    pub n_mix_head: usize,
    /// Width of the further buffers of recurrences that unlearn; 0 where there are none.
    pub n_time_mix: usize,
    /// Queries and gates of attention that has an output gate; 0 where there is none.
    pub n_q_gate: usize,
    /// Hidden elements of experts per row whose gate and values are one matrix; 0 where there are none.
    pub n_gate_up: usize,
    /// Hidden elements of a feed-forward block per row: its width, or that of all experts of a row together.
    pub n_ff: usize,
    /// Width of the buffers of latent attention, and its heads; 0 where there is none.
    pub n_latent: (usize, usize),
    /// Elements of the per-layer embeddings of a token; 0 where there are none.
    pub n_per_layer: usize,
    /// Vectors that make the residual stream where layers compute with one of them; 0: the stream is a single vector.
    pub n_streams: usize,
    /// Experts; 0 where there are none.
    pub n_expert: usize,
    /// Experts of a row.
    pub n_expert_used: usize,
    /// Logits per row; 0 for a model without any.
    pub n_vocab: usize,
}

/// The buffers. `n` below is [`WorkspaceShape::n_tokens`].
pub struct Workspace<B: Backend> {
    /// Residual stream, `[n, n_embd]`.
    pub x: B::Buffer,
    /// Normalised input of a block, `[n, n_embd]`.
    pub norm: B::Buffer,
    /// Queries, `[n, n_q]`.
    pub q: B::Buffer,
    /// Keys, `[n, n_kv]`.
    pub k: B::Buffer,
    /// Keys on their way through a norm, `[n, n_kv]`.
    pub k_norm: B::Buffer,
    /// Values, `[n, n_kv]`.
    pub v: B::Buffer,
    /// Output of attention before its projection, `[n, n_q]`.
    pub attn: B::Buffer,
    /// Projections of recurrent layers, `[n, n_mix]` each.
    pub mix: [B::Buffer; 3],
    /// Numbers of each head of a recurrent layer, `[n, n_mix_head]` each.
    pub mix_heads: [B::Buffer; 2],
    /// Buffers of a recurrence that unlearns, of which the last but one holds the first layer's values, `[n, n_time_mix]` each.
    pub time_mix: [B::Buffer; 7],
    /// Queries, each head's followed by its output gate, `[n, n_q_gate]`.
    pub q_gate: B::Buffer,
    /// Gate and values of experts side by side, `[n, n_gate_up]`.
    pub gate_up: B::Buffer,
    /// Output of a block, to be added to `x`, `[n, n_embd]`.
    pub proj: B::Buffer,
    /// Feed-forward gate, or its only hidden layer, `[n, n_ff]`.
    pub gate: B::Buffer,
    /// Feed-forward values beside the gate, `[n, n_ff]`.
    pub up: B::Buffer,
    /// Buffers of latent attention, `[n, n_latent.0]` each.
    pub latent: [B::Buffer; 3],
    /// The number of each row's head, and 1, `[n * n_latent.1, 2]`.
    pub heads: B::Buffer,
    /// Per-layer embeddings, and a buffer for as many, `[n, n_per_layer]` each.
    pub per_layer: [B::Buffer; 2],
    /// Rows of their table, as many as tokens.
    pub rows: Vec<u32>,
    /// The vectors of the residual stream, and their predictions, `[n, n_streams, n_embd]` each.
    pub streams: [B::Buffer; 2],
    /// The output of the layer beside attention where the residual stream is several vectors, or one of these, `[n, n_embd]`.
    pub beside: B::Buffer,
    /// The router's logit of each expert, `[n, n_expert]`.
    pub router: B::Buffer,
    /// Experts and shares of each row, `[n, n_expert_used, 2]`.
    pub route: B::Buffer,
    /// The output of the expert of all tokens, `[n, n_embd]`; empty without experts.
    pub shared: B::Buffer,
    /// Logits of one chunk, `[n_out, n_vocab]`.
    pub logits: B::Buffer,
    /// Rows in `logits`.
    pub n_out: usize,
    /// The sizes of the buffers.
    pub shape: WorkspaceShape,
}

impl<B: Backend> Workspace<B> {
    /// Allocates the buffers and the backend's own scratch for `shape` and these sequences.
    pub fn new(backend: &mut B, shape: WorkspaceShape, sequences: SequenceLimits) -> Result<Workspace<B>> {
        let s = shape;
        let n_out = N_OUT.min(s.n_tokens);
        let n_cols = s.n_embd.max(s.n_q).max(s.n_ff).max(s.n_mix).max(s.n_latent.0).max(s.n_per_layer);
        backend.reserve(&Limits {
            n_tokens: s.n_tokens,
            n_out,
            n_cols,
            head_dim: s.head_dim,
            n_head: s.n_head,
            n_ctx: sequences.n_ctx,
            n_seq: sequences.n_seq,
            n_groups: sequences.n_groups,
            // Latent attention has a matrix for each head; a backend sees them as experts.
            n_slots: s.n_tokens.saturating_mul(s.n_expert_used.max(s.n_latent.1)),
            n_expert: s.n_expert.max(s.n_latent.1),
        })?;
        // A count that overflows exceeds all memory.
        let rows = |n_cols: usize| backend.alloc(s.n_tokens.saturating_mul(n_cols));
        Ok(Workspace {
            x: rows(s.n_embd)?,
            norm: rows(s.n_embd)?,
            q: rows(s.n_q)?,
            k: rows(s.n_kv)?,
            k_norm: rows(s.n_kv)?,
            v: rows(s.n_kv)?,
            attn: rows(s.n_q)?,
            mix: [rows(s.n_mix)?, rows(s.n_mix)?, rows(s.n_mix)?],
            mix_heads: [rows(s.n_mix_head)?, rows(s.n_mix_head)?],
            time_mix: [
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
                rows(s.n_time_mix)?,
            ],
            q_gate: rows(s.n_q_gate)?,
            gate_up: rows(s.n_gate_up)?,
            proj: rows(s.n_embd)?,
            gate: rows(s.n_ff)?,
            up: rows(s.n_ff)?,
            latent: [rows(s.n_latent.0)?, rows(s.n_latent.0)?, rows(s.n_latent.0)?],
            heads: rows(s.n_latent.1.saturating_mul(2))?,
            per_layer: [rows(s.n_per_layer)?, rows(s.n_per_layer)?],
            rows: with_capacity(if s.n_per_layer > 0 { s.n_tokens } else { 0 })?,
            streams: [
                rows(s.n_streams.saturating_mul(s.n_embd))?,
                rows(s.n_streams.saturating_mul(s.n_embd))?,
            ],
            beside: rows(if s.n_streams > 0 { s.n_embd } else { 0 })?,
            router: rows(s.n_expert)?,
            route: rows(s.n_expert_used.saturating_mul(2))?,
            shared: rows(if s.n_expert > 0 { s.n_embd } else { 0 })?,
            logits: backend.alloc(n_out.saturating_mul(s.n_vocab))?,
            n_out,
            shape,
        })
    }
}

/// An empty list with capacity for `n` row numbers.
fn with_capacity(n: usize) -> Result<Vec<u32>> {
    let mut rows = Vec::new();
    match rows.try_reserve_exact(n) {
        Ok(()) => Ok(rows),
        Err(_) => Err(Error::NoMemory(format!("no memory for the numbers of {n} rows"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::threaded::{F32Products, ThreadedBackend};
    use crate::kernels::{Isa, Kernels};
    use crate::memory::Memory;
    use crate::threads::ThreadPool;

    /// The number of elements overflows: 65,536 rows of 65,536 numbers on 32 bits.
    #[test]
    fn a_size_beyond_memory_is_an_error() {
        let wide = usize::MAX.isqrt() + 1;
        let shape = WorkspaceShape {
            n_tokens: wide,
            n_embd: 64,
            n_q: 64,
            n_kv: 64,
            head_dim: 64,
            n_head: 1,
            n_mix: 0,
            n_mix_head: 0,
            n_time_mix: 0,
            n_q_gate: 0,
            n_gate_up: 0,
            n_ff: wide,
            n_latent: (0, 0),
            n_per_layer: 0,
            n_streams: 0,
            n_expert: 0,
            n_expert_used: 0,
            n_vocab: 0,
        };
        let (kernels, pool) = (Kernels::select(Some(Isa::Scalar)), ThreadPool::new(1, None).expect("a pool"));
        let mut backend =
            ThreadedBackend::new(kernels, pool, F32Products::Dots, Memory::default()).expect("a backend");
        let error =
            Workspace::new(&mut backend, shape, SequenceLimits { n_ctx: 64, n_seq: 1, n_groups: 1 }).err();
        assert!(matches!(error, Some(Error::NoMemory(_))), "{error:?}");
    }
}
