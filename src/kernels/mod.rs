//! Single-threaded maths on slices: one table of functions per instruction set, all with the meaning that
//! [`scalar`](mod@scalar) defines in plain Rust.
//!
//! A table holds functions that its CPU can run; [`Kernels::select`] alone hands out tables, after it has checked the CPU. A new
//! instruction set is a folder with a table and one row in [`ISAS`]. It inherits from the level below what it does not override,
//! and the tests of this module run over every row.
//!
//! Every function takes slices of any alignment and any length (empty ones too). Debug builds check that lengths agree. Otherwise
//! the longer slice is cut to the shorter, and an index outside a slice panics: nothing is read or written out of bounds. Numbers
//! behave as IEEE 754 arithmetic says, NaNs and infinities included.
//!
//! | weights | are multiplied |
//! |---|---|
//! | packed formats | with int8 activations in blocks of 32, in integers, with a scale in f32 |
//! | F16, BF16, with AVX2 and above | as 16-bit integers ([`wide`]), with activations rounded likewise |
//! | F16, BF16 elsewhere, and formats without a packing | widened to f32 |
//! | F32, many rows and an f32 KV cache | by the crate `matrixmultiply`, which agrees with the definition within 1e-5 |
//!
//! Norms, softmax and the residual stream are f32. 64-bit Arm has three levels (NEON, dotprod, i8mm) that differ in the instruction that
//! multiplies bytes; their packed products have the same bits.
//!
//! A level is chosen when a model is loaded, since weights are packed then. It is the highest that the machine can run, lowered by
//! `ember_model_options_set_isa` or `EMBER_ISA` and never raised.
#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod attention;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod frame;
pub mod scalar;
pub mod scan;
mod select;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod simd;
#[cfg(test)]
mod tests;
pub mod wide;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::ops::Range;

use half::f16;

use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{Group, Pack, Packing, ROWS};
use crate::quant::{Dot, FORMAT_COUNT, Format, Q8Block};
pub use attention::{AttnState, AttnTile, DistanceBias, HeadDims, KvBlock, KvStore, KvType};
pub use scan::{ScanStep, SelectiveStep, UnlearnStep};
pub use select::ISA_VARIABLE;
pub use wide::{I16Block, Wide};

/// An instruction-set level, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust for the compilation target: runs everywhere and defines what every other level computes.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with VNNI.
    AvxVnni,
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX-512 and the integer tiles of AMX.
    Amx,
    /// Advanced SIMD of 64-bit Arm.
    Neon,
    /// Advanced SIMD with dot products of bytes.
    Dotprod,
    /// Advanced SIMD with dot and matrix products of bytes.
    I8mm,
}

/// One instruction-set level of this build.
#[derive(Debug, Clone, Copy)]
pub struct IsaInfo {
    /// The level.
    pub isa: Isa,
    /// Its name in options and build information.
    pub name: &'static str,
    /// Whether this machine can run it.
    pub supported: fn() -> bool,
    /// Its table; call its functions only if `supported` says so.
    kernels: &'static Kernels,
}

/// The levels of this build, lowest first.
pub static ISAS: &[IsaInfo] = &[
    IsaInfo { isa: Isa::Scalar, name: "scalar", supported: || true, kernels: &scalar::SCALAR },
    #[cfg(target_arch = "x86_64")]
    IsaInfo {
        isa: Isa::Avx2,
        name: "avx2",
        supported: x86_64::avx2::supported,
        kernels: &x86_64::avx2::AVX2,
    },
    #[cfg(target_arch = "x86_64")]
    IsaInfo {
        isa: Isa::AvxVnni,
        name: "avxvnni",
        supported: x86_64::avxvnni::supported,
        kernels: &x86_64::avxvnni::AVXVNNI,
    },
    #[cfg(target_arch = "x86_64")]
    IsaInfo {
        isa: Isa::Avx512,
        name: "avx512",
        supported: x86_64::avx512::supported,
        kernels: &x86_64::avx512::AVX512,
    },
    #[cfg(target_arch = "x86_64")]
    IsaInfo { isa: Isa::Amx, name: "amx", supported: x86_64::amx::supported, kernels: &x86_64::amx::AMX },
    #[cfg(target_arch = "aarch64")]
    IsaInfo {
        isa: Isa::Neon,
        name: "neon",
        supported: aarch64::neon::supported,
        kernels: &aarch64::neon::NEON,
    },
    #[cfg(target_arch = "aarch64")]
    IsaInfo {
        isa: Isa::Dotprod,
        name: "dotprod",
        supported: aarch64::dotprod::supported,
        kernels: &aarch64::dotprod::DOTPROD,
    },
    #[cfg(target_arch = "aarch64")]
    IsaInfo {
        isa: Isa::I8mm,
        name: "i8mm",
        supported: aarch64::i8mm::supported,
        kernels: &aarch64::i8mm::I8MM,
    },
];

