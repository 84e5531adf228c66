//! Sparse mixture of experts (Shazeer et al. 2017; Fedus et al. 2021): a router sends each token to a few of many gated
//! feed-forward blocks and adds up their outputs by its shares.
#![forbid(unsafe_code)]

use super::Source;
use super::linear::Linear;
use super::mlp::Dense;
use super::norm::NormLayer;
use super::workspace::Workspace;
use crate::backend::{
    Activation, Backend, Columns, Gating, Groups, MoeMatmul, MoeRoute, Pointwise, RowChange,
};

/// A block of experts, and perhaps one that every token takes.
pub struct Moe<B: Backend> {
    /// `[n_expert, n_embd]`.
    pub router: Linear<B>,
    /// Gate and values.
    pub gate_up: GateUp<B>,
    /// `[n_expert * n_embd, n_ff]`.
    pub down: Experts<B>,
    /// The projections before and after the experts, `[n_latent, n_embd]` and `[n_embd, n_latent]`: with them experts work on
    /// vectors of `n_latent` elements, `n_embd` at most.
    pub latent: Option<(Linear<B>, Linear<B>)>,
    /// The expert of all tokens.
    pub shared: Option<SharedExpert<B>>,
    /// Experts there are.
    pub n_expert: usize,
    /// Experts of a token.
    pub n_used: usize,
    /// Width of an expert's hidden layer.
    pub n_ff: usize,
    /// How shares are computed from the router's logits.
    pub gating: Gating,
    /// Added to the shares for choosing experts, `[n_expert]`.
    pub bias: Option<B::Weight>,
    /// Whether the shares of a token's experts are divided by their sum, and what is added to that sum.
    pub normalize: Option<f32>,
    /// Factor on the shares.
    pub scale: f32,
    /// Factors on each expert's share beside that, `[n_expert]`.
    pub scales: Option<B::Weight>,
    /// Restricts the choice to experts of some groups.
    pub groups: Option<Groups>,
    /// Whether the router reads the layer's input, before attention.
    pub early: bool,
    /// Whether shares multiply the experts' inputs, and not their outputs. As all before the activation is linear, it is enough
    /// to scale the gates and the outputs.
    pub scales_gates: bool,
}

/// The matrices of the first half of experts.
pub enum GateUp<B: Backend> {
    /// Each by itself.
    Apart {
        /// `[n_expert * n_ff, n_embd]`.
        gate: Experts<B>,
        /// `[n_expert * n_ff, n_embd]`.
        up: Experts<B>,
        /// On the gate.
        activation: Activation,
    },
    /// Of each expert the gate above the values: `[n_expert * 2 * n_ff, n_embd]`.
    Joint(Experts<B>, Activation),
    /// No gate: `[n_expert * n_ff, n_embd]`.
    Up(Experts<B>, Pointwise),
}

/// One linear layer of each expert.
pub struct Experts<B: Backend> {
    /// Their matrices, one below the other: `[n_expert * n_out, n_in]`.
    pub weight: B::Weight,
    /// `[n_expert, n_out]`.
    pub bias: Option<B::Weight>,
}

/// An expert that every token takes.
pub struct SharedExpert<B: Backend> {
    /// The projection whose sigmoid is its share, `[1, n_embd]`; `None`: its share is 1.
    pub gate_inp: Option<Linear<B>>,
    /// The expert.
    pub mlp: Dense<B>,
}

impl<B: Backend> Moe<B> {
    /// `ws.proj = moe(input)` for the first `n` rows.
    pub fn forward(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        if !self.early {
            self.route(input, backend, ws, n);
        }
        self.experts(input, backend, ws, n);
    }

    /// Chooses the experts of the first `n` rows by `input`.
    pub fn route(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let &Moe { n_expert, n_used, gating, normalize, scale, .. } = self;
        let x = input.of(&ws.norm, &ws.x);
        self.router.forward(backend, x, n, &mut ws.router);
        let (logits, route) = (&ws.router, &mut ws.route);
        let (bias, scales) = (self.bias.as_ref(), self.scales.as_ref());
        backend.moe_route(MoeRoute {
            logits,
            n,
            n_expert,
            n_used,
            gating,
            bias,
            normalize,
            scale,
            scales,
            groups: self.groups,
            route,
        });
    }

    /// Multiplies gates by the shares of their experts, where that is asked for.
    fn scale_gates(&self, backend: &mut B, gate: &mut B::Buffer, route: &B::Buffer, n: usize) {
        if self.scales_gates {
            backend.change_rows(gate, &RowChange::Share(route), n * self.n_used, self.n_ff);
        }
    }

