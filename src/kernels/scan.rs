//! The steps of linear recurrences: a state that forgets, learns from a key and a value, and is read by a query.
#![forbid(unsafe_code)]

/// One token of one head. The state is a matrix `[k_dim, v_dim]`.
///
/// The state `S` is first multiplied by `decay`. Then `S[i][j] += k[i] * u[j]`, and `out[j] = Σ_i q[i] * S[i][j]`. The learnt
/// value is `u[j] = rate * v[j]` (Mamba-2: Dao and Gu 2024, arXiv:2405.21060), or with `delta` what the state does not have yet,
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
    /// Factor on the learnt value.
    pub rate: f32,
    /// Whether the rule is the delta rule.
    pub delta: bool,
}

/// One token of some channels, each with `k_dim` elements as its state, one after another.
///
/// With `S` the state of channel `c`: `S[i]` becomes `exp(a[c][i] * step[c]) * S[i] + k[i] * step[c] * v[c]`, and then
/// `out[c] = Σ_i q[i] * S[i]` (Gu and Dao 2023, arXiv:2312.00752).
#[derive(Debug, Clone, Copy)]
pub struct SelectiveStep<'a> {
    /// `[k_dim]`.
    pub q: &'a [f32],
    /// `[k_dim]`.
    pub k: &'a [f32],
    /// `[n]`.
    pub v: &'a [f32],
    /// Time steps, `[n]`.
    pub step: &'a [f32],
    /// `[n, k_dim]`.
    pub a: &'a [f32],
}

/// One token of one head whose state, a matrix `[k_dim, v_dim]`, forgets row by row, and unlearns one key before it learns
/// another.
///
/// The state `S[i][j]` becomes `decay[i] * S[i][j] - rate[i] * Σ_m known[m] * S[m][j] + k[i] * v[j]`, and then `out[j] = Σ_i q[i]
/// * S[i][j]` (RWKV-7: Peng et al. 2025, arXiv:2503.14456).
#[derive(Debug, Clone, Copy)]
pub struct UnlearnStep<'a> {
    /// `[k_dim]`.
    pub q: &'a [f32],
    /// `[k_dim]`.
    pub k: &'a [f32],
    /// `[v_dim]`.
    pub v: &'a [f32],
    /// `[k_dim]`.
    pub decay: &'a [f32],
    /// `[k_dim]`.
    pub known: &'a [f32],
    /// `[k_dim]`.
    pub rate: &'a [f32],
}
