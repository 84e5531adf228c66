//! [`CpuBackend`]: every operation as a plain loop over the scalar kernels, on the caller's thread. This is the
//! definition that every other backend is compared with; it is written to be read, not to be fast.
#![forbid(unsafe_code)]

mod recurrent;
mod route;

use std::ops::Deref;

pub(super) use recurrent::{normalise, softplus};
pub(super) use route::{Routing, route_row};

use super::arg_max;
use super::host::{HostKv, HostPass, HostStates, HostWeight, Part, Zeroed};
use super::rows::{Mix, RowChange, change_row, mix_row};
use super::{
    Activation, Attention, Backend, CausalConv, Columns, DistanceBias, Embed, HeadDims, KvAppend, KvHeads,
    KvRows, KvShape, Limits, MoeMatmul, MoeRoute, Norm, Pass, Pointwise, Product, Rope, Run, Scan, Sees,
    StateShape, WeightSource,
};
use crate::error::Result;
use crate::kernels::scalar::SCALAR;
use crate::kernels::{self, AttnState, AttnTile, Kernels};
use crate::memory::Memory;
use crate::quant::{Dot, Q8Block};

/// The scalar backend.
pub struct CpuBackend {
    kernels: &'static Kernels,
    /// One activation row, quantized.
    x_q8: Vec<Q8Block>,
    /// One weight row, dequantized; also the cosines and sines of one position.
    row: Vec<f32>,
    /// One weight row as it is in the file.
    row_bytes: Vec<u8>,
    /// The output of one expert for one row.
    expert_out: Vec<f32>,
    /// Two attention states of one query.
    attention: Vec<f32>,
    /// The pass under way.
    pass: HostPass,
    /// Where buffers are allocated.
    memory: Memory,
}

impl CpuBackend {
    /// A scalar backend; large buffers come from `memory`.
    pub fn new(memory: Memory) -> CpuBackend {
        CpuBackend {
            kernels: &SCALAR,
            x_q8: Vec::new(),
            row: Vec::new(),
            row_bytes: Vec::new(),
            expert_out: Vec::new(),
            attention: Vec::new(),
            pass: HostPass::default(),
            memory,
        }
    }
}

impl CpuBackend {
    /// `out[i]` = row `first + i` of `w` times `x`, for all of `out`.
    fn multiply(&mut self, w: &HostWeight, first: usize, x: &[f32], out: &mut [f32]) {
        match self.kernels.dot[w.format as usize] {
            Dot::F32 => {
                let row = &mut self.row[..w.n_cols];
                for (i, out) in out.iter_mut().enumerate() {
                    (w.format.info().dequantize)(w.row(first + i), row);
                    *out = (self.kernels.dot_f32)(row, x);
                }
            }
            Dot::Q8(dot) => {
                let x_q8 = &mut self.x_q8[..w.n_cols / 32];
                (self.kernels.quantize_activations)(x, x_q8);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = dot(w.row(first + i), x_q8);
                }
            }
        }
    }
}

impl Backend for CpuBackend {
    type Buffer = Zeroed<f32>;
    type Weight = HostWeight;
    type Kv = HostKv;
    type States = HostStates;

    fn upload(&mut self, src: &WeightSource<'_>) -> Result<HostWeight> {
        HostWeight::new(src, &self.memory)
    }

    fn alloc(&self, len: usize) -> Result<Zeroed<f32>> {
        self.memory.zeroed(len, "an activation buffer")
    }

    fn alloc_kv(&self, shape: &KvShape) -> Result<HostKv> {
        HostKv::new(shape, &self.memory)
    }

    fn alloc_states(&self, shape: &StateShape) -> Result<HostStates> {
        HostStates::new(shape, &self.memory)
    }

    fn reserve(&mut self, limits: &Limits) -> Result<()> {
        self.x_q8.resize(limits.n_cols.div_ceil(32), Q8Block::ZERO);
        self.row.resize(limits.n_cols.max(limits.head_dim), 0.0);
        self.row_bytes.resize(limits.n_cols * size_of::<f64>(), 0);
        self.attention.resize(2 * AttnState::len(1, HeadDims::widest(limits.head_dim)), 0.0);
        self.pass = HostPass::new(limits)?;
        Ok(())
    }

    fn write(&mut self, dst: &mut Zeroed<f32>, offset: usize, src: &[f32]) {
        dst[offset..offset + src.len()].copy_from_slice(src);
    }

    fn read(&mut self, src: &Zeroed<f32>, offset: usize, dst: &mut [f32]) {
        dst.copy_from_slice(&src[offset..offset + dst.len()]);
    }

    fn finish(&mut self) -> Result<()> {
        self.pass.stop.end()
    }

    fn begin(&mut self, pass: &Pass<'_>) -> Result<()> {
        self.pass.begin(pass);
        Ok(())
    }

