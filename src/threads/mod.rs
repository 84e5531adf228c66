//! The only module that starts threads: a fixed pool that runs one job at a time over numbered tasks.
//!
//! Each thread has tasks of its own, by their numbers, and takes those of others when it is done with them, so a slow core never
//! holds up more than one task. A task's result depends on its number alone, so results are the same for any number of threads. A
//! waiting thread spins for a bounded time and then sleeps; an idle pool burns no CPU. Running a job allocates nothing.
//!
//! - `pool`: [`ThreadPool`]; `gate` decides when a job begins and ends, `tasks` which thread runs which task.
//! - `demand`: the working pools in this process share its CPUs, so that together they keep no more threads awake than there are
//!   CPUs (the callers' own threads aside).
//! - `cpus` and `topology`: which CPUs there are, and how many threads are worth having.
//! - `lock`: locks that threads sleep on elsewhere in the library.
//! - `spawn`: how threads are started and joined.
//! - `float_env`: the floating-point environment, independent of the host's.

mod background;
mod both;
mod cpus;
mod demand;
mod disjoint;
mod float_env;
mod gate;
mod lock;
mod pool;
mod spawn;
mod sync;
mod tasks;
#[cfg(all(test, not(target_family = "wasm")))]
mod tests;
mod topology;
#[cfg(windows)]
#[allow(unsafe_code, reason = "calls of the system")]
mod windows;

pub use background::{Background, background, this_thread};
pub use both::both;
pub use cpus::CpuSet;
pub use disjoint::DisjointMut;
pub use float_env::FloatEnv;
pub use lock::{Condvar, Mutex};
pub use pool::ThreadPool;
pub use spawn::apart;
pub use topology::default_threads;

/// Most threads a pool may have; more is a mistake in the caller's arithmetic.
pub const MAX_THREADS: usize = 512;
const _: () = assert!(MAX_THREADS <= gate::MAX_WORKERS);

/// Whether the calling thread is the only possible one: WebAssembly, unless it is compiled with atomic instructions.
pub const fn alone() -> bool {
    cfg!(all(target_family = "wasm", not(target_feature = "atomics")))
}

/// How many threads a pool of `wanted` has: as many, or one where the system has no threads. A number beyond the limit stays, to
/// be refused later.
pub fn possible(wanted: usize) -> usize {
    if alone() && (1..=MAX_THREADS).contains(&wanted) { 1 } else { wanted }
}

/// The number of this process; 0 where there are no processes.
pub fn process() -> u32 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id() }
}
