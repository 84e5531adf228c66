//! Exponentials sixteen at a time, and the activations made of them.

use std::arch::x86_64::*;

/// Elements in a register.
const LANES: usize = 16;

/// `e^x` within two units in the last place: `x` is cut into a whole number of `ln 2` and a rest of at most half of
/// it, for which the first seven terms of the series are enough. Infinities, NaN and results beyond the range of
/// numbers come out as they should.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
pub fn exp(x: __m512) -> __m512 {
    const LN_2_HIGH: f32 = 0.693_145_75;
    const LN_2_LOW: f32 = 1.428_606_8e-6;
    // Beyond these the result is 0 or infinite. A NaN is the second operand, which is what comparisons with it give.
    let x = _mm512_max_ps(_mm512_set1_ps(-110.0), _mm512_min_ps(_mm512_set1_ps(90.0), x));
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(_mm512_mul_ps(
        x,
        _mm512_set1_ps(std::f32::consts::LOG2_E),
    ));
    let rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
    let rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), rest);
    let mut sum = _mm512_set1_ps(1.0 / 5040.0);
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(term));
    }
    _mm512_scalef_ps(sum, n)
}

/// `1 / (1 + e^-x)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn sigmoid(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    _mm512_div_ps(one, _mm512_add_ps(one, exp(_mm512_sub_ps(_mm512_setzero_ps(), x))))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn silu_of(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    _mm512_div_ps(x, _mm512_add_ps(one, exp(_mm512_sub_ps(_mm512_setzero_ps(), x))))
}

/// The tanh form: `(1 + tanh(y)) / 2` is `sigmoid(2 y)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
fn gelu_of(x: __m512) -> __m512 {
    const TWO_SQRT_2_OVER_PI: f32 = 2.0 * 0.797_884_6;
    let cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
    let y = _mm512_fmadd_ps(_mm512_set1_ps(0.044715), cube, x);
    _mm512_mul_ps(x, sigmoid(_mm512_mul_ps(_mm512_set1_ps(TWO_SQRT_2_OVER_PI), y)))
}

/// The lanes that exist when `n` elements are left.
#[inline]
pub fn mask(n: usize) -> __mmask16 {
    if n >= LANES { !0 } else { (1 << n) - 1 }
}

/// Up to sixteen numbers; the others are 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
pub fn load(x: &[f32]) -> __m512 {
    // SAFETY: lanes beyond the slice are masked off.
    unsafe { _mm512_maskz_loadu_ps(mask(x.len()), x.as_ptr()) }
}

/// Writes up to sixteen numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
pub fn store(x: &mut [f32], values: __m512) {
    // SAFETY: lanes beyond the slice are masked off.
    unsafe { _mm512_mask_storeu_ps(x.as_mut_ptr(), mask(x.len()), values) }
}

/// `x[i] = f(x[i])`, or `f(x[i]) * up[i]`, as a kernel.
macro_rules! elementwise {
    ($name:ident, $of:ident) => {
        pub fn $name(x: &mut [f32]) {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
            fn inner(x: &mut [f32]) {
                for x in x.chunks_mut(LANES) {
                    store(x, $of(load(x)));
                }
            }
            // SAFETY: this function is reached through the table of this level only, which is handed out on machines
            // that have its instructions.
            unsafe { inner(x) }
        }
    };
    ($name:ident, $of:ident, up) => {
        pub fn $name(gate: &mut [f32], up: &[f32]) {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
            fn inner(gate: &mut [f32], up: &[f32]) {
                for (gate, up) in gate.chunks_mut(LANES).zip(up.chunks(LANES)) {
                    let n = gate.len().min(up.len());
                    let product = _mm512_mul_ps($of(load(&gate[..n])), load(&up[..n]));
                    store(&mut gate[..n], product);
                }
            }
            debug_assert_eq!(gate.len(), up.len(), "the vectors differ in length");
            // SAFETY: as above.
            unsafe { inner(gate, up) }
        }
    };
}

elementwise!(silu, silu_of);
elementwise!(gelu_tanh, gelu_of);
elementwise!(silu_mul, silu_of, up);
elementwise!(gelu_mul, gelu_of, up);
