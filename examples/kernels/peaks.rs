//! What the machine can do at most: reading memory, and multiplying with each instruction set's own instructions.
//!
//! Loops over registers only, so that nothing but the multipliers limits them. A number is the best of several runs.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// A measured peak.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    /// `read_gb_s`, `cache_gb_s`, `f32_gmac_s` or `int8_gmac_s`.
    pub what: &'static str,
    /// Billions a second, of all threads together.
    pub value: f64,
}

/// Bytes that no cache holds, and bytes that the innermost caches hold.
pub const BEYOND_CACHES: usize = 256 << 20;
/// See [`BEYOND_CACHES`].
pub const IN_CACHES: usize = 256 << 10;

/// Runs `work` on `threads` threads at the same time, `n_runs` times: the shortest time in seconds from the common start until
/// the last is done. `work` is given the number of its thread.
pub fn shortest(threads: usize, n_runs: usize, work: impl Fn(usize) + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let time = |thread: usize| {
        let mut best = f64::INFINITY;
        for _ in 0..n_runs {
            barrier.wait();
            let start = Instant::now();
            work(thread);
            barrier.wait();
            best = best.min(start.elapsed().as_secs_f64());
        }
        best
    };
    std::thread::scope(|scope| {
        let time = &time;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || time(thread))).collect();
        let mine = time(0);
        others.into_iter().filter_map(|other| other.join().ok()).fold(mine, f64::min)
    })
}

/// All peaks for `threads` threads.
pub fn measure(threads: usize) -> Vec<Peak> {
    let peak = |what, value| Peak { what, value };
    let mut peaks = vec![
        peak("read_gb_s", read_gb_s(threads, BEYOND_CACHES, 1)),
        peak("cache_gb_s", read_gb_s(threads, IN_CACHES * threads, 1000)),
    ];
    for (what, loop_of) in [("f32_gmac_s", machine::f32_loop()), ("int8_gmac_s", machine::int8_loop())] {
        if let Some((macs, run)) = loop_of {
            let seconds = shortest(threads, 10, |_| run(ROUNDS));
            peaks.push(peak(what, (macs * ROUNDS * threads) as f64 / seconds / 1e9));
        }
    }
    peaks
}

/// Rounds of a loop over registers: some milliseconds.
const ROUNDS: usize = 1_000_000;

/// Multiply-accumulates in a round, and a function that does that many rounds.
type Loop = (usize, fn(usize));

/// Billions of bytes a second when `threads` threads read `len` bytes together, `n_times` over.
fn read_gb_s(threads: usize, len: usize, n_times: usize) -> f64 {
    let mut memory = memmap2::MmapMut::map_anon(len).expect("memory");
    // Where the system has large pages, they are what weights are packed into; elsewhere this does nothing.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    memory.fill(1);
    let data: &[u64] = bytemuck::cast_slice(&memory);
    let parts: Vec<&[u64]> = data.chunks(data.len().div_ceil(threads)).collect();
    let seconds = shortest(threads, 10, |thread| {
        for _ in 0..n_times {
            black_box(machine::sum(black_box(parts[thread])));
        }
    });
    (len * n_times) as f64 / seconds / 1e9
}

