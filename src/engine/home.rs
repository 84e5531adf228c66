//! Which process an engine belongs to.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::error::{Error, Result};
use crate::threads::{self, Mutex};

/// The process whose threads work on an engine.
pub(super) struct Home {
    /// Whether some of them are the engine's, which stay in the process that made it.
    has_threads: bool,
    process: AtomicU32,
    /// Held by the thread of a child process that checks whether the engine can become the child's.
    moves: Mutex<()>,
}

impl Home {
    pub(super) fn new(has_threads: bool) -> Home {
        Home { has_threads, process: AtomicU32::new(threads::process()), moves: Mutex::new(()) }
    }

    /// In a child process made by `fork` the engine becomes the child's, and `forget` drops what callers in the parent left.
    /// `InvalidArgument` where it has threads of its own, or where `is_at_work` finds a thread that does not exist here.
    pub(super) fn check(&self, is_at_work: impl FnOnce() -> bool, forget: impl FnOnce()) -> Result<()> {
        let here = threads::process();
        if self.process.load(SeqCst) == here {
            return Ok(());
        }
        // Until it is the child's, no thread of the child works on it.
        let moves = self.moves.lock_or_give_up();
        let process = self.process.load(SeqCst);
        if process == here {
            return Ok(());
        }
        let why = match self.has_threads {
            true => "has its threads",
            // Without `moves` this is the child of a child whose parent was forked during this check.
            false if moves.is_none() || is_at_work() => "was at work on it",
            false => {
                forget();
                self.process.store(here, SeqCst);
                return Ok(());
            }
        };
        Err(Error::InvalidArgument(format!(
            "the engine was made before fork(), in process {process}, which {why}; make one in this process"
        )))
    }
}
