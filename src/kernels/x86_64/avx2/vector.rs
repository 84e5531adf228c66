//! AVX2 as [`Simd`], and the kernels made of it.

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

/// Proof that the machine has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine has AVX2, FMA and F16C.
    #[inline(always)]
    unsafe fn new() -> Avx2 {
        Avx2(())
    }
}

/// A method that is one instruction, or an expression of some, on vectors.
macro_rules! op {
    ($name:ident($($arg:ident),*) = $value:expr) => {
        #[inline(always)]
        fn $name(self $(, $arg: __m256)*) -> __m256 {
            // SAFETY: `self` proves that the machine has the instructions.
            unsafe { $value }
        }
    };
}

impl Simd for Avx2 {
    type V = __m256;
    type I = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    fn prefetch_soon<T>(self, x: &[T], bytes: usize) {
        fetch_line::<_MM_HINT_T0>(x.as_ptr().cast::<i8>().wrapping_add(bytes));
    }

    #[inline(always)]
    fn prefetch_line<T>(self, x: &[T], bytes: usize) {
        fetch_line::<_MM_HINT_T1>(x.as_ptr().cast::<i8>().wrapping_add(bytes));
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, x: &[f32]) -> __m256 {
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> __m256 {
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { _mm256_cvtph_ps(halves) }
    }

    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> __m256 {
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let halves = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        // SAFETY: as above.
        let words = unsafe { _mm256_cvtepu16_epi32(halves) };
        // SAFETY: as above.
        let words = unsafe { _mm256_slli_epi32::<16>(words) };
        // SAFETY: as above.
        unsafe { _mm256_castsi256_ps(words) }
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8]) -> __m256 {
        let x = &x[..8];
        // SAFETY: there are 8 elements, and `self` proves that the machine has the instruction.
        let bytes = unsafe { _mm_loadl_epi64(x.as_ptr().cast()) };
        // SAFETY: as above.
        let words = unsafe { _mm256_cvtepi8_epi32(bytes) };
        // SAFETY: as above.
        unsafe { _mm256_cvtepi32_ps(words) }
    }

