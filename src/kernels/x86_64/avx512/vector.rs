//! AVX-512 as [`Simd`], and the kernels made of it.

use std::arch::x86_64::*;
use std::ops::Range;

use half::{bf16, f16};

use super::super::fetch_line;
use super::super::wide::{self as products, AddWhole};
use crate::kernels::simd::wide::LargestSum;
use crate::kernels::simd::{
    Simd, activation, attention as attn, dots, elementwise, int16, norm, numbers, scan, simd_kernels, wide,
};
use crate::kernels::{AttnState, AttnTile, I16Block, RopeStyle, ScanStep, SelectiveStep, UnlearnStep};
use crate::quant::Q8Block;
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::Group;

/// Proof that [`super::supported`] returned true.
#[derive(Clone, Copy)]
struct Avx512(());

impl Avx512 {
    /// # Safety
    /// [`super::supported`] returns true.
    #[inline(always)]
    unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

/// The lanes of the first `n` elements; all lanes if `n` is larger.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    if n < 16 { (1 << n) - 1 } else { !0 }
}

/// A method that is one instruction on vectors.
macro_rules! op {
    ($name:ident($($arg:ident),*) = $value:expr) => {
        #[inline(always)]
        fn $name(self $(, $arg: __m512)*) -> __m512 {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $value }
        }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    type I = __m512i;
    const LANES: usize = 16;

    #[inline(always)]
    fn prefetch_soon<T>(self, x: &[T], bytes: usize) {
        fetch_line::<_MM_HINT_T0>(x.as_ptr().cast::<i8>().wrapping_add(bytes));
    }

    #[inline(always)]
    fn prefetch_line<T>(self, x: &[T], bytes: usize) {
        fetch_line::<_MM_HINT_T1>(x.as_ptr().cast::<i8>().wrapping_add(bytes));
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, x: &[f32]) -> __m512 {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> __m512 {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(halves) }
    }

    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> __m512 {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        // SAFETY: as above.
        let words = unsafe { _mm512_cvtepu16_epi32(halves) };
        // SAFETY: as above.
        let words = unsafe { _mm512_slli_epi32::<16>(words) };
        // SAFETY: as above.
        unsafe { _mm512_castsi512_ps(words) }
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8]) -> __m512 {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instruction.
        let bytes = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        // SAFETY: as above.
        let words = unsafe { _mm512_cvtepi8_epi32(bytes) };
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(words) }
    }

    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32]) {
        let out = &mut out[..16];
        // SAFETY: there is space for 16 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m512, out: &mut [f16]) {
        let out = &mut out[..16];
        // SAFETY: `self` proves that the machine has the instruction.
        let halves = unsafe { _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v) };
        // SAFETY: as above, and there is space for 16 elements.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), halves) }
    }

    #[inline(always)]
    fn store_i8(self, v: __m512, out: &mut [i8]) {
        let out = &mut out[..16];
        // SAFETY: `self` proves that the machine has the instruction.
        let words = unsafe { _mm512_cvtps_epi32(v) };
        // SAFETY: as above.
        let bytes = unsafe { _mm512_cvtsepi32_epi8(words) };
        // SAFETY: as above, and there is space for 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) }
    }

    #[inline(always)]
    fn store_i16(self, v: __m512, out: &mut [i16]) {
        let out = &mut out[..16];
        // SAFETY: `self` proves that the machine has the instruction.
        let words = unsafe { _mm512_cvtps_epi32(v) };
        // SAFETY: as above.
        let halves = unsafe { _mm512_cvtsepi32_epi16(words) };
        // SAFETY: as above, and there is space for 16 elements.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), halves) }
    }

    #[inline(always)]
    fn zeros(self) -> __m512i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load_pairs(self, x: &[i16]) -> __m512i {
        let x = &x[..32];
        // SAFETY: there are 32 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat_pair(self, x: [i16; 2]) -> __m512i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_set1_epi32(bytemuck::cast(x)) }
    }

    #[inline(always)]
    fn add_products(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_dpwssd_epi32(sum, a, b) }
    }

    #[inline(always)]
    fn pairs(self, a: __m512, b: __m512) -> __m512i {
        #[target_feature(enable = "avx512f,avx512bw")]
        #[inline]
        fn inner(a: __m512, b: __m512) -> __m512i {
            let (a, b) = (_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
            _mm512_mask_blend_epi16(0xaaaa_aaaa, a, _mm512_slli_epi32::<16>(b))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(a, b) }
    }

    #[inline(always)]
    fn store_pairs(self, x: __m512i, out: &mut [i16]) {
        let out = &mut out[..32];
        // SAFETY: there is space for 32 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn numbers(self, x: __m512i) -> __m512 {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn load_some(self, x: &[f32], rest: f32) -> __m512 {
        let mask = first(x.len());
        // SAFETY: elements beyond the slice are not read, and `self` proves that the machine has the instruction.
        unsafe { _mm512_mask_loadu_ps(self.splat(rest), mask, x.as_ptr()) }
    }

    #[inline(always)]
    fn store_some(self, v: __m512, out: &mut [f32]) {
        let mask = first(out.len());
        // SAFETY: elements beyond the slice are not written, and `self` proves that the machine has the instruction.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), mask, v) }
    }

    op!(add(a, b) = _mm512_add_ps(a, b));
    op!(sub(a, b) = _mm512_sub_ps(a, b));
    op!(mul(a, b) = _mm512_mul_ps(a, b));
    op!(div(a, b) = _mm512_div_ps(a, b));
    op!(mul_add(a, b, c) = _mm512_fmadd_ps(a, b, c));
    op!(neg_mul_add(a, b, c) = _mm512_fnmadd_ps(a, b, c));
    op!(min(a, b) = _mm512_min_ps(a, b));
    op!(max(a, b) = _mm512_max_ps(a, b));
    op!(abs(a) = _mm512_abs_ps(a));
    op!(trunc(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO }>(a));
    op!(round(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(a));
    op!(scale(a, n) = _mm512_scalef_ps(a, n));

    #[inline(always)]
    fn copysign(self, a: __m512, b: __m512) -> __m512 {
        let sign = self.splat(-0.0);
        // SAFETY: `self` proves that the machine has the instruction.
        let sign = unsafe { _mm512_and_ps(sign, b) };
        // SAFETY: as above.
        unsafe { _mm512_or_ps(self.abs(a), sign) }
    }

    #[inline(always)]
    fn select_less(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        // SAFETY: `self` proves that the machine has the instruction.
        let less = unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) };
        // SAFETY: as above.
        unsafe { _mm512_mask_blend_ps(less, y, x) }
    }

    #[inline(always)]
    fn sum(self, v: __m512) -> f32 {
        #[target_feature(enable = "avx512f,avx512dq")]
        #[inline]
        fn inner(v: __m512) -> f32 {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(v) }
    }

    #[inline(always)]
    fn sums(self, vs: [__m512; 8]) -> [f32; 8] {
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn inner(vs: [__m512; 8]) -> __m256 {
            let order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14);
            _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all_sums(vs)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        let sums = unsafe { inner(vs) };
        // SAFETY: both types are eight numbers.
        unsafe { std::mem::transmute::<__m256, [f32; 8]>(sums) }
    }

    #[inline(always)]
    fn largest(self, v: __m512) -> f32 {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { _mm512_reduce_max_ps(v) }
    }
}