    /// Computes `ws.proj` with the chosen experts.
    fn experts(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let &Moe { n_expert, n_used, .. } = self;
        let x = input.of(&ws.norm, &ws.x);
        let route = &ws.route;
        let multiply = |backend: &mut B, x: &B::Buffer, experts: &Experts<B>, reduce, out: &mut B::Buffer| {
            let (weight, bias) = (&experts.weight, experts.bias.as_ref());
            backend.moe_matmul(MoeMatmul { x, n, weight, bias, n_expert, n_used, route, reduce, out });
        };
        let n_hidden = n * n_used * self.n_ff;
        let inner = match &self.latent {
            Some((before, _)) => {
                before.forward(backend, x, n, &mut ws.shared);
                &ws.shared
            }
            None => x,
        };
        match &self.gate_up {
            GateUp::Apart { gate, up, activation } => {
                multiply(backend, inner, gate, false, &mut ws.gate);
                multiply(backend, inner, up, false, &mut ws.up);
                self.scale_gates(backend, &mut ws.gate, &ws.route, n);
                backend.act_mul(*activation, &mut ws.gate, &ws.up, n_hidden);
            }
            GateUp::Joint(gate_up, activation) => {
                multiply(backend, inner, gate_up, false, &mut ws.gate_up);
                let n_ff = self.n_ff;
                for (first, out) in [(0, &mut ws.gate), (n_ff, &mut ws.up)] {
                    let (x, n_cols, first) = (&ws.gate_up, (2 * n_ff, n_ff), (first, 0));
                    backend.copy_columns(Columns { x, out, n: n * n_used, n_cols, first, len: n_ff });
                }
                self.scale_gates(backend, &mut ws.gate, &ws.route, n);
                backend.act_mul(*activation, &mut ws.gate, &ws.up, n_hidden);
            }
            GateUp::Up(up, activation) => {
                multiply(backend, inner, up, false, &mut ws.gate);
                backend.activate(&mut ws.gate, *activation, n_hidden);
            }
        }
        match &self.latent {
            Some((_, after)) => {
                multiply(backend, &ws.gate, &self.down, true, &mut ws.shared);
                after.forward(backend, &ws.shared, n, &mut ws.proj);
            }
            None => multiply(backend, &ws.gate, &self.down, true, &mut ws.proj),
        }
        if let Some(shared) = &self.shared {
            shared.mlp.forward(backend, x, n, (&mut ws.gate, &mut ws.up), &mut ws.shared);
            let n_embd = ws.shape.n_embd;
            if let Some(gate_inp) = &shared.gate_inp {
                // The router's numbers are used up, and its buffer holds one per row.
                gate_inp.forward(backend, x, n, &mut ws.router);
                backend.sigmoid_gate(&mut ws.shared, &ws.router, n, n_embd);
            }
            backend.add(&mut ws.proj, &ws.shared, n * n_embd);
        }
    }
}

/// A block that every token takes beside experts, each with norms of its own (Gemma 4).
pub struct BesideMoe<B: Backend> {
    /// The block that every token takes.
    pub dense: Dense<B>,
    /// Norm of its output.
    pub dense_norm: NormLayer<B>,
    /// Norm of the residual stream, for the router.
    pub router_norm: NormLayer<B>,
    /// Norm of the residual stream, for the experts.
    pub moe_norm: NormLayer<B>,
    /// The experts.
    pub moe: Moe<B>,
    /// Norm of their output.
    pub post_norm: NormLayer<B>,
}

impl<B: Backend> BesideMoe<B> {
    /// `ws.proj` of the first `n` rows: the block applied to `ws.norm`, and the experts to `ws.x`.
    pub fn forward(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        self.dense.forward(backend, &ws.norm, n, (&mut ws.gate, &mut ws.up), &mut ws.proj);
        self.dense_norm.forward(backend, &ws.proj, None, n, &mut ws.shared);
        self.router_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        self.moe.route(Source::Norm, backend, ws, n);
        self.moe_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        self.moe.experts(Source::Norm, backend, ws, n);
        self.post_norm.forward(backend, &ws.proj, None, n, &mut ws.norm);
        std::mem::swap(&mut ws.proj, &mut ws.norm);
        backend.add(&mut ws.proj, &ws.shared, n * ws.shape.n_embd);
    }
}