    fn embed(&mut self, args: Embed<'_, Self>) -> Result<()> {
        let table = args.table;
        for (&i, out) in args.rows.iter().zip(args.out.chunks_exact_mut(table.n_cols)) {
            (table.format.info().dequantize)(table.read_row(i as usize, &mut self.row_bytes)?, out);
        }
        Ok(())
    }

    fn matmul(&mut self, x: &Zeroed<f32>, n: usize, product: Product<'_, Self>) {
        let w = product.weight;
        for t in 0..n {
            if self.pass.stop.says_so() {
                return;
            }
            let x = &x[t * w.n_cols..(t + 1) * w.n_cols];
            self.multiply(w, 0, x, &mut product.out[t * w.n_rows..(t + 1) * w.n_rows]);
        }
    }

    fn rms_norm(&mut self, args: Norm<'_, Self>) {
        let n_cols = args.weight.n_cols;
        let n = args.rows.map_or(args.n, <[u32]>::len);
        for (i, out) in args.out.chunks_exact_mut(n_cols).take(n).enumerate() {
            let x = norm_row(args.x, args.rows, i, n_cols);
            (self.kernels.rms_norm)(x, group(args.weight, i), args.eps, out);
        }
    }

    fn layer_norm(&mut self, args: Norm<'_, Self>) {
        let n_cols = args.weight.n_cols;
        let n = args.rows.map_or(args.n, <[u32]>::len);
        for (i, out) in args.out.chunks_exact_mut(n_cols).take(n).enumerate() {
            let x = norm_row(args.x, args.rows, i, n_cols);
            let bias = args.bias.map(|bias| group(bias, i));
            (self.kernels.layer_norm)(x, group(args.weight, i), bias, args.eps, out);
        }
    }

    fn activate(&mut self, x: &mut Zeroed<f32>, curve: Pointwise, len: usize) {
        pointwise(self.kernels, curve)(&mut x[..len]);
    }

    fn mul(&mut self, x: &mut Zeroed<f32>, y: &Zeroed<f32>, len: usize) {
        x[..len].iter_mut().zip(&y[..len]).for_each(|(x, y)| *x *= y);
    }

    fn add(&mut self, x: &mut Zeroed<f32>, y: &Zeroed<f32>, len: usize) {
        x[..len].iter_mut().zip(&y[..len]).for_each(|(x, y)| *x += y);
    }

    fn add_bias(&mut self, x: &mut Zeroed<f32>, bias: &HostWeight, n: usize) {
        let bias = bias.f32s();
        for row in x.chunks_exact_mut(bias.len()).take(n) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }

    fn scale(&mut self, x: &mut Zeroed<f32>, factor: f32, len: usize) {
        x[..len].iter_mut().for_each(|x| *x *= factor);
    }

    fn softcap(&mut self, x: &mut Zeroed<f32>, cap: f32, len: usize) {
        (self.kernels.softcap)(&mut x[..len], cap);
    }

    fn arg_max(&mut self, x: &Zeroed<f32>, n_cols: usize, out: &mut [u32]) {
        for (row, out) in x.chunks_exact(n_cols).zip(out) {
            *out = arg_max::column(arg_max::key(row, 0));
        }
    }

    fn sigmoid_gate(&mut self, x: &mut Zeroed<f32>, gate: &Zeroed<f32>, n: usize, n_cols: usize) {
        for (row, &gate) in x.chunks_exact_mut(n_cols).zip(&gate[..n]) {
            let factor = sigmoid(gate);
            row.iter_mut().for_each(|x| *x *= factor);
        }
    }

    fn rope(&mut self, args: Rope<'_, Self>) {
        let (cos, rest) = self.row.split_at_mut(args.inv_freq.len());
        let sin = &mut rest[..args.inv_freq.len()];
        for (x, n_head) in [(args.q, args.n_head), (args.k, args.n_head_kv)] {
            let rows = x.chunks_exact_mut((n_head * args.head_dim).max(1));
            for (&position, row) in self.pass.positions.iter().zip(rows).filter(|_| n_head > 0) {
                angles(position, args.inv_freq, args.magnitude, cos, sin);
                for head in row.chunks_exact_mut(args.head_dim) {
                    (self.kernels.rope)(head, cos, sin, args.style);
                }
            }
        }
    }

    fn kv_append(&mut self, args: KvAppend<'_, Self>) {
        match args.rows {
            KvRows::New { group, k, v } => {
                args.kv.append(self.kernels, args.layer, &self.pass.groups[group].slots, (k, v));
            }
            KvRows::Moved { from, to, rotation } => {
                args.kv.relocate(self.kernels, args.layer, (from, to), rotation, &mut self.row);
            }
        }
    }

