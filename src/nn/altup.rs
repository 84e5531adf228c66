//! Alternating updates (Baykal et al. 2023, arXiv:2301.13310) as in Gemma 3n: the residual stream is several vectors wide. A
//! layer computes with one of them; all are predicted before it and corrected after it. Beside attention lies a layer of low rank
//! (LAuReL, Menghani et al. 2024, arXiv:2411.07501).
#![forbid(unsafe_code)]

use super::linear::Linear;
use super::norm::NormLayer;
use super::per_layer::PerLayerInput;
use super::workspace::Workspace;
use crate::backend::{Backend, Columns, Factors, Mix, RowChange};

/// The least mean square that a stream's length is divided by.
const LEAST: f32 = 1e-5;

/// The streams, and the layers that make them from the embedding and merge them at the end.
pub struct AltUp<B: Backend> {
    /// From the embedding to all streams but the first, `[n_embd, n_embd]` each.
    pub spread: Vec<Linear<B>>,
    /// From all streams but the first, `[n_embd, n_embd]` each.
    pub gather: Vec<Linear<B>>,
}

impl<B: Backend> AltUp<B> {
    /// Fills the streams from `ws.x`; each has its length.
    pub fn spread(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let (n_embd, n_all) = (ws.shape.n_embd, (1 + self.spread.len()) * ws.shape.n_embd);
        let [streams, _] = &mut ws.streams;
        let mut place = |backend: &mut B, x: &B::Buffer, i: usize| {
            let (n_cols, first) = ((n_embd, n_all), (0, i * n_embd));
            backend.copy_columns(Columns { x, out: &mut *streams, n, n_cols, first, len: n_embd });
        };
        place(backend, &ws.x, 0);
        for (i, projection) in self.spread.iter().enumerate() {
            projection.forward(backend, &ws.x, n, &mut ws.proj);
            let change = RowChange::AsLongAs { like: &ws.x, least: LEAST };
            backend.change_rows(&mut ws.proj, &change, n, n_embd);
            place(backend, &ws.proj, i + 1);
        }
    }

    /// Sets `ws.x` to the mean of the streams, each as long as the first.
    pub fn gather(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let n_embd = ws.shape.n_embd;
        let n_cols = ((1 + self.gather.len()) * n_embd, n_embd);
        take(backend, ws, 0, 0, n);
        let (x, first) = (&ws.streams[0], (0, 0));
        backend.copy_columns(Columns { x, out: &mut ws.beside, n, n_cols, first, len: n_embd });
        for (i, projection) in self.gather.iter().enumerate() {
            let first = ((i + 1) * n_embd, 0);
            backend.copy_columns(Columns { x, out: &mut ws.norm, n, n_cols, first, len: n_embd });
            projection.forward(backend, &ws.norm, n, &mut ws.proj);
            let change = RowChange::AsLongAs { like: &ws.beside, least: LEAST };
            backend.change_rows(&mut ws.proj, &change, n, n_embd);
            backend.add(&mut ws.x, &ws.proj, n * n_embd);
        }
        backend.scale(&mut ws.x, 1.0 / (1 + self.gather.len()) as f32, n * n_embd);
    }
}

/// Copies stream `i` of `ws.streams[of]` to `ws.x`.
fn take<B: Backend>(backend: &mut B, ws: &mut Workspace<B>, of: usize, i: usize, n: usize) {
    let n_embd = ws.shape.n_embd;
    backend.copy_columns(Columns {
        x: &ws.streams[of],
        out: &mut ws.x,
        n,
        n_cols: (ws.shape.n_streams * n_embd, n_embd),
        first: (i * n_embd, 0),
        len: n_embd,
    });
}

