//! Advanced SIMD as [`Simd`], and the kernels over it. A vector is two registers: with 32 of them that keeps more sums side by
//! side than a single register would.

use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

use half::{bf16, f16};

use crate::kernels::simd::{
    Simd, activation, attention as attn, dots, elementwise, int16, norm, numbers, scan, simd_kernels,
};
use crate::kernels::{AttnState, AttnTile, RopeStyle, ScanStep, SelectiveStep, UnlearnStep};
use crate::quant::Q8Block;

/// Proof that the machine has Advanced SIMD.
#[derive(Clone, Copy)]
struct Neon(());

impl Neon {
    /// # Safety
    /// The machine has Advanced SIMD.
    #[inline(always)]
    unsafe fn new() -> Neon {
        Neon(())
    }
}

/// Fetches the line of memory at `address`, if there is memory, before it is needed.
#[inline(always)]
pub fn fetch_line(address: *const u8) {
    // SAFETY: every 64-bit Arm processor has the instruction, and it accesses no memory.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
}

/// A method that is one instruction, or an expression of some, on each register.
macro_rules! op {
    ($name:ident($($arg:ident),*) = $value:expr) => {
        #[inline(always)]
        fn $name(self $(, $arg: Self::V)*) -> Self::V {
            // SAFETY: `self` proves that the machine has the instructions.
            let one = |$($arg: float32x4_t),*| unsafe { $value };
            [one($($arg[0]),*), one($($arg[1]),*)]
        }
    };
}