    fn attention(&mut self, args: &Attention<'_, Self>, out: &mut Zeroed<f32>) {
        let dims = args.kv.layer(args.layer).heads.dims;
        let (state, part) = self.attention.split_at_mut(AttnState::len(1, dims));
        let (mut state, mut part) = (AttnState::of(state, 1, dims), AttnState::of(part, 1, dims));
        let (runs, pages) = (&self.pass.runs, &self.pass.groups[args.group].pages);
        for (run, head) in runs.iter().flat_map(|run| (0..args.n_head).map(move |head| (run, head))) {
            for row in run.first..run.first + run.len {
                let tile = queries(args, pages, run, (row, 1), (head, 1));
                state.clear();
                for chunk in tile.chunks() {
                    (self.kernels.attention)(&tile, tile.positions(chunk), &mut part);
                    state.merge(&part);
                }
                let at = (row * args.n_head + head) * dims.v;
                state.finish(0, args.sink(head), &mut out[at..at + dims.v]);
            }
        }
    }

    fn causal_conv(&mut self, args: CausalConv<'_, Self>) {
        recurrent::causal_conv(&self.pass, args);
    }

    fn scan(&mut self, args: Scan<'_, Self>) {
        recurrent::scan(self.kernels, &self.pass, args);
    }

    fn copy_columns(&mut self, args: Columns<'_, Self>) {
        let Columns { x, out, n, n_cols, first, len } = args;
        let rows = x.chunks_exact(n_cols.0).zip(out.chunks_exact_mut(n_cols.1)).take(n);
        for (x, out) in rows {
            out[first.1..][..len].copy_from_slice(&x[first.0..][..len]);
        }
    }

    fn change_rows(&mut self, x: &mut Zeroed<f32>, change: &RowChange<'_, Self>, n: usize, n_cols: usize) {
        let rows = x.chunks_exact_mut(n_cols).take(n).enumerate();
        rows.for_each(|(i, row)| change_row(row, change, i));
    }

    fn mix(&mut self, args: Mix<'_, Self>) {
        let Mix { x, out, factors, n, n_parts, len } = args;
        let rows = x.chunks_exact(n_parts.0 * len).zip(out.chunks_exact_mut(n_parts.1 * len)).take(n);
        for (i, (x, out)) in rows.enumerate() {
            mix_row(x, factors.of_row(i, n_parts.0 * n_parts.1), len, out);
        }
    }

    fn act_mul(&mut self, activation: Activation, gate: &mut Zeroed<f32>, up: &Zeroed<f32>, len: usize) {
        act_mul(self.kernels, activation)(&mut gate[..len], &up[..len]);
    }

    fn moe_route(&mut self, args: MoeRoute<'_, Self>) {
        let (routing, logits) = (Routing::of(&args), args.logits.chunks_exact(args.n_expert).take(args.n));
        for (logits, route) in logits.zip(args.route.chunks_exact_mut(2 * args.n_used)) {
            route_row(logits, routing, route);
        }
    }

    fn moe_matmul(&mut self, args: MoeMatmul<'_, Self>) {
        let (w, n_used) = (args.weight, args.n_used);
        let (n_rows, n_cols) = (w.n_rows / args.n_expert, w.n_cols);
        let mut expert_out = std::mem::take(&mut self.expert_out);
        expert_out.resize(n_rows.max(expert_out.len()), 0.0);
        if args.reduce {
            args.out[..args.n * n_rows].fill(0.0);
        }
        for slot in 0..args.n * n_used {
            if self.pass.stop.says_so() {
                break;
            }
            let (expert, share) = (args.route[2 * slot] as usize, args.route[2 * slot + 1]);
            let (row, out) = if args.reduce { (slot, slot / n_used) } else { (slot / n_used, slot) };
            self.multiply(
                w,
                expert * n_rows,
                &args.x[row * n_cols..(row + 1) * n_cols],
                &mut expert_out[..n_rows],
            );
            if let Some(bias) = args.bias {
                let bias = &bias.f32s()[expert * n_rows..];
                expert_out.iter_mut().zip(bias).take(n_rows).for_each(|(y, b)| *y += b);
            }
            for (out, &y) in args.out[out * n_rows..(out + 1) * n_rows].iter_mut().zip(&expert_out) {
                *out = if args.reduce { *out + share * y } else { y };
            }
        }
        self.expert_out = expert_out;
    }
}

/// Cosine and sine of each pair's angle at `position`, times `magnitude`.
pub(super) fn angles(position: u32, inv_freq: &[f32], magnitude: f32, cos: &mut [f32], sin: &mut [f32]) {
    for ((f, cos), sin) in inv_freq.iter().zip(cos).zip(sin) {
        let (s, c) = libm::sincosf(position as f32 * f);
        (*sin, *cos) = (magnitude * s, magnitude * c);
    }
}