/// The parameters of a layer. `n_streams` vectors make the stream.
pub struct AltUpLayer<B: Backend> {
    /// The stream that the layer computes with.
    pub active: usize,
    /// Norm before the router.
    pub router_norm: NormLayer<B>,
    /// `[n_streams, n_embd]`.
    pub router: Linear<B>,
    /// From the router's result: the share of each stream in each, `[n_streams * n_streams, n_streams]`.
    pub predict: Linear<B>,
    /// From the router's result: the share of the layer's output in each stream, `[n_streams, n_streams]`; with ones as its bias.
    pub correct: Linear<B>,
    /// Gain of the input of the per-layer embedding's gate, `[n_embd]`.
    pub gain: Option<B::Weight>,
    /// `[rank, n_embd]`.
    pub laurel_left: Linear<B>,
    /// `[n_embd, rank]`.
    pub laurel_right: Linear<B>,
    /// Norm of that layer's output.
    pub laurel_norm: NormLayer<B>,
    /// The per-layer embedding.
    pub input: PerLayerInput<B>,
    /// The shares of the per-layer embedding's output in all streams but the first, `[n_streams]`.
    pub shares: Vec<f32>,
}

impl<B: Backend> AltUpLayer<B> {
    /// Predicts the streams, sets `ws.x` to the one that the layer computes with, and `ws.norm` to its norm by `norm`.
    pub fn begin(&self, norm: Option<&NormLayer<B>>, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let (n_streams, n_embd) = (ws.shape.n_streams, ws.shape.n_embd);
        take(backend, ws, 0, self.active, n);
        self.route(&self.predict, backend, ws, n);
        let [streams, predicted] = &mut ws.streams;
        let len = n_streams * n_embd;
        let (x, out) = (&*streams, &mut *predicted);
        backend.copy_columns(Columns { x, out, n, n_cols: (len, len), first: (0, 0), len });
        backend.mix(Mix {
            x: streams,
            out: predicted,
            factors: Factors::OfRows(&ws.up),
            n,
            n_parts: (n_streams, n_streams),
            len: n_embd,
        });
        take(backend, ws, 1, self.active, n);
        if let Some(norm) = norm {
            norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        }
        self.laurel_left.forward(backend, &ws.norm, n, &mut ws.gate);
        self.laurel_right.forward(backend, &ws.gate, n, &mut ws.proj);
        self.laurel_norm.forward(backend, &ws.proj, None, n, &mut ws.beside);
        backend.add(&mut ws.beside, &ws.norm, n * n_embd);
    }

    /// Adds the layer of low rank to `ws.x`, to which attention was added.
    pub fn add_laurel(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let len = n * ws.shape.n_embd;
        backend.add(&mut ws.x, &ws.beside, len);
        backend.scale(&mut ws.x, std::f32::consts::FRAC_1_SQRT_2, len);
    }

    /// Corrects the streams by the layer's output, `ws.x`, and adds the output of the per-layer embedding.
    pub fn end(&self, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        let (n_streams, n_embd) = (ws.shape.n_streams, ws.shape.n_embd);
        self.route(&self.correct, backend, ws, n);
        let (n_cols, first) = ((n_streams * n_embd, n_embd), (self.active * n_embd, 0));
        let x = &ws.streams[1];
        backend.copy_columns(Columns { x, out: &mut ws.norm, n, n_cols, first, len: n_embd });
        backend.scale(&mut ws.norm, -1.0, n * n_embd);
        backend.add(&mut ws.norm, &ws.x, n * n_embd);
        let mix = |backend: &mut B, x: &B::Buffer, factors: Factors<'_, B>, out: &mut B::Buffer| {
            backend.mix(Mix { x, out, factors, n, n_parts: (1, n_streams), len: n_embd });
        };
        mix(backend, &ws.norm, Factors::OfRows(&ws.up), &mut ws.streams[1]);
        take(backend, ws, 1, self.active, n);
        if let Some(gain) = &self.gain {
            backend.change_rows(&mut ws.x, &RowChange::Gain(gain), n, n_embd);
        }
        self.input.forward(backend, ws, n);
        mix(backend, &ws.norm, Factors::Same(&self.shares), &mut ws.streams[1]);
        ws.streams.swap(0, 1);
    }

    /// Sets `ws.up` to `of` applied to the router's result for `ws.x`.
    fn route(&self, of: &Linear<B>, backend: &mut B, ws: &mut Workspace<B>, n: usize) {
        self.router_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
        self.router.forward(backend, &ws.norm, n, &mut ws.gate);
        backend.softcap(&mut ws.gate, 1.0, n * ws.shape.n_streams);
        of.forward(backend, &ws.gate, n, &mut ws.up);
    }
}
