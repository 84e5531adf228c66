//! Where on the stack vectors lie that do not fit registers.

#[cfg(target_arch = "x86_64")]
use std::{arch::asm, mem::MaybeUninit};

/// Has the compiler put what it keeps of vectors on the stack at multiples of their length, for the function into which this is
/// inlined. LLVM knows that it will keep some only after it has given away the register that an aligned frame takes, unless there
/// is such a local variable; then every second vector of 32 bytes lies across two lines of the cache, or none, as the caller's stack
/// happens to be.
#[inline(always)]
pub fn align_frame() {
    #[cfg(target_arch = "x86_64")]
    #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written there")]
    {
        #[repr(align(64))]
        struct Line(#[expect(dead_code, reason = "it is there to be aligned")] MaybeUninit<[u8; 64]>);
        let line = Line(MaybeUninit::uninit());
        // SAFETY: no instruction.
        unsafe { asm!("/* {0} */", in(reg) &raw const line, options(nomem, nostack, preserves_flags)) };
    }
}
