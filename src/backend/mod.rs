//! The seam: [`Backend`] and the argument structs of its operations.
//!
//! A model is written once against this trait. [`cpu::CpuBackend`] is the plain scalar definition of every
//! operation; [`threaded::ThreadedBackend`] runs the same kernels on a thread pool; a GPU would be a third.
//!
//! Conventions: activations are row-major f32 matrices `[n_tokens, n]` in buffers the caller owns, which may be
//! larger than needed; a weight matrix has `n_rows` rows (outputs) of `n_cols` (inputs). Shapes that do not fit are
//! defects of the model code and panic; what a file can get wrong is refused earlier, when weights are bound.
//! Variation is a field of an argument struct, never another method.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::gguf::FileBytes;
pub use crate::kernels::KvType;
pub use crate::kernels::attention::{Growth, HeadDims};
use crate::kernels::{GeluForm, RopeStyle};
use crate::quant::Format;

mod arg_max;
pub mod cpu;
mod experts;
pub mod host;
mod pass;
mod rows;
mod states;
#[cfg(test)]
mod tests;
pub mod threaded;

pub use arg_max::NO_COLUMN;
pub use experts::{Gating, Groups, MoeMatmul, MoeRoute};
pub use pass::{PageTables, Pass, Run, Sees};
pub use rows::{DistanceBias, Factors, Mix, RowChange};
pub use states::{CausalConv, Pace, Scan, ScanRule, StateCopy, StatePlan, StateRun, StateShape, StateStore};

/// A weight as it lies in the model file.
pub struct WeightSource<'a> {
    /// The tensor's name, for error sentences.
    pub name: &'a str,
    /// The file; a backend may keep it alive and read from it in place.
    pub file: &'a Arc<FileBytes>,
    /// First byte of the weight in the file; the range was checked to lie inside.
    pub offset: usize,
    /// Number format of the rows.
    pub format: Format,
    /// Number of rows; 1 for a vector.
    pub n_rows: usize,
    /// Length of a row.
    pub n_cols: usize,
    /// What the weight is for.
    pub role: WeightRole,
}

/// How a weight will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightRole {
    /// Rows of a matrix product, perhaps an embedding table too.
    Matrix,
    /// Rows that are only looked up.
    Table,
    /// A norm's gain or a bias: element-wise, wanted as f32.
    Vector,
}

/// Keys and values of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvHeads {
    /// Key/value heads.
    pub n: usize,
    /// Lengths of their vectors.
    pub dims: HeadDims,
}

/// Shape of the KV cache of a group of layers, in pages of [`PAGE_LEN`](crate::kernels::attention::PAGE_LEN) tokens. How they lie
/// in memory is the backend's.
#[derive(Debug, Clone)]
pub struct KvShape {
    /// The layers.
    pub layers: Vec<KvHeads>,
    /// Pages in the pool of each layer.
    pub n_pages: usize,
    /// What keys are rounded to.
    pub k_type: KvType,
    /// What values are rounded to.
    pub v_type: KvType,
}

/// Upper bounds of the calls of a backend, so that it can allocate its scratch memory beforehand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Most rows in one call.
    pub n_tokens: usize,
    /// Most rows of [`Backend::arg_max`].
    pub n_out: usize,
    /// Longest row of a weight matrix, and most rows of an expert's.
    pub n_cols: usize,
    /// Longest vector of a head.
    pub head_dim: usize,
    /// Query heads.
    pub n_head: usize,
    /// Most positions in a sequence.
    pub n_ctx: usize,
    /// Most sequences.
    pub n_seq: usize,
    /// Groups of layers in [`Pass::groups`].
    pub n_groups: usize,
    /// Most slots of [`Backend::moe_matmul`].
    pub n_slots: usize,
    /// Most experts there.
    pub n_expert: usize,
}

/// Arguments of [`Backend::embed`].
pub struct Embed<'a, B: Backend> {
    /// `[n_vocab, n_embd]` in any format.
    pub table: &'a B::Weight,
    /// Rows to take; each below `n_vocab`.
    pub rows: &'a [u32],
    /// `[rows.len(), n_embd]`.
    pub out: &'a mut B::Buffer,
}

