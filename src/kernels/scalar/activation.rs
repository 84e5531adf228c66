//! Activation functions.
#![forbid(unsafe_code)]

fn gelu_of(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + libm::tanhf(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
}

fn silu_of(x: f32) -> f32 {
    x / (1.0 + libm::expf(-x))
}

pub(super) fn gelu(x: &mut [f32]) {
    for x in x {
        *x = gelu_of(*x);
    }
}

pub(super) fn silu(x: &mut [f32]) {
    for x in x {
        *x = silu_of(*x);
    }
}

pub(super) fn gelu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    debug_assert!(gate.len() == out.len() && up.len() == out.len(), "the vectors differ in length");
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = gelu_of(gate) * up;
    }
}

pub(super) fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    debug_assert!(gate.len() == out.len() && up.len() == out.len(), "the vectors differ in length");
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = silu_of(gate) * up;
    }
}
