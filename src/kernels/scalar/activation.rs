//! Activation functions.
#![forbid(unsafe_code)]

use crate::kernels::{SWIGLU_ALPHA as ALPHA, SWIGLU_LIMIT as LIMIT};

fn gelu_of(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + libm::tanhf(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
}

fn silu_of(x: f32) -> f32 {
    x / (1.0 + libm::expf(-x))
}

pub(super) fn gelu_tanh(x: &mut [f32]) {
    for x in x {
        *x = gelu_of(*x);
    }
}

pub(super) fn gelu_erf(x: &mut [f32]) {
    for x in x {
        *x = 0.5 * *x * (1.0 + libm::erff(*x * std::f32::consts::FRAC_1_SQRT_2));
    }
}

pub(super) fn softcap(x: &mut [f32], cap: f32) {
    for x in x {
        *x = cap * libm::tanhf(*x / cap);
    }
}

pub(super) fn silu(x: &mut [f32]) {
    for x in x {
        *x = silu_of(*x);
    }
}

pub(super) fn gelu_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = gelu_of(*gate) * up;
    }
}

pub(super) fn gelu_erf_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    gelu_erf(gate);
    gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up);
}

pub(super) fn silu_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = silu_of(*gate) * up;
    }
}

pub(super) fn sigmoid_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = up / (1.0 + libm::expf(-*gate));
    }
}

pub(super) fn swiglu_clamped_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    for (gate, &up) in gate.iter_mut().zip(up) {
        // NaNs stay NaN.
        let (g, u) = (if *gate > LIMIT { LIMIT } else { *gate }, up.clamp(-LIMIT, LIMIT));
        *gate = g / (1.0 + libm::expf(-ALPHA * g)) * (u + 1.0);
    }
}
