//! The floating-point environment of a thread: which operations trap, how results are rounded and whether tiny results become
//! zero. A host may have changed it. Ember computes in the default environment, and then restores the host's.
//!
//! Compiled code assumes that nothing traps and that results are rounded to the nearest. With the host's traps, an operation that
//! gives NaN would end the process. With another rounding, the caller's thread and the pool's would give different bits.

/// The thread's former environment, restored on drop.
struct Given(system::Mode);

impl Drop for Given {
    fn drop(&mut self) {
        system::set(self.0);
    }
}

/// A floating-point environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatEnv(system::Mode);

impl FloatEnv {
    /// Ember's environment: nothing traps, results are rounded to the nearest, and tiny ones are kept.
    pub const OURS: FloatEnv = FloatEnv(system::OURS);

    /// The environment of the calling thread.
    pub fn current() -> FloatEnv {
        FloatEnv(system::get())
    }

    /// Runs `f` in this environment, and restores the thread's former one, flags included.
    #[inline(never)]
    pub fn run<T>(self, f: impl FnOnce() -> T) -> T {
        let given = Given(system::get());
        system::set(self.0);
        let result = apart(f);
        drop(given);
        result
    }
}

/// Calls `f`; the compiler moves none of its computation before or after the call.
#[inline(never)]
fn apart<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// For a thread of Ember's own: from now on it computes in Ember's environment.
pub(super) fn take_ours() {
    system::set(system::OURS);
}

#[cfg(all(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse")), not(miri)))]
mod system {
    use std::arch::asm;

    /// The register MXCSR.
    pub(super) type Mode = u32;
    /// All exceptions masked, to the nearest, denormal numbers as they are.
    pub(super) const OURS: Mode = 0x1f80;

    pub(super) fn get() -> Mode {
        let mut mode: Mode = 0;
        // SAFETY: writes four bytes to the address of `mode`, and nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: `mode` is what the register had before, or valid as above. Whoever changes it gives it back before code that was
        // compiled for the usual mode runs on.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod system {
    use std::arch::asm;

    /// The register FPCR.
    pub(super) type Mode = u64;
    /// No traps, to the nearest, denormal numbers as they are.
    pub(super) const OURS: Mode = 0;

    pub(super) fn get() -> Mode {
        let mode: Mode;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nostack)) };
        mode
    }

    pub(super) fn set(mode: Mode) {
        // SAFETY: `mode` is what the register had before, or valid as above. Whoever changes it gives it back before code that was
        // compiled for the usual mode runs on.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack)) };
    }
}

#[cfg(not(all(
    any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse"), target_arch = "aarch64"),
    not(miri)
)))]
mod system {
    /// Unknown, or always the same.
    pub(super) type Mode = ();
    pub(super) const OURS: Mode = ();

    pub(super) fn get() -> Mode {}

    pub(super) fn set(_: Mode) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Towards zero.
    const OTHER: FloatEnv = FloatEnv(if cfg!(target_arch = "x86_64") { 0x7f80 } else { 3 << 22 });

    fn two_thirds() -> u32 {
        (black_box(2.0f32) / black_box(3.0f32)).to_bits()
    }

    #[test]
    fn work_is_done_in_the_usual_environment_and_the_callers_comes_back() {
        let usual = two_thirds();
        OTHER.run(|| {
            let other = two_thirds();
            let before = FloatEnv::current();
            let inside = FloatEnv::OURS.run(|| (two_thirds(), FloatEnv::current()));
            assert_eq!((other != usual, inside.0 == usual), (true, true));
            // Flags of the computation may be set.
            assert_ne!(inside.1, before);
            assert_eq!((two_thirds(), FloatEnv::current()), (other, before));
            let panic = std::panic::catch_unwind(|| FloatEnv::OURS.run(|| panic!("inside")));
            assert!(panic.is_err() && FloatEnv::current() == before);
        });
        assert_eq!(two_thirds(), usual);
    }

    #[test]
    fn workers_compute_as_ember_does_whoever_starts_them() {
        let bits = std::sync::Mutex::new(Vec::new());
        let usual = two_thirds();
        OTHER.run(|| {
            let mut pool = crate::threads::ThreadPool::new(3, None).expect("threads");
            pool.run(30, &|thread, _| {
                std::thread::sleep(std::time::Duration::from_micros(200));
                if thread > 0 {
                    bits.lock().expect("no panic").push(two_thirds());
                }
            });
        });
        assert!(bits.into_inner().expect("no panic").iter().all(|&bits| bits == usual));
    }
}
