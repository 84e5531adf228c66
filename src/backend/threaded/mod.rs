//! [`ThreadedBackend`]: the operations of [`super::cpu`] spread over a thread pool, on the kernels of one
//! instruction set. Every element is computed by one kernel call from the same inputs whatever the
//! number of threads, so results do not depend on it.

mod activations;
mod angles;
mod attention;
mod conv;
mod course;
mod embed;
mod experts;
mod gated;
mod groups;
mod kv;
mod products;
mod scan;
mod shares;

use activations::Rounded;
use angles::Angles;
use course::{Call, Course};
use experts::{Gathered, Order};
use products::{Inputs, MOST, PANEL, Target};
use shares::{Shares, rows_among};

pub use activations::Activations;

use super::arg_max;
use super::cpu::{Routing, act_mul, group, norm_row, pointwise, route_row, sigmoid};
use super::host::{HostKv, HostPass, HostStates, HostWeight, Loading, Packer, Zeroed};
use super::rows::{Mix, RowChange, change_row, mix_row};
use super::{
    Activation, AddNorm, Attention, Backend, CausalConv, Columns, Embed, GatedMatmul, KvAppend, KvShape,
    Limits, MoeMatmul, MoeRoute, Norm, Pass, Pointwise, Product, Rope, Scan, StateShape, WeightRole,
    WeightSource,
};
use crate::error::Result;
use crate::kernels::Kernels;
use crate::memory::Memory;
use crate::quant::{Q8Block, packed};
use crate::threads::{DisjointMut, ThreadPool};

/// Fewest elements in a task of an element-wise operation: a polling thread joins in the time that they take.
const FEWEST_ELEMENTS: usize = 1024;
/// Most elements in such a task: about as many microseconds as waking a thread takes.
const MOST_ELEMENTS: usize = 8192;
/// Fewest elements in a task that only copies them.
const FEWEST_COPIED: usize = 16384;
/// From this many activation rows on, [`F32Products::Blocked`] means `sgemm`; below, dot products, which allocate nothing.
const SGEMM_MIN_ROWS: usize = 8;

/// Elements of each task of an element-wise operation on `len`: few enough for every thread to have some, and multiples of
/// vector registers.
fn elements_per_task(len: usize, n_threads: usize) -> usize {
    len.div_ceil(n_threads).clamp(FEWEST_ELEMENTS, MOST_ELEMENTS).next_multiple_of(64)
}

/// The same for whole rows, `n` of `n_cols` elements.
fn rows_per_task(n: usize, n_cols: usize, n_threads: usize) -> usize {
    elements_per_task(n * n_cols, n_threads).div_ceil(n_cols.max(1))
}

/// How activations are multiplied with F32 weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum F32Products {
    /// Row by row as [`super::cpu`] does: the same bits for any number of rows.
    Dots,
    /// Many rows through the blocked `sgemm` of matrixmultiply: about twice as fast, with other last bits than few rows. It allocates
    /// what it packs, in each product.
    Blocked,
}

/// Which matrices are packed, that is, copied with their rows rearranged for the products of the instruction set
/// ([`crate::quant::packed`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pack {
    /// Those of formats that the instruction set has packed products for.
    Auto,
    /// None.
    Never,
    /// Those of every format that can be packed; where the instruction set has no products, plain Rust multiplies.
    Always,
}

/// The threaded backend.
pub struct ThreadedBackend {
    kernels: &'static Kernels,
    f32_products: F32Products,
    pool: ThreadPool,
    /// Quantized activations, `[n_tokens, n_cols / 32]`, and space for as many.
    rounded: Rounded,
    /// The order of the slots of experts, and space for their vectors.
    order: Order,
    gathered: Gathered,
    /// Weight rows for each thread, expanded or packed, `[n_threads, PANEL, n_cols]`.
    rows: Zeroed<f32>,
    course: Course,
    angles: Angles,
    attention: attention::Scratch,
    /// The pass under way.
    pass: HostPass,
    /// Keys of the largest elements of rows' parts, `[n_threads, n_out]`.
    largest: Zeroed<u64>,
    n_cols: usize,
    pack: Pack,
    /// Weights that [`Backend::finish`] packs.
    packer: Packer,
    /// Where buffers and packed weights are allocated.
    memory: Memory,
}

