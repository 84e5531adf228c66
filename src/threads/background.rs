//! A thread that runs one task in the background.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::spawn::Thread;
use crate::error::{Error, Result};

/// A thread. Dropping it waits for its end, but not in a child process made by `fork`, where it does not exist.
pub struct Background {
    thread: Option<Thread>,
    /// The process that has the thread.
    process: u32,
}

/// Runs `work` on a thread called `name`. `Unsupported` where the system has no threads, or cannot start one; `NoMemory` where
/// the thread has no memory to begin.
pub fn background(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Background> {
    let cannot = |e| Error::Unsupported(format!("the thread \"{name}\" cannot be started: {e}"));
    let thread = Thread::start(name, work).map_err(cannot)?;
    let thread = Background { thread: Some(thread), process: super::process() };
    thread.thread.iter().try_for_each(Thread::begun)?;
    Ok(thread)
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != super::process() {
            // The thread must be neither joined nor detached.
            std::mem::forget(thread);
        } else if thread.join().is_err() {
            log::error!("a thread of the library ended with a defect");
        }
    }
}

/// A number that differs for each thread, never 0: in a child process made by `fork` too, where threads get the memory of the
/// parent's threads. (The standard library's thread id gives a thread of C a handle that is never freed.)
pub fn this_thread() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Relaxed) + 1);
    }
    NUMBER.get()
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn threads_have_different_numbers_and_are_waited_for() {
        let here = this_thread();
        assert_eq!((here, here != 0), (this_thread(), true));
        let (tell, hear) = std::sync::mpsc::channel();
        let thread = background("test", move || tell.send(this_thread()).expect("somebody hears"));
        drop(thread.expect("a thread"));
        let ended = hear.try_recv().expect("it has ended");
        assert_ne!(ended, here);
        let next = std::thread::spawn(this_thread).join().expect("no panic");
        assert!(next != ended && next != here, "not the number of one that ended, whose memory it may have");
    }
}
