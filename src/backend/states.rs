//! Recurrent states: what a layer keeps of a sequence in a fixed number of elements, and the operations on them.
#![forbid(unsafe_code)]

use super::{Backend, Run};

/// Shape of a store of recurrent states. A slot has the states of all layers after one token of one sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateShape {
    /// f32 elements of each state in a slot.
    pub lens: Vec<usize>,
    /// Slots.
    pub n_slots: usize,
}

impl StateShape {
    /// Elements of a slot; `None` if they cannot be counted.
    pub fn slot_len(&self) -> Option<usize> {
        self.lens.iter().try_fold(0usize, |sum, &len| sum.checked_add(len))
    }

    /// Bytes of a slot, as many as can be counted.
    pub fn slot_bytes(&self) -> usize {
        self.slot_len().and_then(|len| len.checked_mul(size_of::<f32>())).unwrap_or(usize::MAX)
    }
}

/// A store of recurrent states, for code that copies and saves slots.
pub trait StateStore {
    /// Bytes of a slot.
    fn slot_bytes(&self) -> usize;
    /// Writes slot `slot` to `out`.
    fn read_slot(&self, slot: u32, out: &mut [u8]);
    /// Fills a slot with bytes that [`StateStore::read_slot`] wrote.
    fn write_slot(&mut self, slot: u32, bytes: &[u8]);
}

/// The slots that a [`Run`] reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRun {
    /// The state before the first row; `None`: zeros, as at the beginning of a text.
    pub from: Option<u32>,
    /// Where the state after the last row goes. It may be `from`.
    pub to: u32,
}

/// A state that is kept within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateCopy {
    /// The row of the batch whose state it is.
    pub row: u32,
    /// The slot it goes to, which nothing else in the batch reads or writes.
    pub to: u32,
}

/// The recurrent states of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatePlan<'a> {
    /// One for each run; none for models without recurrent layers.
    pub runs: &'a [StateRun],
    /// By ascending rows.
    pub copies: &'a [StateCopy],
}

impl<'a> StatePlan<'a> {
    /// The copies within the rows of `run`.
    pub fn copies_of(&self, run: &Run) -> &'a [StateCopy] {
        let before = |end: usize| self.copies.partition_point(|copy| (copy.row as usize) < end);
        &self.copies[before(run.first)..before(run.first + run.len)]
    }
}

/// Arguments of [`Backend::causal_conv`]: a convolution over time in each channel by itself.
///
/// `out[t][c] = Σ_j weight[c][j] · x[t - (len - 1) + j][c] + bias[c]`. Rows before the run come from its state: the last `len -
/// 1` rows, `[len - 1, n_channels]`, the oldest first.
pub struct CausalConv<'a, B: Backend> {
    /// The states to read and write.
    pub states: &'a mut B::States,
    /// Which of a slot's states.
    pub state: usize,
    /// `[n, n_channels]`.
    pub x: &'a B::Buffer,
    /// Channels.
    pub n_channels: usize,
    /// Rows that an output sees, its own included; at least 1.
    pub len: usize,
    /// `[n_channels, len]`.
    pub weight: &'a B::Weight,
    /// `[n_channels]`.
    pub bias: Option<&'a B::Weight>,
    /// `[n, n_channels]`.
    pub out: &'a mut B::Buffer,
}

/// What a head of [`Backend::scan`] learns from a token, and how fast.
pub enum ScanRule<'a, B: Backend> {
    /// The gated delta rule (Yang et al. 2024). Queries and keys are normalised first: each is divided by the root of its sum of
    /// squares plus 1e-6, and the query by the root of `k_dim` too.
    Delta {
        /// The decay.
        pace: Pace<'a, B>,
        /// `[n, n_head]`: its sigmoid is the rate.
        rate: &'a B::Buffer,
    },
    /// Mamba-2 (Dao and Gu 2024): the rate is the time step.
    TimeStep {
        /// The decay, and the rate.
        pace: Pace<'a, B>,
        /// `[n_head]`: the share of the value that is added to the output.
        skip: &'a B::Weight,
    },
    /// Mamba (Gu and Dao 2023): as `TimeStep`, but each element of a state has a decay of its own. Values have one element, and there
    /// is one query and one key for all heads.
    Selective {
        /// The decays, and the rate.
        pace: Pace<'a, B>,
        /// `[n_head]`: as of `TimeStep`.
        skip: &'a B::Weight,
    },
    /// RWKV-7 (Peng et al. 2025): [`UnlearnStep`](crate::kernels::UnlearnStep). Queries, keys and values have as many heads.
    Unlearn {
        /// Factors on the rows of a state, `[n, n_head, k_dim]`.
        decay: &'a B::Buffer,
        /// The keys to unlearn, `[n, n_head, k_dim]`.
        known: &'a B::Buffer,
        /// The factors of those keys, `[n, n_head, k_dim]`.
        rate: &'a B::Buffer,
    },
}

/// The decay of a head's state: `exp(a · time step)`, where the time step is `softplus(step + bias)` and at least `least`.
pub struct Pace<'a, B: Backend> {
    /// `[n, n_head]`.
    pub step: &'a B::Buffer,
    /// `[n_head]`.
    pub bias: &'a B::Weight,
    /// The shortest time step.
    pub least: f32,
    /// `[n_head]`, below 0; of [`ScanRule::Selective`] `[n_head, k_dim]`.
    pub a: &'a B::Weight,
}

/// Arguments of [`Backend::scan`]: [`ScanStep`](crate::kernels::ScanStep) from one token to the next, in each head by itself.
///
/// A head's state is the matrix `[k_dim, v_dim]`, those of all heads one after another.
pub struct Scan<'a, B: Backend> {
    /// The states to read and write.
    pub states: &'a mut B::States,
    /// Which of a slot's states.
    pub state: usize,
    /// Queries, keys and values, `[n, 2 * n_head_k * k_dim + n_head * v_dim]`. Normalising happens in place.
    pub qkv: &'a mut B::Buffer,
    /// Where a row's queries, keys and values begin.
    pub first: [usize; 3],
    /// What is learnt.
    pub rule: ScanRule<'a, B>,
    /// Heads: of values, and of states.
    pub n_head: usize,
    /// Heads of queries and keys, of which `n_head` is a multiple.
    pub n_head_k: usize,
    /// Length of a query and of a key.
    pub k_dim: usize,
    /// Length of a value.
    pub v_dim: usize,
    /// Whether head `h` reads with query and key `h / (n_head / n_head_k)`; otherwise `h % n_head_k`.
    pub grouped: bool,
    /// `[n, n_head * v_dim]`.
    pub out: &'a mut B::Buffer,
}

impl<B: Backend> Scan<'_, B> {
    /// Length of a row of `qkv`.
    pub fn row_len(&self) -> usize {
        2 * self.n_head_k * self.k_dim + self.n_head * self.v_dim
    }

    /// Which query and key `head` reads with.
    pub fn head_k(&self, head: usize) -> usize {
        if self.grouped { head / (self.n_head / self.n_head_k) } else { head % self.n_head_k }
    }
}