impl ThreadedBackend {
    /// A backend on the threads of `pool`. Weights are used with the kernels they were uploaded with; large buffers come from
    /// `memory`.
    pub fn new(
        kernels: &'static Kernels,
        pool: ThreadPool,
        f32_products: F32Products,
        memory: Memory,
    ) -> Result<ThreadedBackend> {
        Ok(ThreadedBackend {
            kernels,
            f32_products,
            pool,
            rounded: Rounded::default(),
            order: Order::default(),
            gathered: Gathered::default(),
            rows: Zeroed::default(),
            course: Course::default(),
            angles: Angles::new(0, 0, &memory)?,
            attention: attention::Scratch::new(0, &Limits::default(), &memory)?,
            pass: HostPass::default(),
            largest: Zeroed::default(),
            n_cols: 0,
            pack: Pack::Auto,
            packer: Packer::new(kernels.transpose),
            memory,
        })
    }

    /// Which of the weights uploaded from now on are packed.
    pub fn set_pack(&mut self, pack: Pack) {
        self.pack = pack;
    }

    /// Sets options and progress for the weights uploaded from now on. If they end loading early, [`Backend::finish`] gives
    /// `Cancelled`.
    pub fn set_loading(&mut self, loading: Loading) {
        self.packer.loading = loading;
    }

    /// Whether products of `n` rows with F32 weights go through `sgemm`.
    fn is_blocked(&self, n: usize) -> bool {
        self.f32_products == F32Products::Blocked && n >= SGEMM_MIN_ROWS
    }

    /// Calls `f(chunk number, chunk)` for each chunk of the first `len` elements of `out`. Products read these activations next,
    /// so they are rounded while they are in the cache.
    fn make(&mut self, out: &mut Activations, len: usize, part: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
        if !self.rounded.takes(len, part) {
            return self.pool.for_parts(&mut out[..len], part, f);
        }
        self.rounded.forget();
        let quantize = self.kernels.quantize_activations;
        let blocks = DisjointMut::new(&mut self.rounded.blocks);
        self.pool.for_parts(&mut out[..len], part, |i, values| {
            f(i, values);
            let first = i * part / Q8Block::LEN;
            // SAFETY: parts have different numbers, and their blocks do not overlap.
            quantize(values, unsafe { blocks.slice(first..first + values.len() / Q8Block::LEN) });
        });
        self.rounded.become_those_of(out, len);
    }
}

impl Backend for ThreadedBackend {
    type Buffer = Activations;
    type Weight = HostWeight;
    type Kv = HostKv;
    type States = HostStates;

    fn upload(&mut self, src: &WeightSource<'_>) -> Result<HostWeight> {
        let mut weight = HostWeight::new(src, &self.memory)?;
        let packs = match self.pack {
            Pack::Auto => self.kernels.packs(src.format),
            Pack::Never => false,
            Pack::Always => true,
        };
        let fits = src.n_rows >= packed::ROWS && src.n_cols.is_multiple_of(packed::COLS);
        let packing = self.kernels.packing(src.format).filter(|packing| packs && fits && packing.may_stay());
        match (src.role, packing) {
            (WeightRole::Matrix, Some(packing)) => weight.pack_later(src.name, packing, &mut self.packer),
            (WeightRole::Vector, _) if self.pack != Pack::Never => {
                weight.copy_later(src.name, &mut self.packer);
            }
            _ => (),
        }
        if self.packer.loading.lock {
            let what = format!("the tensor {:?}", src.name);
            weight.lock().map_err(|e| Loading::not_locked(&what, &e))?;
        }
        Ok(weight)
    }

    fn alloc(&self, len: usize) -> Result<Activations> {
        Activations::new(len, &self.memory)
    }

    fn alloc_kv(&self, shape: &KvShape) -> Result<HostKv> {
        HostKv::new(shape, &self.memory)
    }

    fn alloc_states(&self, shape: &StateShape) -> Result<HostStates> {
        HostStates::new(shape, &self.memory)
    }

