//! The step of a linear recurrence: a matrix that forgets, learns from a key and a value, and is read by a query.
#![forbid(unsafe_code)]

/// One token of one head. The state is a matrix `[k_dim, v_dim]`.
///
/// With `S` the state, first multiplied by `decay`: `S[i][j] += k[i] * u[j]`, then `out[j] = Σ_i q[i] * S[i][j]`. What is learnt is
/// `u[j] = rate * v[j]` (Mamba-2: Dao and Gu 2024, arXiv:2405.21060), or with `delta` what the state does not know yet,
/// `u[j] = rate * (v[j] - Σ_i k[i] * S[i][j])` (the gated delta rule: Yang et al. 2024, arXiv:2412.06464).
#[derive(Debug, Clone, Copy)]
pub struct ScanStep<'a> {
    /// `[k_dim]`.
    pub q: &'a [f32],
    /// `[k_dim]`.
    pub k: &'a [f32],
    /// `[v_dim]`.
    pub v: &'a [f32],
    /// Factor on the state before anything else.
    pub decay: f32,
    /// Factor on what is learnt.
    pub rate: f32,
    /// Whether the rule is the delta rule.
    pub delta: bool,
}
