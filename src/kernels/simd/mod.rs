//! Kernels written once for every vector instruction set: [`Simd`] has the operations that they need.
//!
//! A value of a type that implements [`Simd`] is proof that the machine has the instructions, so its methods are safe. Everything
//! here is `#[inline(always)]`: an instruction set's table holds functions that are compiled with its instructions and call
//! these, and none of these remains as a function of its own.
//!
//! Nothing here is called through `Fn` or a method that is not `#[inline(always)]`: such a call would be compiled without the instructions.
//! A function with more vectors than registers, and no array of them, begins with `frame::align_frame`, since LLVM may otherwise keep
//! them on the stack across two lines of the cache.
#![forbid(unsafe_code)]

pub mod activation;
pub mod attention;
pub mod dots;
pub mod elementwise;
pub mod int16;
mod next_blocks;
pub mod norm;
pub mod numbers;
mod pairs;
mod parts_of_keys;
pub mod scan;
#[cfg(target_arch = "x86_64")]
pub mod wide;

use half::{bf16, f16};

/// Most lanes of any instruction set.
pub const MAX_LANES: usize = 16;
/// Bytes that memory delivers together.
const LINE: usize = 64;

/// Vectors of f32. Slices to load or store have at least [`Simd::LANES`] elements, or the call panics.
pub trait Simd: Copy {
    /// A vector.
    type V: Copy;
    /// A vector of 32-bit integers, or of twice as many 16-bit ones.
    type I: Copy;
    /// Elements in a vector: 8 or 16.
    const LANES: usize;