/// The sums of vectors a to h, each twice: `aaeebbffccggddhh`. Each step adds what [`Simd::sum`] adds, of twice as many vectors in one
/// register.
#[target_feature(enable = "avx512f")]
#[inline]
fn all_sums([a, b, c, d, e, f, g, h]: [__m512; 8]) -> __m512 {
    let halves = |a, b| {
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
        )
    };
    let quarters = |a, b| {
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
        )
    };
    let low = _mm512_castps_pd(quarters(halves(a, b), halves(c, d)));
    let high = _mm512_castps_pd(quarters(halves(e, f), halves(g, h)));
    let twos = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)),
    );
    _mm512_add_ps(twos, _mm512_permute_ps::<0b10_11_00_01>(twos))
}

impl LargestSum for Avx512 {
    #[inline(always)]
    fn largest_sum(self, vs: [__m512; 8]) -> f32 {
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn inner(vs: [__m512; 8]) -> Option<__m512> {
            let sums = all_sums(vs);
            let finite = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(sums), _mm512_set1_ps(f32::INFINITY));
            (finite == !0).then_some(sums)
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(vs) }.map_or(f32::NAN, |sums| self.largest(sums))
    }
}

impl AddWhole for Avx512 {
    #[inline(always)]
    fn add_whole(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm512_add_epi32(a, b) }
    }
}

simd_kernels!("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma", Avx512::new(), {
    dot_f32(a: &[f32], b: &[f32]) -> f32 = dots::dot_f32;
    dots_f32(rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f32>;
    dots_f16(rows: &[f16], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f16>;
    packed_f32(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) = numbers::numbers::<_, f32>;
    round_wide(x: &[f32], out: &mut [I16Block]) = wide::round;
    pack_wide_f16(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) = wide::pack::<_, f16>;
    pack_wide_bf16(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) = wide::pack::<_, bf16>;
    wide_pair(groups: [&Group<'_>; 2], x: &[I16Block], out: [&mut [f32]; 2]) = products::pair;
    wide_product(group: &Group<'_>, x: &[I16Block], out: &mut [f32]) = products::product;
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
