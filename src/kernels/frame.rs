//! Stack alignment for vectors that do not fit registers.

#[cfg(target_arch = "x86_64")]
use std::{arch::asm, mem::MaybeUninit};

/// Makes the compiler align the stack frame of the function into which this is inlined to the length of vectors. LLVM learns that
/// it will spill vectors only after it has given away the register that an aligned frame needs, unless there is such a local
/// variable. Without alignment every second vector of 32 bytes may lie across two cache lines, depending on the caller's stack.
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
