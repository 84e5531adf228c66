//! Activation functions.
#![forbid(unsafe_code)]

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

pub(super) fn silu_mul(gate: &mut [f32], up: &[f32]) {
    debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = silu_of(*gate) * up;
    }
}