impl Isa {
    /// The highest level this machine can run.
    pub fn detect() -> Isa {
        Kernels::select(None).isa
    }

    /// The level of that name, as listed in [`ISAS`].
    pub fn from_name(name: &str) -> Option<Isa> {
        ISAS.iter().find(|row| row.name == name).map(|row| row.isa)
    }

    /// The level's name.
    pub fn name(self) -> &'static str {
        ISAS.iter().find(|row| row.isa == self).map_or("scalar", |row| row.name)
    }
}

/// Which components of a head a rotary embedding rotates together, as pair `i` of `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// Components `2i` and `2i + 1`.
    Interleaved,
    /// Components `i` and `i + n`.
    Halved,
}

/// Which form of GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415) a model was trained with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeluForm {
    /// `x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))`.
    Tanh,
    /// `x/2 * (1 + erf(x / √2))`.
    Erf,
}

/// The product of a group of packed rows with activation vectors: `out[t * 16 + r]` for row `r` and vector `t`, of which
/// there are `out.len() / 16`, each of `group.n_pieces` blocks in `x`, one after another.
pub type PackedProduct<B = Q8Block> = fn(group: &Group<'_>, x: &[B], out: &mut [f32]);

/// The products of two groups of equally many pieces with the same vectors, each as of [`PackedProduct`] and with the same bits.
pub type PackedPair<B = Q8Block> = fn(groups: [&Group<'_>; 2], x: &[B], out: [&mut [f32]; 2]);

/// Products with pairs of groups are used from this many vectors on; fewer vectors wait for the weights.
pub const MANY: usize = 24;

/// The product of up to sixteen rows as they lie in the file with one vector.
pub type RowsProduct = fn(rows: &Rows<'_>, x: &[Q8Block], out: &mut [f32; ROWS]);

/// The product of groups of packed rows of numbers ([`crate::quant::packed::Codes::Halves`] or `Singles`) with vectors of
/// `n_cols` elements. With one vector: `out[r]` for the first `out.len()` rows of all groups. With `n` (or none): `out[(g * n +
/// t) * 16 + r]` for group `g`. Each sum begins with the first column, whatever the number of groups and vectors.
pub type PackedNumbers = fn(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]);

/// Expands a row of some format: see [`crate::quant::FormatInfo::dequantize`].
pub type Expand = fn(row: &[u8], out: &mut [f32]);

/// The bytes of a file as half-precision numbers, where they can be read in place.
pub fn halves<T: bytemuck::Pod>(bytes: &[u8]) -> Option<&[T]> {
    if cfg!(target_endian = "little") { bytemuck::try_cast_slice(bytes).ok() } else { None }
}

/// How each format expands a row, with the level's own functions for the two half-precision formats.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn expansions(f16: Expand, bf16: Expand) -> [Expand; FORMAT_COUNT] {
    let mut expand = scalar::SCALAR.expand;
    expand[Format::F16 as usize] = f16;
    expand[Format::BF16 as usize] = bf16;
    expand
}

/// The products of a level with packed numbers.
#[cfg(target_arch = "x86_64")]
const fn numbers(f32: PackedNumbers) -> [Option<PackedNumbers>; FORMAT_COUNT] {
    let mut table: [Option<PackedNumbers>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::F32 as usize] = Some(f32);
    table
}

/// The products of a level with packed numbers.
#[cfg(target_arch = "aarch64")]
const fn numbers(
    f32: PackedNumbers,
    f16: PackedNumbers,
    bf16: PackedNumbers,
) -> [Option<PackedNumbers>; FORMAT_COUNT] {
    let mut table: [Option<PackedNumbers>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::F32 as usize] = Some(f32);
    table[Format::F16 as usize] = Some(f16);
    table[Format::BF16 as usize] = Some(bf16);
    table
}

/// See [`Kernels::layer_norm`].
pub type LayerNorm = fn(x: &[f32], weight: &[f32], bias: Option<&[f32]>, eps: f32, out: &mut [f32]);

/// The factor in the sigmoid of [`Kernels::swiglu_clamped_mul`].
pub(crate) const SWIGLU_ALPHA: f32 = 1.702;
/// The bound of [`Kernels::swiglu_clamped_mul`].
pub(crate) const SWIGLU_LIMIT: f32 = 7.0;

/// The functions of one instruction-set level.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// The level.
    pub isa: Isa,
    /// `Σ a[i] * b[i]`.
    pub dot_f32: fn(a: &[f32], b: &[f32]) -> f32,
    /// `out[t * n_rows + r] = Σ rows[r][i] * x[t][i]` for rows and vectors of `n_cols` elements, one after another.
    pub dots_f32: fn(rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]),
    /// As `dots_f32` for rows of binary16 numbers.
    pub dots_f16: fn(rows: &[f16], x: &[f32], n_cols: usize, out: &mut [f32]),
    /// How a weight row of each format is expanded, indexed by `Format as usize`: the same bits on every level.
    pub expand: [Expand; FORMAT_COUNT],
    /// Rounds to binary16, ties to even.
    pub narrow_f16: fn(x: &[f32], out: &mut [f16]),
    /// Rounds blocks of 32 numbers to bytes and a scale, exactly as [`crate::quant::q8_0::quantize`] does.
    pub narrow_q8_0: fn(x: &[f32], codes: &mut [i8], scales: &mut [f16]),
    /// The unit of one head's vector for `narrow_i16`: the smallest power of two for which integers times it fit 16 bits, and the
    /// sum of their squares stays below 2^31. 0 if all of `x` is below 2^-100, NaN if some of it is not finite.
    pub unit_i16: fn(x: &[f32]) -> f32,
    /// Rounds to multiples of `unit`, ties to even; to zeros where the unit is 0. Vectors are a multiple of 16 long.
    pub narrow_i16: fn(x: &[f32], unit: f32, out: &mut [i16]),
    /// How a weight row of each format is multiplied with activations, indexed by `Format as usize`.
    pub dot: [Dot; FORMAT_COUNT],
    /// Products with packed rows of each format, indexed by `Format as usize`; `None`: packing gains nothing here, see
    /// [`Kernels::packed_product`].
    pub packed: [Option<PackedProduct>; FORMAT_COUNT],
    /// Products with two groups in one call where that is faster than one after the other, indexed by `Format as usize`. A level
    /// that overrides `packed` overrides these too, or has none.
    pub pairs: [Option<PackedPair>; FORMAT_COUNT],
    /// As `packed` for formats whose groups are numbers; see [`Kernels::packed_numbers`].
    pub numbers: [Option<PackedNumbers>; FORMAT_COUNT],
    /// Products with F16 and BF16 weights as integers; a level has these or `numbers` of these formats.
    pub wide: Option<&'static Wide>,
    /// Puts words of sixteen rows side by side for packing: [`crate::quant::pack::transpose`].
    pub transpose: Transpose,
    /// How this level packs rows of each format, indexed by `Format as usize`, where that is faster than [`Packing::pack`] of the
    /// format: the same bytes.
    pub pack: [Option<Pack>; FORMAT_COUNT],
    /// Products of single vectors with rows as they lie in the file, indexed by `Format as usize`, where packing them first is
    /// slower. They have the bits of the product with packed rows.
    pub rows: [Option<RowsProduct>; FORMAT_COUNT],
    /// How this level packs rows of each format in a layout of its own, indexed by `Format as usize`.
    pub layouts: &'static [Option<Packing>; FORMAT_COUNT],
    /// One block per 32 activations; see [`crate::quant::quantize_activations`].
    pub quantize_activations: fn(x: &[f32], out: &mut [Q8Block]),
    /// `out[i] = x[i] / √(mean(x²) + eps) * weight[i]` (Zhang and Sennrich 2019, arXiv:1910.07467).
    pub rms_norm: fn(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]),
    /// `out[i] = (x[i] - mean(x)) / √(variance(x) + eps) * weight[i] + bias[i]` (Ba et al. 2016, arXiv:1607.06450);
    /// without a bias nothing is added.
    pub layer_norm: LayerNorm,
    /// [`GeluForm::Tanh`] of each element.
    pub gelu_tanh: fn(x: &mut [f32]),
    /// [`GeluForm::Erf`] of each element.
    pub gelu_erf: fn(x: &mut [f32]),
    /// `x[i] = x[i] / (1 + exp(-x[i]))`: SiLU.
    pub silu: fn(x: &mut [f32]),
    /// `x[i] = cap * tanh(x[i] / cap)`.
    pub softcap: fn(x: &mut [f32], cap: f32),
    /// `gate[i] = gelu_tanh(gate[i]) * up[i]`.
    pub gelu_mul: fn(gate: &mut [f32], up: &[f32]),
    /// `gate[i] = gelu_erf(gate[i]) * up[i]`.
    pub gelu_erf_mul: fn(gate: &mut [f32], up: &[f32]),
    /// `gate[i] = silu(gate[i]) * up[i]`.
    pub silu_mul: fn(gate: &mut [f32], up: &[f32]),
    /// `gate[i] = up[i] / (1 + exp(-gate[i]))`.
    pub sigmoid_mul: fn(gate: &mut [f32], up: &[f32]),
    /// `gate[i] = g / (1 + exp(-1.702 g)) * (u + 1)`, where `g` is `gate[i]`, at most 7, and `u` is `up[i]`, within -7 and 7 (gpt-oss).
    pub swiglu_clamped_mul: fn(gate: &mut [f32], up: &[f32]),
    /// Rotates pair `i` of one head by the angle whose cosine and sine are `cos[i]` and `sin[i]` (Su et al. 2021,
    /// arXiv:2104.09864): `(a, b)` becomes `(a cos - b sin, a sin + b cos)`. Components beyond the `2 * cos.len()`
    /// first stay as they are.
    pub rope: fn(x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle),
    /// One token of a linear recurrence; see [`ScanStep`].
    pub scan_step: fn(step: &ScanStep<'_>, state: &mut [f32], out: &mut [f32]),
    /// One token of a recurrence whose decays depend on the token; see [`SelectiveStep`].
    pub selective_step: fn(step: &SelectiveStep<'_>, state: &mut [f32], out: &mut [f32]),
    /// One token of a recurrence that unlearns; see [`UnlearnStep`].
    pub unlearn_step: fn(step: &UnlearnStep<'_>, state: &mut [f32], out: &mut [f32]),
    /// Attention of some queries over `positions`, which lie in one chunk; see [`AttnTile`]. Overwrites `state`.
    pub attention: fn(tile: &AttnTile<'_>, positions: Range<usize>, state: &mut AttnState<'_>),
}

impl Kernels {
    /// GELU in the given form.
    pub fn gelu(&self, form: GeluForm) -> fn(&mut [f32]) {
        match form {
            GeluForm::Tanh => self.gelu_tanh,
            GeluForm::Erf => self.gelu_erf,
        }
    }

    /// The product with packed rows of `format`: this level's own, or else the definition in plain Rust. `None` for
    /// formats that cannot be packed, or are not multiplied with rounded activations here.
    pub fn packed_product(&self, format: Format) -> Option<PackedProduct> {
        match self.dot[format as usize] {
            Dot::Q8(_) => self.packed[format as usize].or(scalar::packed::TABLE[format as usize]),
            Dot::F32 => None,
        }
    }

    /// The product with packed numbers of `format`: this level's own, or else the definition. `None` for other formats.
    pub fn packed_numbers(&self, format: Format) -> Option<PackedNumbers> {
        self.numbers[format as usize].or(scalar::packed::NUMBERS[format as usize])
    }

    /// How rows of `format` are packed for this level.
    pub fn packing(&self, format: Format) -> Option<&'static Packing> {
        let own = self.layouts[format as usize].as_ref().or(format.info().packing.as_ref());
        self.wide.and_then(|wide| wide.packing(format)).or(own)
    }

    /// Packs up to sixteen rows of `format` as [`Packing::pack`] of its packing.
    pub fn pack(&self, format: Format, rows: &Rows<'_>, out: &mut [u8]) {
        let Some(packing) = self.packing(format) else {
            unreachable!("rows of a format without a packing are not packed")
        };
        let pack = self.pack[format as usize].unwrap_or(packing.pack);
        pack(rows, self.transpose, out);
    }

    /// Whether this level has a product of its own with packed rows of `format`.
    pub fn packs(&self, format: Format) -> bool {
        let wide = self.wide.and_then(|wide| wide.packing(format));
        self.packed[format as usize].is_some() || self.numbers[format as usize].is_some() || wide.is_some()
    }

    /// The table of the highest level that this machine can run and that is not above `limit`.
    pub fn select(limit: Option<Isa>) -> &'static Kernels {
        let usable = |row: &&IsaInfo| limit.is_none_or(|limit| row.isa <= limit) && (row.supported)();
        ISAS.iter().rev().find(usable).map_or(&scalar::SCALAR, |row| row.kernels)
    }
}
