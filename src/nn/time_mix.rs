//! The two blocks of RWKV-7 (Peng et al. 2025, arXiv:2503.14456): a recurrence in each head, whose state forgets row by row and
//! unlearns before it learns, and a feed-forward block. Both read each token mixed with the one before it.
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Source};
use crate::backend::{
    Activation, Backend, CausalConv, Columns, Factors, Mix, Pointwise, RowChange, Scan, ScanRule,
};

/// Mixes a token with the one before it.
pub struct TokenShift<B: Backend> {
    /// A convolution of two tokens that gives the difference of the token before and this one: 1 and -1 for each element,
    /// `[n_embd, 2]`.
    pub difference: B::Weight,
}

impl<B: Backend> TokenShift<B> {
    /// `out = before - x` of each token, whose last row is state `state`.
    fn difference(
        &self,
        backend: &mut B,
        x: &B::Buffer,
        (state, n_embd): (usize, usize),
        states: &mut B::States,
        out: &mut B::Buffer,
    ) {
        let (weight, bias) = (&self.difference, None);
        backend.causal_conv(CausalConv { states, state, x, n_channels: n_embd, len: 2, weight, bias, out });
    }
}

/// `out = x + difference · share`, element by element.
fn mixed<B: Backend>(
    backend: &mut B,
    (x, difference): (&B::Buffer, &B::Buffer),
    share: &B::Weight,
    (n, n_embd): (usize, usize),
    out: &mut B::Buffer,
) {
    copy(backend, difference, (n, n_embd), out);
    backend.change_rows(out, &RowChange::Gain(share), n, n_embd);
    backend.add(out, x, n * n_embd);
}

/// `out = x`.
fn copy<B: Backend>(backend: &mut B, x: &B::Buffer, (n, len): (usize, usize), out: &mut B::Buffer) {
    backend.copy_columns(Columns { x, out, n, n_cols: (len, len), first: (0, 0), len });
}

/// Two matrices with few elements between them, and the function there.
pub struct LowRank<B: Backend> {
    /// `[rank, n_embd]`.
    pub down: Linear<B>,
    /// `[n_embd, rank]`.
    pub up: Linear<B>,
    /// Elements between them.
    pub rank: usize,
}

/// The recurrence, bound to its weights.
pub struct TimeMix<B: Backend> {
    /// What mixes neighbouring tokens.
    pub shift: TokenShift<B>,
    /// The share of the token before in the inputs of queries, decays, keys, values, rates and gates, `[n_embd]` each.
    pub shares: [B::Weight; 6],
    /// Queries, keys and values, `[n_embd, n_embd]`.
    pub qkv: [Linear<B>; 3],
    /// The decays, with a hyperbolic tangent between the matrices, and a bias.
    pub decay: LowRank<B>,
    /// The rates, with a bias.
    pub rate: LowRank<B>,
    /// The share of the first layer's values that replaces the layer's own, with a bias; `None` in the first layer.
    pub first_values: Option<LowRank<B>>,
    /// Output gates, in most models.
    pub gate: Option<LowRank<B>>,
    /// Factors on keys, which give the keys to unlearn, `[n_embd]`.
    pub known: B::Weight,
    /// Normalises the key to unlearn of each head to length 1.
    pub known_norm: NormLayer<B>,
    /// `p` and `1 - p`: keys are multiplied by `1 - p + p · rate`, `[n_embd]` each.
    pub key_rate: [B::Weight; 2],
    /// Norms of the heads' outputs, `[n_head, head_dim]`, in most models.
    pub norm: Option<NormLayer<B>>,
    /// Factors in the product of a token's own query and key, which scales its added value, `[n_embd]`.
    pub own: B::Weight,
    /// `[n_embd, n_embd]`.
    pub output: Linear<B>,
    /// Heads.
    pub n_head: usize,
    /// Length of a head.
    pub head_dim: usize,
}

/// Factor on the sigmoid of a decay's logit: `-e^-0.5`, as the model's authors write it.
const DECAY: f32 = -0.606531;

impl<B: Backend> TimeMix<B> {
    /// Width of the residual stream.
    pub fn n_embd(&self) -> usize {
        self.n_head * self.head_dim
    }

    /// Width of the buffers that it works in.
    pub fn width(&self) -> usize {
        let ranks = [Some(&self.decay), Some(&self.rate), self.first_values.as_ref(), self.gate.as_ref()];
        ranks.into_iter().flatten().map(|low| low.rank).fold(3 * self.n_embd(), usize::max)
    }