    fn reserve(&mut self, limits: &Limits) -> Result<()> {
        self.n_cols = limits.n_cols;
        let memory = &self.memory;
        // Counts that overflow exceed all memory.
        let row = limits.n_cols.next_multiple_of(Q8Block::LEN);
        let wide = self.kernels.wide.is_some();
        self.rounded.reserve(limits.n_tokens.saturating_mul(row), wide, memory)?;
        self.order.reserve(limits.n_slots, limits.n_expert, memory)?;
        let gathered = if limits.n_expert > 0 { row } else { 0 };
        self.gathered.reserve(gathered, self.pool.n_threads(), wide, memory)?;
        let rows = limits.n_cols.saturating_mul(self.pool.n_threads() * PANEL);
        self.rows = memory.zeroed(rows, "weight rows for each thread")?;
        let keys = limits.n_out.saturating_mul(self.pool.n_threads());
        self.largest = memory.zeroed(keys, "the largest elements of rows")?;
        self.angles = Angles::new(limits.n_tokens, limits.head_dim, memory)?;
        self.attention = attention::Scratch::new(self.pool.n_threads(), limits, memory)?;
        self.pass = HostPass::new(limits)?;
        Ok(())
    }

    fn write(&mut self, dst: &mut Activations, offset: usize, src: &[f32]) {
        dst[offset..offset + src.len()].copy_from_slice(src);
    }

    fn read(&mut self, src: &Activations, offset: usize, dst: &mut [f32]) {
        let src = &src[offset..offset + dst.len()];
        let part = src.len().div_ceil(self.pool.n_threads()).max(FEWEST_COPIED);
        self.pool.for_parts(dst, part, |i, dst| dst.copy_from_slice(&src[i * part..][..dst.len()]));
    }

    fn finish(&mut self) -> Result<()> {
        self.packer.run(&mut self.pool, &self.memory)?;
        self.pool.rest();
        self.pass.stop.end()
    }

    fn begin(&mut self, pass: &Pass<'_>) -> Result<()> {
        self.pass.begin(pass);
        Ok(())
    }

    fn embed(&mut self, args: Embed<'_, Self>) -> Result<()> {
        self.look_up(args)
    }

    fn matmul(&mut self, x: &Activations, n: usize, product: Product<'_, Self>) {
        self.matmul_many(x, n, &mut [product]);
    }

    fn matmul_many(&mut self, x: &Activations, n: usize, products: &mut [Product<'_, Self>]) {
        assert!(
            products.len() <= MOST,
            "{} products in one call, at most {MOST} are planned for",
            products.len()
        );
        let Some(n_cols) = products.first().map(|p| p.weight.n_cols) else { return };
        self.prepare(products.iter().map(|p| p.weight), x, n);
        let blocked = self.is_blocked(n) && products.iter().any(|p| !p.weight.is_packed());
        let inputs = Inputs {
            kernels: self.kernels,
            stop: &self.pass.stop,
            blocked,
            x,
            x_q8: &self.rounded.blocks,
            x_wide: &self.rounded.wide,
            n,
        };
        let n_threads = self.pool.n_threads();
        let call = Call::new(products.iter().map(|p| p.weight), |n_groups| match blocked {
            // Each task of `sgemm` rearranges all of x for itself.
            true => Shares::even(n_groups, n_threads),
            false => Shares::new(n_groups, n_threads),
        });
        let next = self.course.take(&call);
        let mut products = products.iter_mut().enumerate();
        let targets: [Option<Target<'_>>; MOST] = std::array::from_fn(|_| {
            products.next().map(|(i, p)| {
                assert_eq!(p.weight.n_cols, n_cols, "products of one x differ in columns");
                Target { weight: p.weight, out: DisjointMut::new(p.out), first_group: call.first_group(i) }
            })
        });
        let scratch_len = PANEL * self.n_cols;
        let scratch = DisjointMut::new(&mut self.rows);
        self.pool.run(call.shares().n_tasks(), &|thread, task| {
            let groups = call.shares().groups(task);
            // SAFETY: thread numbers are distinct, and so are their rows of scratch.
            let scratch = unsafe { scratch.slice(thread * scratch_len..(thread + 1) * scratch_len) };
            for (i, target) in targets.iter().flatten().enumerate() {
                let rows = rows_among(&groups, target.first_group, target.weight.n_rows);
                if !rows.is_empty() {
                    let then = call.after((task, i), next.as_ref(), (thread, n_threads));
                    inputs.compute(target, rows, then, scratch);
                }
            }
        });
    }

