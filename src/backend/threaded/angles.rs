//! Cosines and sines of rotary positions, kept from one layer to the next, and rotation by them.

use super::super::Rope;
use super::super::cpu::angles;
use super::super::host::Zeroed;
use super::{ThreadedBackend, rows_per_task};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::memory::Memory;
use crate::threads::{DisjointMut, ThreadPool};

/// How many kinds of layers (bases, scalings) are remembered: the most that a model has.
const KINDS: usize = 2;

/// The angles of one batch's positions for each kind of layer.
pub(super) struct Angles {
    kinds: [Kind; KINDS],
    /// The kind that was filled last.
    last: usize,
}

/// What the angles are of, and the angles.
struct Kind {
    positions: Vec<u32>,
    inv_freq: Vec<f32>,
    magnitude: f32,
    /// For each position cosines, then sines.
    values: Zeroed<f32>,
}

impl Angles {
    /// Capacity for batches of `n_tokens` rows with heads of `head_dim`.
    pub fn new(n_tokens: usize, head_dim: usize, memory: &Memory) -> Result<Angles> {
        let kind = || {
            Ok(Kind {
                positions: Vec::with_capacity(n_tokens),
                inv_freq: Vec::with_capacity(head_dim / 2),
                magnitude: 0.0,
                values: memory.zeroed(n_tokens.saturating_mul(head_dim), "the rope angles")?,
            })
        };
        Ok(Angles { kinds: [kind()?, kind()?], last: 0 })
    }

    /// Cosines and sines of each position, `[positions.len(), 2, inv_freq.len()]`.
    pub fn of(&mut self, positions: &[u32], inv_freq: &[f32], magnitude: f32) -> &[f32] {
        let is_it = |kind: &Kind| {
            kind.positions == positions && kind.inv_freq == inv_freq && kind.magnitude == magnitude
        };
        let found = self.kinds.iter().position(is_it);
        let at = found.unwrap_or((self.last + 1) % KINDS);
        let kind = &mut self.kinds[at];
        if found.is_none() {
            self.last = at;
            kind.fill(positions, inv_freq, magnitude);
        }
        &self.kinds[at].values[..2 * positions.len() * inv_freq.len()]
    }
}

impl Kind {
    fn fill(&mut self, positions: &[u32], inv_freq: &[f32], magnitude: f32) {
        self.positions.clear();
        self.positions.extend_from_slice(positions);
        self.inv_freq.clear();
        self.inv_freq.extend_from_slice(inv_freq);
        self.magnitude = magnitude;
        let n_pairs = inv_freq.len();
        let rows = self.values.chunks_exact_mut((2 * n_pairs).max(1));
        for (&position, row) in positions.iter().zip(rows) {
            let (cos, sin) = row.split_at_mut(n_pairs);
            angles(position, inv_freq, magnitude, cos, sin);
        }
    }
}

/// Rotates the queries and keys of `n` rows by `angles`, which [`Angles::of`] gives for their positions.
pub(super) fn rotate(
    rope: fn(x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle),
    pool: &mut ThreadPool,
    n: usize,
    angles: &[f32],
    args: Rope<'_, ThreadedBackend>,
) {
    let n_pairs = args.inv_freq.len();
    let row_lens = [args.n_head, args.n_head_kv].map(|n_head| n_head * args.head_dim);
    let rows = rows_per_task(n, row_lens[0] + row_lens[1], pool.n_threads());
    let parts = [args.q, args.k].map(|x| DisjointMut::new(x));
    pool.run(n.div_ceil(rows), &|_, task| {
        let (first, end) = (task * rows, n.min((task + 1) * rows));
        for (x, row_len) in parts.iter().zip(row_lens).filter(|(_, row_len)| *row_len > 0) {
            // SAFETY: tasks have different numbers, and their rows do not overlap.
            let x = unsafe { x.slice(first * row_len..end * row_len) };
            let angles = angles[first * 2 * n_pairs..].chunks_exact((2 * n_pairs).max(1));
            for (row, angles) in x.chunks_exact_mut(row_len).zip(angles) {
                let (cos, sin) = angles.split_at(n_pairs);
                for head in row.chunks_exact_mut(args.head_dim) {
                    rope(head, cos, sin, args.style);
                }
            }
        }
    });
}