    /// `ws.proj = time_mix(input)`. The recurrent layers before this one are `n_before`.
    pub fn forward(
        &self,
        n_before: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        states: &mut B::States,
        batch: &Batch<'_>,
    ) {
        let (n, n_embd, heads) = (batch.tokens.len(), self.n_embd(), (self.n_head, self.head_dim));
        let (all, of_heads) = ((n, n_embd), (n * heads.0, heads.1));
        let x = input.of(&ws.norm, &ws.x);
        let ([qkv, a, b], [difference, decay, known, rate, out, first, mix]) =
            (&mut ws.mix, &mut ws.time_mix);
        self.shift.difference(backend, x, (2 * n_before, n_embd), states, difference);
        let difference = &*difference;
        let mut put = |backend: &mut B, x: &B::Buffer, part: usize| {
            let (n_cols, first) = ((n_embd, 3 * n_embd), (0, part * n_embd));
            backend.copy_columns(Columns { x, out: &mut *qkv, n, n_cols, first, len: n_embd });
        };
        mixed(backend, (x, difference), &self.shares[0], all, mix);
        self.qkv[0].forward(backend, mix, n, a);
        put(backend, a, 0);

        mixed(backend, (x, difference), &self.shares[1], all, mix);
        self.decay.down.forward(backend, mix, n, a);
        backend.softcap(a, 1.0, n * self.decay.rank);
        self.decay.up.forward(backend, a, n, decay);
        backend.activate(decay, Pointwise::Sigmoid, n * n_embd);
        backend.scale(decay, DECAY, n * n_embd);
        backend.activate(decay, Pointwise::Exp, n * n_embd);

        mixed(backend, (x, difference), &self.shares[4], all, mix);
        self.rate.down.forward(backend, mix, n, a);
        self.rate.up.forward(backend, a, n, rate);
        backend.activate(rate, Pointwise::Sigmoid, n * n_embd);

        mixed(backend, (x, difference), &self.shares[2], all, mix);
        self.qkv[1].forward(backend, mix, n, a);
        copy(backend, a, all, b);
        backend.change_rows(b, &RowChange::Gain(&self.known), n, n_embd);
        self.known_norm.forward(backend, b, None, of_heads.0, known);
        copy(backend, rate, all, mix);
        backend.change_rows(mix, &RowChange::Gain(&self.key_rate[0]), n, n_embd);
        backend.add_bias(mix, &self.key_rate[1], n);
        backend.mul(a, mix, n * n_embd);
        put(backend, a, 1);
        backend.mul(rate, known, n * n_embd);

        mixed(backend, (x, difference), &self.shares[3], all, mix);
        self.qkv[2].forward(backend, mix, n, a);
        match &self.first_values {
            None => copy(backend, a, all, first),
            Some(share) => {
                share.down.forward(backend, mix, n, b);
                share.up.forward(backend, b, n, out);
                copy(backend, first, all, mix);
                let (factors, n_parts) = (Factors::Same(&[-1.0]), (1, 1));
                backend.mix(Mix { x: a, out: &mut *mix, factors, n, n_parts, len: n_embd });
                backend.act_mul(Activation::Sigmoid, out, mix, n * n_embd);
                backend.add(a, out, n * n_embd);
            }
        }
        put(backend, a, 2);

        backend.scan(Scan {
            states,
            state: 2 * n_before + 1,
            qkv: &mut *qkv,
            first: [0, n_embd, 2 * n_embd],
            rule: ScanRule::Unlearn { decay, known, rate },
            n_head: heads.0,
            n_head_k: heads.0,
            k_dim: heads.1,
            v_dim: heads.1,
            grouped: true,
            out: &mut *out,
        });
        match &self.norm {
            Some(norm) => norm.forward(backend, out, None, of_heads.0, mix),
            None => copy(backend, out, all, mix),
        }
        let get = |backend: &mut B, part: usize, out: &mut B::Buffer| {
            let (n_cols, first) = ((3 * n_embd, n_embd), (part * n_embd, 0));
            backend.copy_columns(Columns { x: &*qkv, out, n, n_cols, first, len: n_embd });
        };
        get(backend, 0, a);
        get(backend, 1, b);
        backend.mul(a, b, n * n_embd);
        backend.change_rows(a, &RowChange::Gain(&self.own), n, n_embd);
        get(backend, 2, b);
        backend.change_rows(b, &RowChange::TimesSum(a), of_heads.0, of_heads.1);
        backend.add(mix, b, n * n_embd);
        if let Some(gate) = &self.gate {
            mixed(backend, (x, difference), &self.shares[5], all, out);
            gate.down.forward(backend, out, n, a);
            backend.activate(a, Pointwise::Sigmoid, n * gate.rank);
            gate.up.forward(backend, a, n, b);
            backend.mul(mix, b, n * n_embd);
        }
        self.output.forward(backend, mix, n, &mut ws.proj);
    }
}

/// The feed-forward block, bound to its weights.
pub struct ChannelMix<B: Backend> {
    /// What mixes neighbouring tokens.
    pub shift: TokenShift<B>,
    /// The share of the token before, `[n_embd]`.
    pub share: B::Weight,
    /// `[n_ff, n_embd]`.
    pub up: Linear<B>,
    /// `[n_embd, n_ff]`.
    pub down: Linear<B>,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the hidden layer.
    pub n_ff: usize,
}

impl<B: Backend> ChannelMix<B> {
    /// `ws.proj = channel_mix(input)`. The recurrent layers before this one are `n_before`.
    pub fn forward(
        &self,
        n_before: usize,
        input: Source,
        backend: &mut B,
        ws: &mut Workspace<B>,
        states: &mut B::States,
        batch: &Batch<'_>,
    ) {
        let (n, n_embd) = (batch.tokens.len(), self.n_embd);
        let x = input.of(&ws.norm, &ws.x);
        let ([difference, mix, hidden], state) = (&mut ws.mix, (2 * n_before, n_embd));
        self.shift.difference(backend, x, state, states, difference);
        mixed(backend, (x, &*difference), &self.share, (n, n_embd), mix);
        self.up.forward(backend, mix, n, hidden);
        backend.activate(hidden, Pointwise::ReluSquared, n * self.n_ff);
        self.down.forward(backend, hidden, n, &mut ws.proj);
    }
}
