//! The operations of a mixture of experts.
#![forbid(unsafe_code)]

use super::Backend;

/// How an expert's share is computed from its logit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Its sigmoid.
    Sigmoid,
    /// Softmax over the expert and those near it, without the experts chosen before (SparseMixer: Liu et al. 2023,
    /// arXiv:2310.00811). An expert `j` is near `i` where `(x_i - x_j) / max(|x_j|, x_i)` is [`Gating::NEAR`] at most. It allows
    /// neither a bias nor groups.
    SparseMixer,
}

impl Gating {
    /// Twice what the authors of Phi-3.5-MoE trained with.
    pub const NEAR: f32 = 0.02;
}

/// Groups of neighbouring experts. Experts are chosen from the groups with the largest scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Groups, [`Groups::MOST`] at most; the number of experts is a multiple of it.
    pub n: usize,
    /// Groups of a row.
    pub n_used: usize,
    /// Whether a group's score is the sum of its two largest members; otherwise it is the largest.
    pub two: bool,
}

impl Groups {
    /// The most groups.
    pub const MOST: usize = 64;
}

/// Arguments of [`Backend::moe_route`]: chooses from `logits` the `n_used` experts of each row with the largest shares. Among
/// equal ones the lower number goes first.
pub struct MoeRoute<'a, B: Backend> {
    /// `[n, n_expert]`.
    pub logits: &'a B::Buffer,
    /// Rows.
    pub n: usize,
    /// Experts there are, at most 2^24.
    pub n_expert: usize,
    /// Experts a row goes to.
    pub n_used: usize,
    /// How shares are computed from logits.
    pub gating: Gating,
    /// Added to the shares for choosing experts, and not to the shares in `route`, `[n_expert]`.
    pub bias: Option<&'a B::Weight>,
    /// Whether the shares of the chosen are divided by their sum, and what is added to that sum.
    pub normalize: Option<f32>,
    /// Factor on the shares.
    pub scale: f32,
    /// Factors on each expert's share beside that, `[n_expert]`.
    pub scales: Option<&'a B::Weight>,
    /// Restricts the choice to experts of some groups.
    pub groups: Option<Groups>,
    /// `[n, n_used, 2]`: the expert's number (exact as f32) and its share.
    pub route: &'a mut B::Buffer,
}

/// Arguments of [`Backend::moe_matmul`]. A slot is one chosen expert of a row: slot `row * n_used + j`.
pub struct MoeMatmul<'a, B: Backend> {
    /// `[n, n_cols]`, or `[n * n_used, n_cols]` with `reduce`.
    pub x: &'a B::Buffer,
    /// Rows (not slots).
    pub n: usize,
    /// Matrices of all experts, one below the other: `[n_expert * n_rows, n_cols]`.
    pub weight: &'a B::Weight,
    /// Added to the product with each expert's matrix, `[n_expert, n_rows]`.
    pub bias: Option<&'a B::Weight>,
    /// Experts there are.
    pub n_expert: usize,
    /// Experts of a row.
    pub n_used: usize,
    /// What [`Backend::moe_route`] wrote.
    pub route: &'a B::Buffer,
    /// `false`: each row times the matrices of its experts. `true`: each slot times its expert's matrix, and the slots
    /// of a row added up by their shares.
    pub reduce: bool,
    /// `[n * n_used, n_rows]`, or `[n, n_rows]` with `reduce`.
    pub out: &'a mut B::Buffer,
}
