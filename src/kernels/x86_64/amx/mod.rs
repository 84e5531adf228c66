//! AVX-512 and the tiles of AMX with their integer products (Intel from Sapphire Rapids).

mod packed;
mod tiles;

use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use super::avx512;
use crate::kernels::{Isa, Kernels};

/// The table.
pub static AMX: Kernels =
    Kernels { isa: Isa::Amx, packed: packed::TABLE, pairs: packed::PAIRS, ..avx512::AVX512 };

/// Whether this machine has the instructions that the functions of [`AMX`] are compiled for, and the operating system
/// lets this process use them. It is asked once: what it grants holds for all threads as long as the process lives.
pub fn supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| avx512::supported() && has_tiles() && permitted())
}

/// Whether a CPU with AVX-512 has tiles and their integer products, and the operating system keeps their state (Intel 64
/// and IA-32 Architectures Software Developer's Manual: CPUID leaf 7, XCR0).
fn has_tiles() -> bool {
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    const XTILECFG: u64 = 1 << 17;
    const XTILEDATA: u64 = 1 << 18;
    let features = __cpuid_count(7, 0).edx;
    // SAFETY: a CPU whose AVX-512 the operating system has enabled has this instruction.
    let enabled = unsafe { _xgetbv(0) };
    features & AMX_TILE != 0
        && features & AMX_INT8 != 0
        && enabled & XTILECFG != 0
        && enabled & XTILEDATA != 0
}

/// Asks Linux for the tiles (its Documentation/arch/x86/xstate.rst). From then on the stack of a signal handler has to
/// hold their 8 KiB too, and `getauxval(AT_MINSIGSTKSZ)` gives its size; Linux refuses a process with a smaller one.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let status: isize;
    // SAFETY: the call takes two numbers and touches no memory of the process; older kernels refuse it.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => status,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    status == 0
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}