impl Simd for Neon {
    type V = [float32x4_t; 2];
    type I = [int32x4_t; 2];
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves that the machine has the instruction.
        [unsafe { vdupq_n_f32(x) }; 2]
    }

    #[inline(always)]
    fn prefetch_soon<T>(self, x: &[T], bytes: usize) {
        self.prefetch_line(x, bytes);
    }

    #[inline(always)]
    fn prefetch_line<T>(self, x: &[T], bytes: usize) {
        fetch_line(x.as_ptr().cast::<u8>().wrapping_add(bytes));
    }

    #[inline(always)]
    fn load(self, x: &[f32]) -> Self::V {
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let low = unsafe { vld1q_f32(x.as_ptr()) };
        // SAFETY: as above.
        [low, unsafe { vld1q_f32(x[4..].as_ptr()) }]
    }

    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> Self::V {
        #[target_feature(enable = "neon")]
        #[inline]
        fn widen(halves: uint16x8_t) -> [float32x4_t; 2] {
            let halves = vreinterpretq_f16_u16(halves);
            [vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)]
        }
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { vld1q_u16(x.as_ptr().cast()) };
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { widen(halves) }
    }

    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> Self::V {
        #[target_feature(enable = "neon")]
        #[inline]
        fn widen(halves: uint16x8_t) -> [float32x4_t; 2] {
            let (low, high) = (vshll_n_u16::<16>(vget_low_u16(halves)), vshll_high_n_u16::<16>(halves));
            [vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)]
        }
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { vld1q_u16(x.as_ptr().cast()) };
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { widen(halves) }
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8]) -> Self::V {
        #[target_feature(enable = "neon")]
        #[inline]
        fn widen(bytes: int8x8_t) -> [float32x4_t; 2] {
            let words = vmovl_s8(bytes);
            [vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), vcvtq_f32_s32(vmovl_high_s16(words))]
        }
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let bytes = unsafe { vld1_s8(x.as_ptr()) };
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { widen(bytes) }
    }

    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32]) {
        let out = &mut out[..8];
        // SAFETY: there is space for 8 elements, and `self` proves that the machine has the instruction.
        unsafe { vst1q_f32(out.as_mut_ptr(), v[0]) }
        // SAFETY: as above.
        unsafe { vst1q_f32(out[4..].as_mut_ptr(), v[1]) }
    }

    #[inline(always)]
    fn store_f16(self, v: Self::V, out: &mut [f16]) {
        #[target_feature(enable = "neon")]
        #[inline]
        fn narrow(v: [float32x4_t; 2]) -> uint16x8_t {
            vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v[0]), v[1]))
        }
        let out = &mut out[..8];
        // SAFETY: `self` proves that the machine has the instructions.
        let halves = unsafe { narrow(v) };
        // SAFETY: as above, and there is space for 8 elements.
        unsafe { vst1q_u16(out.as_mut_ptr().cast(), halves) }
    }

    #[inline(always)]
    fn store_i8(self, v: Self::V, out: &mut [i8]) {
        #[target_feature(enable = "neon")]
        #[inline]
        fn narrow(v: [float32x4_t; 2]) -> int8x8_t {
            let (low, high) = (vcvtq_s32_f32(v[0]), vcvtq_s32_f32(v[1]));
            vmovn_s16(vmovn_high_s32(vmovn_s32(low), high))
        }
        let out = &mut out[..8];
        // SAFETY: `self` proves that the machine has the instructions.
        let bytes = unsafe { narrow(v) };
        // SAFETY: as above, and there is space for 8 elements.
        unsafe { vst1_s8(out.as_mut_ptr(), bytes) }
    }

    #[inline(always)]
    fn store_i16(self, v: Self::V, out: &mut [i16]) {
        #[target_feature(enable = "neon")]
        #[inline]
        fn narrow(v: [float32x4_t; 2]) -> int16x8_t {
            vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(v[0])), vcvtnq_s32_f32(v[1]))
        }
        let out = &mut out[..8];
        // SAFETY: `self` proves that the machine has the instructions.
        let halves = unsafe { narrow(v) };
        // SAFETY: as above, and there is space for 8 elements.
        unsafe { vst1q_s16(out.as_mut_ptr(), halves) }
    }

    #[inline(always)]
    fn zeros(self) -> Self::I {
        // SAFETY: `self` proves that the machine has the instruction.
        [unsafe { vdupq_n_s32(0) }; 2]
    }

    #[inline(always)]
    fn load_pairs(self, x: &[i16]) -> Self::I {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instructions.
        [0, 8].map(|i| unsafe { vreinterpretq_s32_s16(vld1q_s16(x[i..].as_ptr())) })
    }

    #[inline(always)]
    fn splat_pair(self, x: [i16; 2]) -> Self::I {
        // SAFETY: `self` proves that the machine has the instruction.
        [unsafe { vdupq_n_s32(bytemuck::cast(x)) }; 2]
    }

    #[inline(always)]
    fn add_products(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        #[target_feature(enable = "neon")]
        #[inline]
        fn one(sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
            let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
            let (low, high) = (vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
            vaddq_s32(sum, vpaddq_s32(low, high))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        [0, 1].map(|i| unsafe { one(sum[i], a[i], b[i]) })
    }

    #[inline(always)]
    fn pairs(self, a: Self::V, b: Self::V) -> Self::I {
        #[target_feature(enable = "neon")]
        #[inline]
        fn one(a: float32x4_t, b: float32x4_t) -> int32x4_t {
            vsliq_n_s32::<16>(vcvtnq_s32_f32(a), vcvtnq_s32_f32(b))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        [0, 1].map(|i| unsafe { one(a[i], b[i]) })
    }

    #[inline(always)]
    fn store_pairs(self, x: Self::I, out: &mut [i16]) {
        for (x, out) in x.into_iter().zip(out[..16].chunks_exact_mut(8)) {
            // SAFETY: there is space for 8 elements, and `self` proves that the machine has the instructions.
            unsafe { vst1q_s16(out.as_mut_ptr(), vreinterpretq_s16_s32(x)) }
        }
    }

    #[inline(always)]
    fn numbers(self, x: Self::I) -> Self::V {
        // SAFETY: `self` proves that the machine has the instruction.
        x.map(|x| unsafe { vcvtq_f32_s32(x) })
    }

    op!(add(a, b) = vaddq_f32(a, b));
    op!(sub(a, b) = vsubq_f32(a, b));
    op!(mul(a, b) = vmulq_f32(a, b));
    op!(div(a, b) = vdivq_f32(a, b));
    op!(mul_add(a, b, c) = vfmaq_f32(c, a, b));
    op!(neg_mul_add(a, b, c) = vfmsq_f32(c, a, b));
    op!(min(a, b) = vbslq_f32(vcltq_f32(a, b), a, b));
    op!(max(a, b) = vbslq_f32(vcgtq_f32(a, b), a, b));
    op!(abs(a) = vabsq_f32(a));
    op!(copysign(a, b) = vbslq_f32(vdupq_n_u32(1 << 31), b, a));
    op!(trunc(a) = vrndq_f32(a));
    op!(round(a) = vrndnq_f32(a));
    op!(scale(a, n) = scale(a, n));
    op!(select_less(a, b, x, y) = vbslq_f32(vcltq_f32(a, b), x, y));

    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        #[target_feature(enable = "neon")]
        #[inline]
        fn inner(v: [float32x4_t; 2]) -> f32 {
            let four = vaddq_f32(v[0], v[1]);
            vaddv_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(v) }
    }

    #[inline(always)]
    fn sums(self, vs: [Self::V; 8]) -> [f32; 8] {
        vs.map(|v| self.sum(v))
    }

    #[inline(always)]
    fn largest(self, v: Self::V) -> f32 {
        let [max, _] = self.max(v, [v[1], v[0]]);
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { vmaxvq_f32(max) }
    }
}

/// See [`Simd::scale`]; in two steps, since 2^n itself may lie beyond the range of normal numbers.
#[target_feature(enable = "neon")]
#[inline]
fn scale(a: float32x4_t, n: float32x4_t) -> float32x4_t {
    let n = vcvtq_s32_f32(n);
    let half = vshrq_n_s32::<1>(n);
    vmulq_f32(vmulq_f32(a, power_of_two(half)), power_of_two(vsubq_s32(n, half)))
}

/// `2^n` for `n` from -126 to 127.
#[target_feature(enable = "neon")]
#[inline]
fn power_of_two(n: int32x4_t) -> float32x4_t {
    vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
}

simd_kernels!("neon", Neon::new(), {
    dot_f32(a: &[f32], b: &[f32]) -> f32 = dots::dot_f32;
    dots_f32(rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f32>;
    dots_f16(rows: &[f16], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f16>;
    packed_f32(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) = numbers::numbers::<_, f32>;
    packed_f16(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) = numbers::numbers::<_, f16>;
    packed_bf16(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) = numbers::numbers::<_, bf16>;
    narrow_f16(x: &[f32], out: &mut [f16]) = dots::narrow_f16;
    narrow_q8_0(x: &[f32], codes: &mut [i8], scales: &mut [f16]) = activation::narrow_q8_0;
    unit_i16(x: &[f32]) -> f32 = int16::unit_i16;
    narrow_i16(x: &[f32], unit: f32, out: &mut [i16]) = int16::narrow_i16;
    expand_f16(row: &[u8], out: &mut [f32]) = dots::expand_f16;
    expand_bf16(row: &[u8], out: &mut [f32]) = dots::expand_bf16;
    quantize_activations(x: &[f32], out: &mut [Q8Block]) = activation::quantize_activations;
    rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = norm::rms_norm;
    gelu_tanh(x: &mut [f32]) = elementwise::gelu_tanh;
    silu(x: &mut [f32]) = elementwise::silu;
    gelu_mul(gate: &mut [f32], up: &[f32]) = elementwise::gelu_mul;
    gelu_erf(x: &mut [f32]) = elementwise::gelu_erf;
    gelu_erf_mul(gate: &mut [f32], up: &[f32]) = elementwise::gelu_erf_mul;
    silu_mul(gate: &mut [f32], up: &[f32]) = elementwise::silu_mul;
    sigmoid_mul(gate: &mut [f32], up: &[f32]) = elementwise::sigmoid_mul;
    swiglu_clamped_mul(gate: &mut [f32], up: &[f32]) = elementwise::swiglu_clamped_mul;
    scan_step(step: &ScanStep<'_>, state: &mut [f32], out: &mut [f32]) = scan::scan_step;
    selective_step(step: &SelectiveStep<'_>, state: &mut [f32], out: &mut [f32]) = scan::selective_step;
    unlearn_step(step: &UnlearnStep<'_>, state: &mut [f32], out: &mut [f32]) = scan::unlearn_step;
    rope(x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) = elementwise::rope;
    attention(tile: &AttnTile<'_>, positions: Range<usize>, state: &mut AttnState<'_>) = attn::attention;
});