/// The sum of all words.
#[inline(always)]
fn plain_sum(data: &[u64]) -> u64 {
    let mut lanes = [0u64; 32];
    let (chunks, rest) = data.as_chunks::<32>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*x);
        }
    }
    lanes.iter().chain(rest).fold(0, |sum, x| sum.wrapping_add(*x))
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{Loop, plain_sum};

    /// Accumulators that are independent of each other: more than latency times instructions a cycle.
    const CHAINS: usize = 10;

    pub fn sum(data: &[u64]) -> u64 {
        // Wider registers read no faster, and the loop is not compiled well for them.
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions, as just seen.
            unsafe { sum_avx2(data) }
        } else {
            plain_sum(data)
        }
    }

    #[target_feature(enable = "avx2")]
    fn sum_avx2(data: &[u64]) -> u64 {
        plain_sum(data)
    }

    pub fn f32_loop() -> Option<Loop> {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has the instructions, as just seen.
            return Some((16 * CHAINS, |n| unsafe { fma_avx512(n) }));
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has the instructions, as just seen.
            return Some((8 * CHAINS, |n| unsafe { fma_avx2(n) }));
        }
        None
    }

    #[target_feature(enable = "avx512f")]
    fn fma_avx512(n: usize) {
        let (a, b) = (black_box(_mm512_set1_ps(0.5)), black_box(_mm512_set1_ps(1.0)));
        let mut sums = [black_box(b); CHAINS];
        for _ in 0..n {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    fn fma_avx2(n: usize) {
        let (a, b) = (black_box(_mm256_set1_ps(0.5)), black_box(_mm256_set1_ps(1.0)));
        let mut sums = [black_box(b); CHAINS];
        for _ in 0..n {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    pub fn int8_loop() -> Option<Loop> {
        if is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the CPU has the instructions, as just seen.
            return Some((64 * CHAINS, |n| unsafe { vnni_avx512(n) }));
        }
        if is_x86_feature_detected!("avxvnni") {
            // SAFETY: the CPU has the instructions, as just seen.
            return Some((32 * CHAINS, |n| unsafe { vnni_avx2(n) }));
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions, as just seen.
            return Some((32 * CHAINS, |n| unsafe { maddubs_avx2(n) }));
        }
        None
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn vnni_avx512(n: usize) {
        let (a, b) = (black_box(_mm512_set1_epi8(1)), black_box(_mm512_set1_epi8(2)));
        let mut sums = [black_box(_mm512_setzero_si512()); CHAINS];
        for _ in 0..n {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,avxvnni")]
    fn vnni_avx2(n: usize) {
        let (a, b) = (black_box(_mm256_set1_epi8(1)), black_box(_mm256_set1_epi8(2)));
        let mut sums = [black_box(_mm256_setzero_si256()); CHAINS];
        for _ in 0..n {
            for sum in &mut sums {
                *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
            }
        }
        black_box(sums);
    }

    /// Bytes to sums of two in 16 bits, added up there: codes of four bits need to be widened for every eighth only. In
    /// assembly, since a compiler would not do the same multiplication again and again.
    #[target_feature(enable = "avx2")]
    fn maddubs_avx2(n: usize) {
        // SAFETY: only the registers named are changed.
        unsafe {
            std::arch::asm!(
                "2:",
                "vpmaddubsw ymm0, ymm5, ymm6", "vpaddw ymm7, ymm7, ymm0",
                "vpmaddubsw ymm1, ymm5, ymm6", "vpaddw ymm8, ymm8, ymm1",
                "vpmaddubsw ymm2, ymm5, ymm6", "vpaddw ymm9, ymm9, ymm2",
                "vpmaddubsw ymm3, ymm5, ymm6", "vpaddw ymm10, ymm10, ymm3",
                "vpmaddubsw ymm4, ymm5, ymm6", "vpaddw ymm11, ymm11, ymm4",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) n.max(1) * (CHAINS / 5) => _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _, out("ymm6") _,
                out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                options(nomem, nostack),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::arch::aarch64::*;
    use std::arch::{asm, is_aarch64_feature_detected};
    use std::hint::black_box;

    use super::{Loop, plain_sum};

    /// Accumulators that are independent of each other: more than latency times instructions a cycle.
    const CHAINS: usize = 20;

    pub fn sum(data: &[u64]) -> u64 {
        plain_sum(data)
    }

    pub fn f32_loop() -> Option<Loop> {
        Some((4 * CHAINS, fma_neon))
    }

    fn fma_neon(n: usize) {
        let (a, b) = (black_box([0.5f32; 4]), black_box([1.0f32; 4]));
        // SAFETY: every CPU of this architecture has the instructions, and the array has four elements.
        let (a, b) = unsafe { (vld1q_f32(a.as_ptr()), vld1q_f32(b.as_ptr())) };
        let mut sums = [b; CHAINS];
        for _ in 0..n {
            for sum in &mut sums {
                // SAFETY: as above.
                *sum = unsafe { vfmaq_f32(b, *sum, a) };
            }
        }
        black_box(sums);
    }

    pub fn int8_loop() -> Option<Loop> {
        if is_aarch64_feature_detected!("i8mm") {
            return Some((32 * CHAINS, smmla));
        }
        is_aarch64_feature_detected!("dotprod").then_some((16 * CHAINS, sdot as fn(usize)))
    }

    /// A loop over an instruction that adds products of the bytes of two registers to a third.
    macro_rules! byte_products {
        ($name:ident, $feature:literal, $instruction:literal) => {
            fn $name(n: usize) {
                let bytes = black_box([1u8; 16]);
                // SAFETY: every CPU of this architecture has the instruction, and the array has sixteen elements.
                let a = unsafe { vld1q_u8(bytes.as_ptr()) };
                let mut sums = [a; CHAINS];
                for _ in 0..n {
                    for sum in &mut sums {
                        // SAFETY: `int8_loop` has seen that the CPU has the instruction; it only touches registers.
                        unsafe {
                            asm!(
                                concat!(".arch_extension ", $feature),
                                concat!($instruction, " {sum:v}.4s, {a:v}.16b, {a:v}.16b"),
                                sum = inout(vreg) *sum,
                                a = in(vreg) a,
                                options(pure, nomem, nostack, preserves_flags),
                            );
                        }
                    }
                }
                black_box(sums);
            }
        };
    }

    byte_products!(smmla, "i8mm", "smmla");
    byte_products!(sdot, "dotprod", "sdot");
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use super::Loop;

    pub fn sum(data: &[u64]) -> u64 {
        super::plain_sum(data)
    }

    pub fn f32_loop() -> Option<Loop> {
        None
    }

    pub fn int8_loop() -> Option<Loop> {
        None
    }
}