/// One product of [`Backend::matmul_many`]: `out = x · weightᵀ`.
pub struct Product<'a, B: Backend> {
    /// `[n_rows, n_cols]`.
    pub weight: &'a B::Weight,
    /// `[n, n_rows]`.
    pub out: &'a mut B::Buffer,
}

/// The function between the two halves of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU in its tanh form.
    Gelu,
    /// GELU in its exact form.
    GeluErf,
    /// `sigmoid(x)`: a gate and nothing else.
    Sigmoid,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `gate · sigmoid(1.702 gate) · (up + 1)`, where `gate` is at most 7 and `up` is kept within -7 and 7 (gpt-oss).
    SwigluClamped,
}

/// A function of each element by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pointwise {
    /// GELU (Hendrycks & Gimpel 2016).
    Gelu(GeluForm),
    /// `x · sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `e^x`.
    Exp,
    /// `max(x, 0)²` (So et al. 2021).
    ReluSquared,
    /// `a x² + b x` above 0, and `c (e^min(x, d) - 1 - x) + b x` elsewhere (Huang and Schlag 2025, arXiv:2411.13010).
    XIelu {
        /// `a`.
        above: f32,
        /// `b`.
        linear: f32,
        /// `c`.
        below: f32,
        /// `d`.
        most: f32,
    },
}

/// Arguments of [`Backend::gated_matmul`].
pub struct GatedMatmul<'a, B: Backend> {
    /// `[n, n_cols]`.
    pub x: &'a B::Buffer,
    /// Rows of `x`.
    pub n: usize,
    /// `[n_rows, n_cols]`.
    pub gate: &'a B::Weight,
    /// `[n_rows, n_cols]`.
    pub up: &'a B::Weight,
    /// Rows of each of the two.
    pub n_rows: usize,
    /// Applied to the gate.
    pub activation: Activation,
    /// `[n, n_rows]`.
    pub out: &'a mut B::Buffer,
    /// Scratch of as many elements as `out`; its contents afterwards are of no use.
    pub scratch: &'a mut B::Buffer,
}

/// Arguments of [`Backend::rms_norm`] and [`Backend::layer_norm`].
pub struct Norm<'a, B: Backend> {
    /// `[n, n_embd]`.
    pub x: &'a B::Buffer,
    /// The rows of `x` to normalise, in the order they are written to `out`; `None` means rows `0..n`.
    pub rows: Option<&'a [u32]>,
    /// Number of rows when `rows` is `None`.
    pub n: usize,
    /// Gain, `[n_embd]`, or `[n_groups, n_embd]` when row `i` has the gain of group `i % n_groups` (one for each head).
    pub weight: &'a B::Weight,
    /// Shift, shaped like the gain; layer norm only.
    pub bias: Option<&'a B::Weight>,
    /// Added to the variance before its root.
    pub eps: f32,
    /// `[n, n_embd]`.
    pub out: &'a mut B::Buffer,
}

/// Arguments of [`Backend::rope`]: rotary position embedding (Su et al. 2021), in place, of all rows of the pass.
pub struct Rope<'a, B: Backend> {
    /// Queries, `[n, n_head, head_dim]`.
    pub q: &'a mut B::Buffer,
    /// Keys, `[n, n_head_kv, head_dim]`.
    pub k: &'a mut B::Buffer,
    /// Query heads in a row.
    pub n_head: usize,
    /// Key heads in a row; 0: there are only queries.
    pub n_head_kv: usize,
    /// Length of a head; elements from `2 * inv_freq.len()` on stay as they are.
    pub head_dim: usize,
    /// Angle per position for each rotated pair; base, scaling and frequency factors are in it already.
    pub inv_freq: &'a [f32],
    /// Factor on the rotated elements: 1, or the attention factor of YaRN (Peng et al. 2023) and LongRoPE.
    pub magnitude: f32,
    /// Which two elements form a pair.
    pub style: RopeStyle,
}

