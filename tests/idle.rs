//! A binary of its own: it measures the CPU time of the process.
//!
//! Idle contexts use no CPU time.
#![cfg(unix)]

mod common;

use std::time::Duration;

use common::{bundled_model, context, load};
use ember::context::{ContextOptions, Tokens};

/// The CPU time that this process has used.
fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the struct is there to be filled.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) }, 0);
    // SAFETY: zeros are numbers, and the call has filled them in.
    let usage = unsafe { usage.assume_init() };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[test]
fn idle_contexts_burn_no_cpu() {
    let model = load(&bundled_model());
    let contexts: Vec<_> = (1..6)
        .map(|n_threads| {
            let mut context = context(&model, &ContextOptions { n_threads, ..ContextOptions::default() });
            context.decode(Tokens::next(&[1, 2, 3])).expect("free pages");
            context
        })
        .collect();
    // The workers poll for a moment before they sleep.
    std::thread::sleep(Duration::from_millis(100));
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_time() - before;
    // One polling thread would use all of the second that the machine gives it.
    assert!(used < Duration::from_millis(20), "{} idle contexts used {used:?} of CPU time", contexts.len());
}
