//! Sparse mixture of experts (Shazeer et al. 2017; Fedus et al. 2021): a router sends each token to a few of many
//! gated feed-forward blocks and adds up what they give by its shares.
#![forbid(unsafe_code)]

use super::Source;
use super::linear::Linear;
use super::mlp::GatedMlp;
use super::workspace::Workspace;
use crate::backend::{Activation, Backend, Gating, MoeMatmul, MoeRoute, Product};

/// A block of experts with SiLU gates, and perhaps one that every token takes.
pub struct Moe<B: Backend> {
    /// `[n_expert, n_embd]`.
    pub router: B::Weight,
    /// `[n_expert * n_ff, n_embd]`.
    pub gate: B::Weight,
    /// `[n_expert * n_ff, n_embd]`.
    pub up: B::Weight,
    /// `[n_expert * n_embd, n_ff]`.
    pub down: B::Weight,
    /// The expert of all tokens.
    pub shared: Option<SharedExpert<B>>,
    /// Experts there are.
    pub n_expert: usize,
    /// Experts of a token.
    pub n_used: usize,
    /// Width of an expert's hidden layer.
    pub n_ff: usize,
    /// What makes shares of the router's logits.
    pub gating: Gating,
    /// Added to the shares where experts are chosen, `[n_expert]`.
    pub bias: Option<B::Weight>,
    /// Whether the shares of a token's experts are divided by their sum, and what is added to that sum.
    pub normalize: Option<f32>,
    /// Factor on the shares.
    pub scale: f32,
}

/// An expert that every token takes, weighted by a sigmoid of its own.
pub struct SharedExpert<B: Backend> {
    /// `[1, n_embd]`.
    pub gate_inp: Linear<B>,
    /// The expert.
    pub mlp: GatedMlp<B>,
}

impl<B: Backend> Moe<B> {
    /// `ws.proj = moe(input)` for the first `n` rows.
    pub fn forward(&self, input: Source, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let &Moe { n_expert, n_used, gating, normalize, scale, .. } = self;
        let x = match input {
            Source::Norm => &ws.norm,
            Source::Residual => &ws.x,
        };
        backend.matmul(x, n, Product { weight: &self.router, out: &mut ws.router });
        let (logits, route) = (&ws.router, &mut ws.route);
        let bias = self.bias.as_ref();
        backend.moe_route(MoeRoute { logits, n, n_expert, n_used, gating, bias, normalize, scale, route });
        let route = &ws.route;
        for (weight, out) in [(&self.gate, &mut ws.gate), (&self.up, &mut ws.up)] {
            backend.moe_matmul(MoeMatmul { x, n, weight, n_expert, n_used, route, reduce: false, out });
        }
        backend.act_mul(Activation::Silu, &mut ws.gate, &ws.up, n * n_used * self.n_ff);
        let (x_down, weight, out) = (&ws.gate, &self.down, &mut ws.proj);
        backend.moe_matmul(MoeMatmul { x: x_down, n, weight, n_expert, n_used, route, reduce: true, out });
        if let Some(shared) = &self.shared {
            // The router's numbers are used up, and its buffer has room for one per row.
            shared.gate_inp.forward(backend, x, n, &mut ws.router);
            shared.mlp.forward(backend, x, n, (&mut ws.gate, &mut ws.up), &mut ws.shared);
            let n_embd = ws.shape.n_embd;
            backend.sigmoid_gate(&mut ws.shared, &ws.router, n, n_embd);
            backend.add(&mut ws.proj, &ws.shared, n * n_embd);
        }
    }
}