/// Gain or shift of row `i` of a norm.
pub(super) fn group(weight: &HostWeight, i: usize) -> &[f32] {
    let at = i % weight.n_rows * weight.n_cols;
    &weight.f32s()[at..at + weight.n_cols]
}

/// The kernel of an activation between the halves of a feed-forward block.
pub(super) fn act_mul(kernels: &Kernels, activation: Activation) -> fn(&mut [f32], &[f32]) {
    match activation {
        Activation::Silu => kernels.silu_mul,
        Activation::Gelu => kernels.gelu_mul,
        Activation::GeluErf => kernels.gelu_erf_mul,
        Activation::Sigmoid => kernels.sigmoid_mul,
        Activation::SwigluClamped => kernels.swiglu_clamped_mul,
        Activation::Relu => |gate, up| {
            gate.iter_mut().zip(up).for_each(|(gate, &up)| *gate = gate.max(0.0) * up);
        },
        Activation::ReluSquared => |gate, up| {
            gate.iter_mut().zip(up).for_each(|(gate, &up)| *gate = gate.max(0.0) * gate.max(0.0) * up);
        },
    }
}

/// The function that does [`Pointwise`] to some elements.
pub(super) fn pointwise(kernels: &'static Kernels, curve: Pointwise) -> impl Fn(&mut [f32]) + Sync {
    move |x| match curve {
        Pointwise::Gelu(form) => kernels.gelu(form)(x),
        Pointwise::Silu => (kernels.silu)(x),
        Pointwise::Sigmoid => x.iter_mut().for_each(|x| *x = sigmoid(*x)),
        Pointwise::Exp => x.iter_mut().for_each(|x| *x = libm::expf(*x)),
        Pointwise::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
        Pointwise::ReluSquared => x.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0)),
        Pointwise::XIelu { above, linear, below, most } => x.iter_mut().for_each(|x| {
            let curved = match *x > 0.0 {
                true => above * *x * *x,
                false => below * (libm::expm1f(x.min(most)) - *x),
            };
            *x = curved + linear * *x;
        }),
    }
}

/// `1 / (1 + e^-x)`.
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

impl<'a, B: Backend<Weight = HostWeight>> Attention<'a, B> {
    /// What is added to scores, as the attention kernel takes it.
    fn bias(&self) -> Option<kernels::DistanceBias<'a>> {
        self.bias.map(|bias| match bias {
            DistanceBias::Slopes(slopes) => kernels::DistanceBias::Slopes(slopes.f32s()),
            DistanceBias::Table(table) => kernels::DistanceBias::Table(table.f32s(), table.n_cols),
        })
    }

    /// The sink of a query head.
    pub(super) fn sink(&self, head: usize) -> Option<f32> {
        self.sinks.map(|sinks| sinks.f32s()[head])
    }
}

/// The queries of `n_tokens` rows of `run`, from row `first` of the batch on, by `n_head` heads from `head` on, which all
/// read the same keys, as the attention kernel takes them; `pages` are the tables of the layer's group.
pub(super) fn queries<'a, B>(
    args: &Attention<'a, B>,
    pages: &'a [u32],
    run: &Run,
    (first, n_tokens): (usize, usize),
    (head, n_head): (usize, usize),
) -> AttnTile<'a>
where
    B: Backend<Kv = HostKv, Weight = HostWeight>,
    B::Buffer: Deref<Target = [f32]>,
{
    let KvHeads { n: n_head_kv, dims } = args.kv.layer(args.layer).heads;
    let position = run.position + (first - run.first);
    let (from, end) = match (args.sees, args.causal) {
        (Sees::Encoded, _) => (0, run.encoded),
        (Sees::All, false) => (0, run.position + run.len),
        (Sees::All, true) => (0, position + n_tokens),
        (Sees::Decoded, _) => (run.encoded, position + n_tokens),
    };
    AttnTile {
        q: &args.q[(first * args.n_head + head) * dims.k..],
        stride: args.n_head * dims.k,
        group: n_head,
        n_tokens,
        dims,
        k: args.kv.store(args.layer, Part::K),
        v: args.kv.store(args.layer, Part::V),
        pages: &pages[run.pages..],
        kv_head: head / (args.n_head / n_head_kv),
        position,
        causal: args.causal,
        from,
        end,
        window: args.window,
        scale: args.scale,
        growth: args.growth,
        chunked: args.chunked,
        softcap: args.softcap,
        bias: args.bias(),
        head,
    }
}

/// The elements of row `i` of those that a norm takes.
pub(super) fn norm_row<'a>(x: &'a [f32], rows: Option<&[u32]>, i: usize, n_cols: usize) -> &'a [f32] {
    let row = rows.map_or(i, |rows| rows[i] as usize);
    &x[row * n_cols..(row + 1) * n_cols]
}
