//! Exponentials, and the activation functions made of them.
#![forbid(unsafe_code)]

use super::Simd;
use crate::kernels::{RopeStyle, SWIGLU_ALPHA, SWIGLU_LIMIT};

/// `e^x` within two units in the last place: `x` is cut into an integer multiple of `ln 2` and a rest of at most half of
/// it, for which the first eight terms of the series are enough. Infinities, NaN and results beyond the range of numbers
/// come out as they should.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::V) -> S::V {
    const LN_2_HIGH: f32 = 0.693_145_75;
    const LN_2_LOW: f32 = 1.428_606_8e-6;
    // Beyond these the result is 0 or infinite.
    let x = simd.max(simd.splat(-110.0), simd.min(simd.splat(90.0), x));
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let rest = simd.neg_mul_add(n, simd.splat(LN_2_HIGH), x);
    let rest = simd.neg_mul_add(n, simd.splat(LN_2_LOW), rest);
    let mut sum = simd.splat(1.0 / 5040.0);
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = simd.mul_add(sum, rest, simd.splat(term));
    }
    simd.scale(sum, n)
}

/// `x / (1 + e^-x)`.
#[inline(always)]
fn silu_of<S: Simd>(simd: S, x: S::V) -> S::V {
    let e = exp(simd, simd.sub(simd.splat(0.0), x));
    simd.div(x, simd.add(simd.splat(1.0), e))
}

/// The tanh form: `(1 + tanh(y)) / 2` is `1 / (1 + e^-2y)`.
#[inline(always)]
fn gelu_of<S: Simd>(simd: S, x: S::V) -> S::V {
    const MINUS_2_SQRT_2_OVER_PI: f32 = -2.0 * 0.797_884_6;
    let cube = simd.mul(simd.mul(x, x), x);
    let y = simd.mul_add(simd.splat(0.044715), cube, x);
    let e = exp(simd, simd.mul(simd.splat(MINUS_2_SQRT_2_OVER_PI), y));
    // Not x / (1 + e): that is NaN for an infinite x, whose result is x or 0.
    let half = simd.div(simd.splat(1.0), simd.add(simd.splat(1.0), e));
    simd.mul(x, half)
}

/// The erf form. With `z = |x| / √2`, half of `erfc(z)` is `t * P(t) * e^-z²` for `t = 1 / (1 + z / 2)`: `P` is a polynomial of
/// degree 9 that was fitted to `e^z² * erfc(z) / 2t` with a relative error of 8e-9.
#[inline(always)]
fn gelu_erf_of<S: Simd>(simd: S, x: S::V) -> S::V {
    const P: [f32; 10] = [
        0.011_236_098,
        -0.089_254_24,
        0.279_299_32,
        -0.421_242_42,
        0.282_105_27,
        -0.087_349_94,
        0.125_900_92,
        0.116_527_45,
        0.141_762_27,
        0.141_015_23,
    ];
    let one = simd.splat(1.0);
    // The rest of larger numbers is 0; infinite ones would give NaN.
    let magnitude = simd.min(simd.splat(20.0), simd.abs(x));
    let z = simd.mul(magnitude, simd.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = simd.div(one, simd.mul_add(simd.splat(0.5), z, one));
    let mut sum = simd.splat(P[0]);
    for term in &P[1..] {
        sum = simd.mul_add(sum, t, simd.splat(*term));
    }
    let e = exp(simd, simd.neg_mul_add(z, z, simd.splat(0.0)));
    let tail = simd.mul(simd.mul(t, sum), e);
    simd.neg_mul_add(magnitude, tail, simd.max(simd.splat(0.0), x))
}

/// `x[i] = f(x[i])`, or `f(x[i]) * up[i]`, as a kernel. It is a macro and not a function of `f`: a function called through `Fn`
/// may be compiled without the instructions of its caller.
macro_rules! elementwise {
    ($name:ident, $of:ident) => {
        #[doc = concat!("See [`crate::kernels::Kernels::", stringify!($name), "`].")]
        #[inline(always)]
        pub fn $name<S: Simd>(simd: S, x: &mut [f32]) {
            for x in x.chunks_mut(S::LANES) {
                let y = $of(simd, simd.load_some(x, 0.0));
                simd.store_some(y, x);
            }
        }
    };
    ($name:ident, $of:ident, up) => {
        #[doc = concat!("See [`crate::kernels::Kernels::", stringify!($name), "`].")]
        #[inline(always)]
        pub fn $name<S: Simd>(simd: S, gate: &mut [f32], up: &[f32]) {
            debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
            let n = gate.len().min(up.len());
            for (gate, up) in gate[..n].chunks_mut(S::LANES).zip(up[..n].chunks(S::LANES)) {
                let y = $of(simd, simd.load_some(gate, 0.0));
                simd.store_some(simd.mul(y, simd.load_some(up, 0.0)), gate);
            }
        }
    };
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
fn sigmoid_of<S: Simd>(simd: S, x: S::V) -> S::V {
    let e = exp(simd, simd.sub(simd.splat(0.0), x));
    simd.div(simd.splat(1.0), simd.add(simd.splat(1.0), e))
}

elementwise!(silu, silu_of);
elementwise!(gelu_tanh, gelu_of);
elementwise!(silu_mul, silu_of, up);
elementwise!(gelu_mul, gelu_of, up);
elementwise!(gelu_erf, gelu_erf_of);
elementwise!(gelu_erf_mul, gelu_erf_of, up);
elementwise!(sigmoid_mul, sigmoid_of, up);

/// See [`crate::kernels::Kernels::swiglu_clamped_mul`].
#[inline(always)]
pub fn swiglu_clamped_mul<S: Simd>(simd: S, gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    let n = gate.len().min(up.len());
    let (limit, one) = (simd.splat(SWIGLU_LIMIT), simd.splat(1.0));
    let lowest = simd.splat(-SWIGLU_LIMIT);
    for (gate, up) in gate[..n].chunks_mut(S::LANES).zip(up[..n].chunks(S::LANES)) {
        let (g, u) = (simd.load_some(gate, 0.0), simd.load_some(up, 0.0));
        let (g, u) = (simd.min(limit, g), simd.max(lowest, simd.min(limit, u)));
        let e = exp(simd, simd.mul(simd.splat(-SWIGLU_ALPHA), g));
        let y = simd.mul(simd.div(g, simd.add(one, e)), simd.add(u, one));
        simd.store_some(y, gate);
    }
}

/// See [`crate::kernels::Kernels::rope`]; neighbouring pairs are rotated one after another.
#[inline(always)]
pub fn rope<S: Simd>(simd: S, x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let n = cos.len().min(x.len() / 2).min(sin.len());
    if style == RopeStyle::Interleaved {
        return (crate::kernels::scalar::SCALAR.rope)(x, cos, sin, style);
    }
    let (lower, upper) = x[..2 * n].split_at_mut(n);
    let angles = cos[..n].chunks(S::LANES).zip(sin[..n].chunks(S::LANES));
    for ((a, b), (cos, sin)) in lower.chunks_mut(S::LANES).zip(upper.chunks_mut(S::LANES)).zip(angles) {
        let (x, y) = (simd.load_some(a, 0.0), simd.load_some(b, 0.0));
        let (cos, sin) = (simd.load_some(cos, 0.0), simd.load_some(sin, 0.0));
        simd.store_some(simd.neg_mul_add(y, sin, simd.mul(x, cos)), a);
        simd.store_some(simd.mul_add(y, cos, simd.mul(x, sin)), b);
    }
}