    fn rms_norm(&mut self, args: Norm<'_, Self>) {
        let rms_norm = self.kernels.rms_norm;
        let Norm { x, rows, eps, weight, .. } = args;
        let (n, n_cols) = (rows.map_or(args.n, <[u32]>::len), weight.n_cols);
        let n_rows = rows_per_task(n, n_cols, self.pool.n_threads());
        self.pool.for_parts(&mut args.out[..n * n_cols], n_rows * n_cols, |task, out| {
            for (i, out) in (task * n_rows..).zip(out.chunks_exact_mut(n_cols)) {
                rms_norm(norm_row(x, rows, i, n_cols), group(weight, i), eps, out);
            }
        });
    }

    fn layer_norm(&mut self, args: Norm<'_, Self>) {
        let layer_norm = self.kernels.layer_norm;
        let Norm { x, rows, eps, weight, bias, .. } = args;
        let (n, n_cols) = (rows.map_or(args.n, <[u32]>::len), weight.n_cols);
        self.pool.for_parts(&mut args.out[..n * n_cols], n_cols, |i, out| {
            let bias = bias.map(|bias| group(bias, i));
            layer_norm(norm_row(x, rows, i, n_cols), group(weight, i), bias, eps, out);
        });
    }

    fn activate(&mut self, x: &mut Activations, curve: Pointwise, len: usize) {
        let pointwise = pointwise(self.kernels, curve);
        let part = elements_per_task(len, self.pool.n_threads());
        self.pool.for_parts(&mut x[..len], part, |_, part| pointwise(part));
    }

    fn gated_matmul(&mut self, args: GatedMatmul<'_, Self>) {
        gated::run(self, args);
    }

    fn act_mul(&mut self, activation: Activation, gate: &mut Activations, up: &Activations, len: usize) {
        let act_mul = act_mul(self.kernels, activation);
        let part = elements_per_task(len, self.pool.n_threads());
        self.make(gate, len, part, |i, gate| act_mul(gate, &up[i * part..][..gate.len()]));
    }

    fn mul(&mut self, x: &mut Activations, y: &Activations, len: usize) {
        let part = elements_per_task(len, self.pool.n_threads());
        self.pool.for_parts(&mut x[..len], part, |i, x| {
            x.iter_mut().zip(&y[i * part..]).for_each(|(x, y)| *x *= y);
        });
    }

    fn add(&mut self, x: &mut Activations, y: &Activations, len: usize) {
        let part = elements_per_task(len, self.pool.n_threads());
        self.pool.for_parts(&mut x[..len], part, |i, x| {
            x.iter_mut().zip(&y[i * part..]).for_each(|(x, y)| *x += y);
        });
    }

    fn add_rms_norm(&mut self, args: AddNorm<'_, Self>) {
        let AddNorm { y, n, n_embd, weight, eps, .. } = args;
        let rms_norm = self.kernels.rms_norm;
        let rows = rows_per_task(n, n_embd, self.pool.n_threads());
        let x = DisjointMut::new(&mut args.x[..n * n_embd]);
        self.make(args.out, n * n_embd, rows * n_embd, |i, out| {
            let first = i * rows * n_embd;
            // SAFETY: parts have different numbers, and their rows do not overlap.
            let x = unsafe { x.slice(first..first + out.len()) };
            x.iter_mut().zip(&y[first..]).for_each(|(x, y)| *x += y);
            for (x, out) in x.chunks_exact(n_embd).zip(out.chunks_exact_mut(n_embd)) {
                rms_norm(x, weight.f32s(), eps, out);
            }
        });
    }

    fn add_bias(&mut self, x: &mut Activations, bias: &HostWeight, n: usize) {
        let bias = bias.f32s();
        for row in x.chunks_exact_mut(bias.len()).take(n) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }

    fn scale(&mut self, x: &mut Activations, factor: f32, len: usize) {
        x[..len].iter_mut().for_each(|x| *x *= factor);
    }

    fn softcap(&mut self, x: &mut Activations, cap: f32, len: usize) {
        let softcap = self.kernels.softcap;
        let part = elements_per_task(len, self.pool.n_threads());
        self.pool.for_parts(&mut x[..len], part, |_, part| softcap(part, cap));
    }