/// Arguments of [`Backend::kv_append`].
pub struct KvAppend<'a, B: Backend> {
    /// The cache to write.
    pub kv: &'a mut B::Kv,
    /// Layer.
    pub layer: usize,
    /// What is stored.
    pub rows: KvRows<'a, B>,
}

/// The keys and values that [`Backend::kv_append`] stores.
pub enum KvRows<'a, B: Backend> {
    /// New ones: those of all rows of the pass, in their slots.
    New {
        /// The group of the layer.
        group: usize,
        /// `[n, n, dims.k]` of the layer's [`KvHeads`].
        k: &'a B::Buffer,
        /// `[n, n, dims.v]`.
        v: &'a B::Buffer,
    },
    /// Rows that lie in other slots of the same layer. Rows move one after another, so an earlier row may have left the slot that
    /// a later one goes to.
    Moved {
        /// For each row the slot it comes from.
        from: &'a [u32],
        /// And the slot it goes to, see [`PageTables::slots`].
        to: &'a [u32],
        /// How the keys of all rows are re-rotated on the way, in f32, to be rounded again; `None`: not at all.
        rotation: Option<Rotation<'a>>,
    },
}

/// A rotation of the pairs of a head, the same for all heads.
#[derive(Debug, Clone, Copy)]
pub struct Rotation<'a> {
    /// Cosine of each pair's angle; elements from twice their number on stay as they are.
    pub cos: &'a [f32],
    /// Sine of each pair's angle.
    pub sin: &'a [f32],
    /// Which two elements form a pair.
    pub style: RopeStyle,
}

/// Arguments of [`Backend::attention`]: softmax(scale · q·Kᵀ)·V of every row of the pass over its own
/// sequence.
pub struct Attention<'a, B: Backend> {
    /// The cache to read; the batch's own keys and values are in it already.
    pub kv: &'a B::Kv,
    /// The group of the layer.
    pub group: usize,
    /// Layer.
    pub layer: usize,
    /// `[n, n_head, dims.k]`.
    pub q: &'a B::Buffer,
    /// Query heads; a multiple of the layer's key/value heads.
    pub n_head: usize,
    /// Factor on q·k, usually 1/√head_dim.
    pub scale: f32,
    /// The part of its sequence that a row sees.
    pub sees: Sees,
    /// Whether a row sees only positions up to its own; otherwise it sees its whole run too (encoders).
    pub causal: bool,
    /// A row sees only its last `window` positions, its own included. Where attention is not causal, it sees as many from its own
    /// on.
    pub window: Option<usize>,
    /// Whether it sees only the positions of its own stretch of `window` positions instead.
    pub chunked: bool,
    /// How scores grow with the row's position.
    pub growth: Option<Growth>,
    /// Scores pass through `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
    /// Added to the scores after that, by the distance between key and row.
    pub bias: Option<&'a DistanceBias<B::Weight>>,
    /// For each query head a score that enters the softmax and has no value, `[n_head]`.
    pub sinks: Option<&'a B::Weight>,
}

/// Arguments of [`Backend::copy_columns`]: `out[i][to + j] = x[i][from + j]` for rows `i` and columns `j`.
pub struct Columns<'a, B: Backend> {
    /// `[n, n_cols.0]`.
    pub x: &'a B::Buffer,
    /// `[n, n_cols.1]`; other columns stay as they are.
    pub out: &'a mut B::Buffer,
    /// Rows.
    pub n: usize,
    /// Length of a row of `x` and of `out`.
    pub n_cols: (usize, usize),
    /// First column in `x` and in `out`.
    pub first: (usize, usize),
    /// Columns to copy.
    pub len: usize,
}