    #[inline(always)]
    fn store(self, v: __m256, out: &mut [f32]) {
        let out = &mut out[..8];
        // SAFETY: there is space for 8 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m256, out: &mut [f16]) {
        let out = &mut out[..8];
        // SAFETY: `self` proves that the machine has the instruction.
        let halves = unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v) };
        // SAFETY: as above, and there is space for 8 elements.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), halves) }
    }

    #[inline(always)]
    fn store_i8(self, v: __m256, out: &mut [i8]) {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn bytes(v: __m256) -> i64 {
            let words = _mm256_cvtps_epi32(v);
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            let halves = _mm_packs_epi32(low, high);
            _mm_cvtsi128_si64(_mm_packs_epi16(halves, halves))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        let bytes = unsafe { bytes(v) }.to_le_bytes();
        out[..8].copy_from_slice(&bytes.map(u8::cast_signed));
    }

    #[inline(always)]
    fn store_i16(self, v: __m256, out: &mut [i16]) {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn halves(v: __m256) -> __m128i {
            let words = _mm256_cvtps_epi32(v);
            _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
        }
        let out = &mut out[..8];
        // SAFETY: `self` proves that the machine has the instructions.
        let halves = unsafe { halves(v) };
        // SAFETY: as above, and there is space for 8 elements.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), halves) }
    }

    #[inline(always)]
    fn zeros(self) -> __m256i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load_pairs(self, x: &[i16]) -> __m256i {
        let x = &x[..16];
        // SAFETY: there are 16 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat_pair(self, x: [i16; 2]) -> __m256i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_set1_epi32(bytemuck::cast(x)) }
    }

    #[inline(always)]
    fn add_products(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the machine has the instruction.
        let products = unsafe { _mm256_madd_epi16(a, b) };
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(sum, products) }
    }

    #[inline(always)]
    fn pairs(self, a: __m256, b: __m256) -> __m256i {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(a: __m256, b: __m256) -> __m256i {
            let (a, b) = (_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
            _mm256_blend_epi16::<0b1010_1010>(a, _mm256_slli_epi32::<16>(b))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(a, b) }
    }

    #[inline(always)]
    fn store_pairs(self, x: __m256i, out: &mut [i16]) {
        let out = &mut out[..16];
        // SAFETY: there is space for 16 elements, and `self` proves that the machine has the instruction.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn numbers(self, x: __m256i) -> __m256 {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_cvtepi32_ps(x) }
    }

    op!(add(a, b) = _mm256_add_ps(a, b));
    op!(sub(a, b) = _mm256_sub_ps(a, b));
    op!(mul(a, b) = _mm256_mul_ps(a, b));
    op!(div(a, b) = _mm256_div_ps(a, b));
    op!(mul_add(a, b, c) = _mm256_fmadd_ps(a, b, c));
    op!(neg_mul_add(a, b, c) = _mm256_fnmadd_ps(a, b, c));
    op!(min(a, b) = _mm256_min_ps(a, b));
    op!(max(a, b) = _mm256_max_ps(a, b));
    op!(trunc(a) = _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a));
    op!(round(a) = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a));

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        let sign = self.splat(-0.0);
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_andnot_ps(sign, a) }
    }

    #[inline(always)]
    fn copysign(self, a: __m256, b: __m256) -> __m256 {
        let sign = self.splat(-0.0);
        // SAFETY: `self` proves that the machine has the instruction.
        let sign = unsafe { _mm256_and_ps(sign, b) };
        // SAFETY: as above.
        unsafe { _mm256_or_ps(self.abs(a), sign) }
    }

    #[inline(always)]
    fn scale(self, a: __m256, n: __m256) -> __m256 {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(a: __m256, n: __m256) -> __m256 {
            // In two steps, since 2^n itself may lie beyond the range of normal numbers.
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let power = |n: __m256i| {
                let bits = _mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)));
                _mm256_castsi256_ps(bits)
            };
            _mm256_mul_ps(_mm256_mul_ps(a, power(half)), power(_mm256_sub_epi32(n, half)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(a, n) }
    }

    #[inline(always)]
    fn select_less(self, a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
        // SAFETY: `self` proves that the machine has the instruction.
        let less = unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) };
        // SAFETY: as above.
        unsafe { _mm256_blendv_ps(y, x, less) }
    }

    #[inline(always)]
    fn sum(self, v: __m256) -> f32 {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(v: __m256) -> f32 {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(v) }
    }

    #[inline(always)]
    fn sums(self, vs: [__m256; 8]) -> [f32; 8] {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(vs: [__m256; 8]) -> __m256 {
            _mm256_permutevar8x32_ps(all_sums(vs), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        let sums = unsafe { inner(vs) };
        // SAFETY: both types are eight numbers.
        unsafe { std::mem::transmute::<__m256, [f32; 8]>(sums) }
    }

    #[inline(always)]
    fn largest(self, v: __m256) -> f32 {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(v: __m256) -> f32 {
            let four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(v) }
    }
}

/// The sums of vectors a to h: `acegbdfh`. Each step adds what [`Simd::sum`] adds, of twice as many vectors in one register.
#[target_feature(enable = "avx2")]
#[inline]
fn all_sums([a, b, c, d, e, f, g, h]: [__m256; 8]) -> __m256 {
    let halves = |a, b| {
        let sums = _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
        _mm256_castps_pd(sums)
    };
    let quarters = |a, b| {
        _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)))
    };
    let low = quarters(halves(a, b), halves(c, d));
    let high = quarters(halves(e, f), halves(g, h));
    _mm256_add_ps(
        _mm256_shuffle_ps::<0b10_00_10_00>(low, high),
        _mm256_shuffle_ps::<0b11_01_11_01>(low, high),
    )
}

impl LargestSum for Avx2 {
    #[inline(always)]
    fn largest_sum(self, vs: [__m256; 8]) -> f32 {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn inner(vs: [__m256; 8]) -> Option<__m256> {
            let sums = all_sums(vs);
            let magnitudes = _mm256_andnot_ps(_mm256_set1_ps(-0.0), sums);
            let finite = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitudes, _mm256_set1_ps(f32::INFINITY));
            (_mm256_movemask_ps(finite) == 0xFF).then_some(sums)
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(vs) }.map_or(f32::NAN, |sums| self.largest(sums))
    }
}

impl AddWhole for Avx2 {
    #[inline(always)]
    fn add_whole(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the machine has the instruction.
        unsafe { _mm256_add_epi32(a, b) }
    }
}

simd_kernels!("avx2,fma,f16c", Avx2::new(), {
    dot_f32(a: &[f32], b: &[f32]) -> f32 = dots::dot_f32;
    dots_f32(rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f32>;
    dots_f16(rows: &[f16], x: &[f32], n_cols: usize, out: &mut [f32]) = dots::dots::<_, f16>;
    packed_f32(groups: &[u8], x: &[f32], n_cols: usize, out: &mut [f32]) = numbers::numbers::<_, f32>;
    round_wide(x: &[f32], out: &mut [I16Block]) = wide::round;
    pack_wide_f16(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) = wide::pack::<_, f16>;
    pack_wide_bf16(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) = wide::pack::<_, bf16>;
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
