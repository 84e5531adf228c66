//! [`CpuBackend`]: every operation as a plain loop over the scalar kernels, on the caller's thread. This is the
//! definition that every other backend is compared with; it is written to be read, not to be fast.
#![forbid(unsafe_code)]

use std::ops::Deref;

use super::arg_max;
use super::host::{HostKv, HostStates, HostWeight, Part, Zeroed};
use super::{
    Attention, Backend, CausalConv, Embed, Gating, KvAppend, KvRows, KvShape, Limits, MoeMatmul, MoeRoute,
    Norm, Product, Rope, Run, StateShape, WeightSource,
};
use crate::error::Result;
use crate::kernels::scalar::SCALAR;
use crate::kernels::{AttnState, AttnTile, GeluForm, Kernels};
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
    /// What one expert makes of one row.
    expert_out: Vec<f32>,
    /// Two states of one query.
    attention: Vec<f32>,
    /// What buffers come from.
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
        self.expert_out.resize(limits.n_cols, 0.0);
        self.attention.resize(2 * AttnState::len(1, limits.head_dim), 0.0);
        Ok(())
    }

    fn write(&mut self, dst: &mut Zeroed<f32>, offset: usize, src: &[f32]) {
        dst[offset..offset + src.len()].copy_from_slice(src);
    }

    fn read(&mut self, src: &Zeroed<f32>, offset: usize, dst: &mut [f32]) {
        dst.copy_from_slice(&src[offset..offset + dst.len()]);
    }

    fn finish(&mut self) -> Result<()> {
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

    fn softmax(&mut self, x: &mut Zeroed<f32>, n: usize, n_cols: usize) {
        x[..n * n_cols].chunks_exact_mut(n_cols).for_each(self.kernels.softmax);
    }

    fn gelu(&mut self, x: &mut Zeroed<f32>, form: GeluForm, len: usize) {
        self.kernels.gelu(form)(&mut x[..len]);
    }

    fn silu(&mut self, x: &mut Zeroed<f32>, len: usize) {
        (self.kernels.silu)(&mut x[..len]);
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
            for (&position, row) in args.positions.iter().zip(x.chunks_exact_mut(n_head * args.head_dim)) {
                angles(position, args.inv_freq, args.magnitude, cos, sin);
                for head in row.chunks_exact_mut(args.head_dim) {
                    (self.kernels.rope)(head, cos, sin, args.style);
                }
            }
        }
    }

    fn kv_append(&mut self, args: KvAppend<'_, Self>) {
        match args.rows {
            KvRows::New { k, v } => args.kv.append(self.kernels, args.layer, args.slots, (k, v)),
            KvRows::Moved { from, turn } => {
                args.kv.relocate(self.kernels, args.layer, (from, args.slots), turn, &mut self.row);
            }
        }
    }

    fn attention(&mut self, args: &Attention<'_, Self>, out: &mut Zeroed<f32>) {
        let dim = args.kv.shape.head_dim;
        let (state, part) = self.attention.split_at_mut(AttnState::len(1, dim));
        let (mut state, mut part) = (AttnState::of(state, 1, dim), AttnState::of(part, 1, dim));
        for (run, head) in args.runs.iter().flat_map(|run| (0..args.n_head).map(move |head| (run, head))) {
            for row in run.first..run.first + run.len {
                let tile = queries(args, run, (row, 1), (head, 1));
                state.clear();
                for chunk in tile.chunks() {
                    (self.kernels.attention)(&tile, tile.positions(chunk), &mut part);
                    state.merge(&part, dim);
                }
                let at = (row * args.n_head + head) * dim;
                state.finish(0, &mut out[at..at + dim]);
            }
        }
    }

    fn causal_conv(&mut self, args: CausalConv<'_, Self>) {
        let CausalConv { states, state, x, n_channels: n, len, .. } = args;
        let weight = args.weight.f32s();
        let n_before = len - 1;
        for (run, slots) in args.runs.iter().zip(args.plan.runs) {
            // Row `i` of the state's and, behind them, the run's.
            let row = |i: usize| (i >= n_before).then(|| &x[(run.first + i - n_before) * n..][..n]);
            for (t, out) in args.out[run.first * n..][..run.len * n].chunks_exact_mut(n).enumerate() {
                for (c, out) in out.iter_mut().enumerate() {
                    *out = args.bias.map_or(0.0, |bias| bias.f32s()[c]);
                    for j in 0..len {
                        let before = |slot| states.get(slot, state)[(t + j) * n + c];
                        let x = row(t + j).map_or_else(|| slots.from.map_or(0.0, before), |row| row[c]);
                        *out += weight[c * len + j] * x;
                    }
                }
            }
            let mut keep = |n_rows: usize, slot: u32| {
                for i in 0..n_before {
                    let to = states.range(slot, state).start + i * n;
                    match (row(n_rows + i), slots.from) {
                        (Some(row), _) => states.values_mut()[to..to + n].copy_from_slice(row),
                        (None, Some(from)) => {
                            let from = states.range(from, state).start + (n_rows + i) * n;
                            states.values_mut().copy_within(from..from + n, to);
                        }
                        (None, None) => states.values_mut()[to..to + n].fill(0.0),
                    }
                }
            };
            for copy in args.plan.copies_of(run) {
                keep(copy.row as usize + 1 - run.first, copy.to);
            }
            keep(run.len, slots.to);
        }
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
        if args.reduce {
            args.out[..args.n * n_rows].fill(0.0);
        }
        for slot in 0..args.n * n_used {
            let (expert, share) = (args.route[2 * slot] as usize, args.route[2 * slot + 1]);
            let (row, out) = if args.reduce { (slot, slot / n_used) } else { (slot / n_used, slot) };
            self.multiply(
                w,
                expert * n_rows,
                &args.x[row * n_cols..(row + 1) * n_cols],
                &mut expert_out[..n_rows],
            );
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

/// `1 / (1 + exp(-x))`.
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// What [`route_row`] needs beside the logits.
#[derive(Clone, Copy)]
pub(super) struct Routing<'a> {
    gating: Gating,
    bias: Option<&'a [f32]>,
    normalize: Option<f32>,
    scale: f32,
}

impl<'a> Routing<'a> {
    pub(super) fn of<B: Backend<Weight = HostWeight>>(args: &MoeRoute<'a, B>) -> Routing<'a> {
        let MoeRoute { gating, bias, normalize, scale, .. } = *args;
        Routing { gating, bias: bias.map(HostWeight::f32s), normalize, scale }
    }
}

/// One row of [`MoeRoute`]: `route` is `[n_used, 2]`.
pub(super) fn route_row(logits: &[f32], routing: Routing<'_>, route: &mut [f32]) {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    let total: f32 = match routing.gating {
        Gating::Softmax => logits.iter().map(|&x| libm::expf(x - max)).sum(),
        Gating::Sigmoid => 1.0,
    };
    let share = |logit: f32| match routing.gating {
        Gating::Softmax => libm::expf(logit - max) / total,
        Gating::Sigmoid => sigmoid(logit),
    };
    let (route, _) = route.as_chunks_mut::<2>();
    match routing.bias {
        Some(bias) => choose(logits.iter().zip(bias).map(|(&x, bias)| share(x) + bias), route),
        // Shares are in the order of logits.
        None => choose(logits.iter().copied(), route),
    }
    let mut chosen = 0.0;
    for [expert, weight] in route.iter_mut() {
        *weight = share(logits[*expert as usize]);
        chosen += *weight;
    }
    let factor = routing.normalize.map_or(routing.scale, |epsilon| routing.scale / (chosen + epsilon));
    route.iter_mut().for_each(|[_, share]| *share *= factor);
}

/// Makes `chosen`, which has room for as many, the numbers and values of the largest of `values` in their order, of equal ones
/// the lower number first. NaN is as good as `-inf`.
fn choose(values: impl Iterator<Item = f32>, chosen: &mut [[f32; 2]]) {
    let order = |a: &[f32; 2], b: &[f32; 2]| b[1].total_cmp(&a[1]).then(a[0].total_cmp(&b[0]));
    // -0 is as large as 0.
    let entry =
        |(expert, x): (usize, f32)| [expert as f32, if x.is_nan() { f32::NEG_INFINITY } else { x + 0.0 }];
    let mut entries = values.enumerate().map(entry);
    chosen.iter_mut().zip(&mut entries).for_each(|(chosen, entry)| *chosen = entry);
    // A heap, whose root is the one to go next.
    let sink = |heap: &mut [[f32; 2]], mut at: usize| {
        while let Some(child) = heap.get(2 * at + 1) {
            let last_child = match heap.get(2 * at + 2) {
                Some(other) if order(other, child).is_gt() => 2 * at + 2,
                _ => 2 * at + 1,
            };
            if order(&heap[last_child], &heap[at]).is_lt() {
                break;
            }
            heap.swap(at, last_child);
            at = last_child;
        }
    };
    (0..chosen.len() / 2).rev().for_each(|at| sink(chosen, at));
    for entry in entries {
        if chosen.first().is_some_and(|root| order(&entry, root).is_lt()) {
            chosen[0] = entry;
            sink(chosen, 0);
        }
    }
    chosen.sort_unstable_by(order);
}

/// The queries of `n_tokens` rows of `run`, from row `first` of the batch on, by `n_head` heads from `head` on, which all
/// read the same keys, as the attention kernel takes them.
pub(super) fn queries<'a, B>(
    args: &Attention<'a, B>,
    run: &Run,
    (first, n_tokens): (usize, usize),
    (head, n_head): (usize, usize),
) -> AttnTile<'a>
where
    B: Backend<Kv = HostKv>,
    B::Buffer: Deref<Target = [f32]>,
{
    let shape = &args.kv.shape;
    let position = run.position + (first - run.first);
    AttnTile {
        q: &args.q[(first * args.n_head + head) * shape.head_dim..],
        stride: args.n_head * shape.head_dim,
        group: n_head,
        n_tokens,
        head_dim: shape.head_dim,
        k: args.kv.store(args.layer, Part::K),
        v: args.kv.store(args.layer, Part::V),
        pages: &args.pages[run.pages..],
        kv_head: head / (args.n_head / shape.n_head_kv),
        position,
        causal: args.causal,
        end: if args.causal { position + n_tokens } else { run.position + run.len },
        window: args.window,
        scale: args.scale,
        softcap: args.softcap,
    }
}

/// The elements of row `i` of those a norm was asked for.
pub(super) fn norm_row<'a>(x: &'a [f32], rows: Option<&[u32]>, i: usize, n_cols: usize) -> &'a [f32] {
    let row = rows.map_or(i, |rows| rows[i] as usize);
    &x[row * n_cols..(row + 1) * n_cols]
}