/// The pages of a KV cache, for code that copies and saves them: pages of [`PAGE_LEN`](crate::kernels::attention::PAGE_LEN)
/// tokens with the keys and values of all layers.
pub trait KvPages {
    /// The default type of keys and values in a model whose heads mostly have `head_dim` components. All of `layers` allow it.
    fn usual_type(layers: &[KvHeads], head_dim: usize) -> KvType
    where
        Self: Sized;
    /// Bytes of a cache and of one of its pages, or none if they cannot be counted.
    fn bytes(shape: &KvShape) -> Option<(usize, usize)>
    where
        Self: Sized;
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;
    /// Copies page `from` over page `to`.
    fn copy_page(&mut self, from: u32, to: u32);
    /// Writes a page to `out`. Tokens outside `used` become zeros.
    fn read_page(&self, page: u32, used: Range<usize>, out: &mut [u8]);
    /// Fills a page with bytes that [`KvPages::read_page`] wrote.
    fn write_page(&mut self, page: u32, bytes: &[u8]);
}

/// The operations a model is made of. See the module's conventions.
pub trait Backend: Send + Sized + 'static {
    /// f32 activations.
    type Buffer: Send;
    /// A weight in a form this backend multiplies by.
    type Weight: Send + Sync;
    /// Keys and values of all layers.
    type Kv: KvPages + Send;
    /// Recurrent states of all layers.
    type States: StateStore + Send;

    /// Makes a weight usable; `src` was validated against its file. Slow work may wait for [`Backend::finish`], which must come
    /// before the first operation with the weight.
    fn upload(&mut self, src: &WeightSource<'_>) -> Result<Self::Weight>;
    /// A buffer of `len` zeros.
    fn alloc(&self, len: usize) -> Result<Self::Buffer>;
    /// An empty KV cache.
    fn alloc_kv(&self, shape: &KvShape) -> Result<Self::Kv>;
    /// Recurrent states, all zero.
    fn alloc_states(&self, shape: &StateShape) -> Result<Self::States>;
    /// Allocates scratch memory for calls up to `limits`. Afterwards operations allocate nothing. Products of F32 weights with
    /// many rows of `x` are the exception: a backend may use a library that allocates.
    fn reserve(&mut self, limits: &Limits) -> Result<()>;
    /// Copies `src` into `dst` from element `offset` on.
    fn write(&mut self, dst: &mut Self::Buffer, offset: usize, src: &[f32]);
    /// Copies from element `offset` of `src` on until `dst` is full.
    fn read(&mut self, src: &Self::Buffer, offset: usize, dst: &mut [f32]);
    /// Waits for everything asked so far and reports what failed.
    fn finish(&mut self) -> Result<()>;
    /// Begins a pass: `pass` holds for all operations up to the next one. A device uploads it once.
    fn begin(&mut self, pass: &Pass<'_>) -> Result<()>;

    /// `out[i] = table[rows[i]]`. Errors: `Io` when the file no longer has the table.
    fn embed(&mut self, args: Embed<'_, Self>) -> Result<()>;
    /// `product.out = x · product.weightᵀ` for the first `n` rows of `x`.
    fn matmul(&mut self, x: &Self::Buffer, n: usize, product: Product<'_, Self>);
    /// `out = x / sqrt(mean(x²) + eps) · weight`, row by row (Zhang & Sennrich 2019).
    fn rms_norm(&mut self, args: Norm<'_, Self>);
    /// `out = (x - mean) / sqrt(variance + eps) · weight + bias`, row by row (Ba et al. 2016).
    fn layer_norm(&mut self, args: Norm<'_, Self>);
    /// `x = pointwise(x)` for the first `len` elements.
    fn activate(&mut self, x: &mut Self::Buffer, pointwise: Pointwise, len: usize);
    /// `x *= y` for the first `len` elements.
    fn mul(&mut self, x: &mut Self::Buffer, y: &Self::Buffer, len: usize);
    /// `x += y` for the first `len` elements.
    fn add(&mut self, x: &mut Self::Buffer, y: &Self::Buffer, len: usize);
    /// Adds the vector `bias` to each of the first `n` rows.
    fn add_bias(&mut self, x: &mut Self::Buffer, bias: &Self::Weight, n: usize);
    /// `x *= factor` for the first `len` elements.
    fn scale(&mut self, x: &mut Self::Buffer, factor: f32, len: usize);
    /// `x = cap · tanh(x / cap)` for the first `len` elements.
    fn softcap(&mut self, x: &mut Self::Buffer, cap: f32, len: usize);
    /// The column of each row's largest element, of equal ones the first, or [`NO_COLUMN`], for the first `out.len()` rows of
    /// `x`, at most [`Limits::n_out`].
    fn arg_max(&mut self, x: &Self::Buffer, n_cols: usize, out: &mut [u32]);
    /// Multiplies each of the first `n` rows of `n_cols` by the sigmoid of its element of `gate`, `[n]`.
    fn sigmoid_gate(&mut self, x: &mut Self::Buffer, gate: &Self::Buffer, n: usize, n_cols: usize);
    /// Rotates queries and keys by their positions.
    fn rope(&mut self, args: Rope<'_, Self>);
    /// Stores keys and values in the cache: new ones, or ones of other slots.
    fn kv_append(&mut self, args: KvAppend<'_, Self>);
    /// Attention over the cache; `out` is `[n, n_head, dims.v]`.
    fn attention(&mut self, args: &Attention<'_, Self>, out: &mut Self::Buffer);
    /// A causal convolution in each channel, whose last rows are its state.
    fn causal_conv(&mut self, args: CausalConv<'_, Self>);
    /// A linear recurrence in each head, whose matrix is its state.
    fn scan(&mut self, args: Scan<'_, Self>);
    /// Copies columns of each row.
    fn copy_columns(&mut self, args: Columns<'_, Self>);
    /// Changes each of the first `n` rows of `n_cols`, in place.
    fn change_rows(&mut self, x: &mut Self::Buffer, change: &RowChange<'_, Self>, n: usize, n_cols: usize);
    /// Adds the vectors of each row, times factors, to those of the same row of another matrix.
    fn mix(&mut self, args: Mix<'_, Self>);
    /// Chooses the experts of each row.
    fn moe_route(&mut self, args: MoeRoute<'_, Self>);
    /// The products of rows with the matrices of their experts.
    fn moe_matmul(&mut self, args: MoeMatmul<'_, Self>);

    /// Several products of one `x`; a backend may prepare `x` once.
    fn matmul_many(&mut self, x: &Self::Buffer, n: usize, products: &mut [Product<'_, Self>]) {
        for p in products {
            self.matmul(x, n, Product { weight: p.weight, out: &mut *p.out });
        }
    }
    /// `out = act(x · gateᵀ) · (x · upᵀ)`: the first half of a gated feed-forward block. A backend may compute it in chunks.
    fn gated_matmul(&mut self, args: GatedMatmul<'_, Self>) {
        let GatedMatmul { x, n, gate, up, n_rows, activation, out, scratch } = args;
        let products =
            &mut [Product { weight: gate, out: &mut *out }, Product { weight: up, out: &mut *scratch }];
        self.matmul_many(x, n, products);
        self.act_mul(activation, out, scratch, n * n_rows);
    }
    /// `gate = act(gate) · up` for the first `len` elements.
    fn act_mul(&mut self, activation: Activation, gate: &mut Self::Buffer, up: &Self::Buffer, len: usize);
    /// `x += y`, then `out = rms_norm(x)`: the residual step between two blocks. Only rows `0..n`, no row list.
    fn add_rms_norm(&mut self, args: AddNorm<'_, Self>) {
        self.add(args.x, args.y, args.n * args.n_embd);
        self.rms_norm(Norm {
            x: args.x,
            rows: None,
            n: args.n,
            weight: args.weight,
            bias: None,
            eps: args.eps,
            out: args.out,
        });
    }
}

/// Arguments of [`Backend::add_rms_norm`].
pub struct AddNorm<'a, B: Backend> {
    /// The residual stream, `[n, n_embd]`; `y` is added to it.
    pub x: &'a mut B::Buffer,
    /// `[n, n_embd]`.
    pub y: &'a B::Buffer,
    /// Rows.
    pub n: usize,
    /// Length of a row.
    pub n_embd: usize,
    /// Gain, `[n_embd]`.
    pub weight: &'a B::Weight,
    /// Added to the mean square before its root.
    pub eps: f32,
    /// `[n, n_embd]`.
    pub out: &'a mut B::Buffer,
}