    fn arg_max(&mut self, x: &Activations, n_cols: usize, out: &mut [u32]) {
        let n_rows = out.len();
        let fewest = FEWEST_COPIED.div_ceil(n_rows.max(1)).min(n_cols);
        // A task reads the same columns of all rows. Where there are two threads, its thread has computed most of them.
        let part = n_cols.div_ceil(self.pool.n_threads()).max(fewest);
        let n_parts = n_cols.div_ceil(part);
        let keys = DisjointMut::new(&mut self.largest[..n_parts * n_rows]);
        self.pool.run(n_parts, &|_, task| {
            // SAFETY: parts have different numbers.
            let keys = unsafe { keys.slice(task * n_rows..(task + 1) * n_rows) };
            for (row, key) in x.chunks_exact(n_cols).zip(keys) {
                let first = task * part;
                *key = arg_max::key(&row[first..n_cols.min(first + part)], first);
            }
        });
        for (row, out) in out.iter_mut().enumerate() {
            let keys = (0..n_parts).map(|part| self.largest[part * n_rows + row]);
            *out = arg_max::column(keys.max().unwrap_or(0));
        }
    }

    fn sigmoid_gate(&mut self, x: &mut Activations, gate: &Activations, n: usize, n_cols: usize) {
        for (row, &gate) in x.chunks_exact_mut(n_cols).zip(&gate[..n]) {
            let factor = sigmoid(gate);
            row.iter_mut().for_each(|x| *x *= factor);
        }
    }

    fn rope(&mut self, args: Rope<'_, Self>) {
        let positions = &self.pass.positions;
        let angles = self.angles.of(positions, args.inv_freq, args.magnitude);
        angles::rotate(self.kernels.rope, &mut self.pool, positions.len(), angles, args);
    }

    fn kv_append(&mut self, args: KvAppend<'_, Self>) {
        kv::append(self.kernels, &mut self.pool, &self.pass, args, &mut self.rows);
    }

    fn attention(&mut self, args: &Attention<'_, Self>, out: &mut Activations) {
        let (pool, scratch) = (&mut self.pool, &mut self.attention);
        attention::run(self.kernels, pool, scratch, &self.pass, args, &mut self.rounded, out);
    }

    fn causal_conv(&mut self, args: CausalConv<'_, Self>) {
        conv::run(&mut self.pool, &self.pass, args);
    }

    fn scan(&mut self, args: Scan<'_, Self>) {
        scan::run(self.kernels, &mut self.pool, &self.pass, args);
    }

    fn copy_columns(&mut self, args: Columns<'_, Self>) {
        let Columns { x, out, n, n_cols, first, len } = args;
        let rows = rows_per_task(n, len, self.pool.n_threads());
        self.pool.for_parts(&mut out[..n * n_cols.1], rows * n_cols.1, |i, out| {
            let x = x[i * rows * n_cols.0..].chunks_exact(n_cols.0);
            for (x, out) in x.zip(out.chunks_exact_mut(n_cols.1)) {
                out[first.1..][..len].copy_from_slice(&x[first.0..][..len]);
            }
        });
    }

    fn change_rows(&mut self, x: &mut Activations, change: &RowChange<'_, Self>, n: usize, n_cols: usize) {
        self.pool.for_parts(&mut x[..n * n_cols], n_cols, |i, row| change_row(row, change, i));
    }

    fn mix(&mut self, args: Mix<'_, Self>) {
        let Mix { x, out, factors, n, n_parts, len } = args;
        let (n_in, n_out) = (n_parts.0 * len, n_parts.1 * len);
        self.pool.for_parts(&mut out[..n * n_out], n_out, |i, out| {
            mix_row(&x[i * n_in..][..n_in], factors.of_row(i, n_parts.0 * n_parts.1), len, out);
        });
    }

    fn moe_route(&mut self, args: MoeRoute<'_, Self>) {
        let (routing, logits, n_expert, n_used) =
            (Routing::of(&args), args.logits, args.n_expert, args.n_used);
        let stop = &self.pass.stop;
        self.pool.for_parts(&mut args.route[..args.n * 2 * n_used], 2 * n_used, |i, route| {
            if stop.says_so() {
                return;
            }
            route_row(&logits[i * n_expert..(i + 1) * n_expert], routing, route);
        });
    }

    fn moe_matmul(&mut self, args: MoeMatmul<'_, Self>) {
        self.multiply_experts(args);
    }
}