    /// Prefetches the cache line that begins `bytes` after the beginning of `x`, inside `x` or not, where the machine can.
    fn prefetch_soon<T>(self, x: &[T], bytes: usize);
    /// As [`Simd::prefetch_soon`], long before the use: not into the first-level cache, which is too small for all lines under
    /// way.
    fn prefetch_line<T>(self, x: &[T], bytes: usize);
    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// The first elements of `x`.
    fn load(self, x: &[f32]) -> Self::V;
    /// The first elements of `x`, widened.
    fn load_f16(self, x: &[f16]) -> Self::V;
    /// The first elements of `x`, widened.
    fn load_bf16(self, x: &[bf16]) -> Self::V;
    /// The first elements of `x`, widened.
    fn load_i8(self, x: &[i8]) -> Self::V;
    /// Writes the first elements of `out`.
    fn store(self, v: Self::V, out: &mut [f32]);
    /// Writes the first elements of `out`, rounded to the nearest, ties to even.
    fn store_f16(self, v: Self::V, out: &mut [f16]);
    /// Writes integers in -128..=127 to the first elements of `out`.
    fn store_i8(self, v: Self::V, out: &mut [i8]);
    /// Writes the first elements of `out`, numbers of 16 bits, rounded to the nearest, ties to even.
    fn store_i16(self, v: Self::V, out: &mut [i16]);
    /// 0 in every lane.
    fn zeros(self) -> Self::I;
    /// The first elements of `x`, twice as many as there are lanes.
    fn load_pairs(self, x: &[i16]) -> Self::I;
    /// `x` in every lane.
    fn splat_pair(self, x: [i16; 2]) -> Self::I;
    /// `sum[i] + a[i][0] * b[i][0] + a[i][1] * b[i][1]`, modulo 2^32.
    fn add_products(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I;
    /// The numbers of `a` and of `b`, 16 bits each, rounded to the nearest, ties to even: lane by lane side by side.
    fn pairs(self, a: Self::V, b: Self::V) -> Self::I;
    /// Writes the first elements of `out`, twice as many as there are lanes.
    fn store_pairs(self, x: Self::I, out: &mut [i16]);
    /// 32-bit integers, rounded.
    fn numbers(self, x: Self::I) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`, rounded once.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The smaller; `b` where one is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `b` where one is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `|a|`.
    fn abs(self, a: Self::V) -> Self::V;
    /// The magnitude of `a` with the sign of `b`.
    fn copysign(self, a: Self::V, b: Self::V) -> Self::V;
    /// Without its fraction.
    fn trunc(self, a: Self::V) -> Self::V;
    /// To the nearest integer.
    fn round(self, a: Self::V) -> Self::V;
    /// `a * 2^n` for integers `n` in -160..=130; with a NaN in `n` or `a`, NaN or anything.
    fn scale(self, a: Self::V, n: Self::V) -> Self::V;
    /// `x` where `a < b`, otherwise (NaNs too) `y`.
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// The sum of all lanes: the upper half is added to the lower half until one is left.
    fn sum(self, v: Self::V) -> f32;
    /// The sums of eight vectors, each as [`Simd::sum`] adds up.
    fn sums(self, vs: [Self::V; 8]) -> [f32; 8];
    /// The largest of all lanes, none of which is NaN.
    fn largest(self, v: Self::V) -> f32;

    /// Fetches `x` before it is needed.
    #[inline(always)]
    fn prefetch<T>(self, x: &[T]) {
        for line in (0..size_of_val(x)).step_by(LINE) {
            self.prefetch_soon(x, line);
        }
    }

    /// Up to [`Simd::LANES`] elements of a slice that may be shorter; the others are `rest`.
    #[inline(always)]
    fn load_some(self, x: &[f32], rest: f32) -> Self::V {
        if x.len() >= Self::LANES {
            return self.load(x);
        }
        let mut buffer = [rest; MAX_LANES];
        buffer[..x.len()].copy_from_slice(x);
        self.load(&buffer)
    }

    /// Writes as many elements as `out` has, up to [`Simd::LANES`].
    #[inline(always)]
    fn store_some(self, v: Self::V, out: &mut [f32]) {
        if out.len() >= Self::LANES {
            return self.store(v, out);
        }
        let mut buffer = [0.0; MAX_LANES];
        self.store(v, &mut buffer);
        let n = out.len();
        out.copy_from_slice(&buffer[..n]);
    }
}

/// A number in memory that is widened when it is loaded.
pub trait Element: Copy {
    /// 0.
    const ZERO: Self;
    /// The first elements of `x`.
    fn load<S: Simd>(simd: S, x: &[Self]) -> S::V;
    /// As f32.
    fn widen(self) -> f32;
}

impl Element for f32 {
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[f32]) -> S::V {
        simd.load(x)
    }
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

impl Element for i8 {
    const ZERO: i8 = 0;
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[i8]) -> S::V {
        simd.load_i8(x)
    }
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

impl Element for f16 {
    const ZERO: f16 = f16::ZERO;
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[f16]) -> S::V {
        simd.load_f16(x)
    }
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Element for bf16 {
    const ZERO: bf16 = bf16::ZERO;
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[bf16]) -> S::V {
        simd.load_bf16(x)
    }
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Up to [`Simd::LANES`] elements of `x`; the others are 0.
#[inline(always)]
pub fn load_some<S: Simd, E: Element>(simd: S, x: &[E]) -> S::V {
    if x.len() >= S::LANES {
        return E::load(simd, x);
    }
    let mut buffer = [E::ZERO; MAX_LANES];
    buffer[..x.len()].copy_from_slice(x);
    E::load(simd, &buffer)
}

/// The kernels of an instruction set over [`Simd`]: functions for its table, compiled with its features. `$simd` is an expression
/// that makes its [`Simd`] inside an `unsafe` block.
macro_rules! simd_kernels {
    ($features:literal, $simd:expr, { $($name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $path:path;)* }) => {
        $(
            pub fn $name($($arg: $type),*) $(-> $out)? {
                #[target_feature(enable = $features)]
                fn inner($($arg: $type),*) $(-> $out)? {
                    $crate::kernels::frame::align_frame();
                    // SAFETY: this function runs on machines that have these features only.
                    let simd = unsafe { $simd };
                    $path(simd, $($arg),*)
                }
                // SAFETY: this function is reached through the table of its level only, which is handed out on
                // machines that have its instructions.
                unsafe { inner($($arg),*) }
            }
        )*
    };
}
pub(super) use simd_kernels;
