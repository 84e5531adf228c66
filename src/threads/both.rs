//! Two closures at the same time.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use super::default_threads;
use super::spawn::Thread;

/// Between two ticks.
const TICK: Duration = Duration::from_millis(5);

/// The results of `here`, which the caller's thread runs, and of `aside`, which another thread runs at the same time. Where the
/// process may use only one thread, or none can be started, `aside` runs after `here`. A panic of either is raised again here
/// when both have ended. With a `tick`, the caller's thread calls it every few milliseconds while it waits for `aside`, which
/// then gets another thread if one can be started at all.
///
/// It uses neither a scope of the standard library nor parking, which give a thread of C a handle that is never freed.
pub fn both<A, B: Send + 'static>(
    here: impl FnOnce() -> A,
    aside: impl FnOnce() -> B + Send + 'static,
    tick: Option<&dyn Fn()>,
) -> (A, B) {
    let aside = Arc::new(Mutex::new((Some(aside), None)));
    let run = {
        let aside = Arc::clone(&aside);
        move || {
            let work = locked(&aside).0.take();
            let result = work.map(|work| work());
            locked(&aside).1 = result;
        }
    };
    let thread = match default_threads(None) {
        1 if tick.is_none() => None,
        _ => Thread::start("ember-load", run.clone()).ok(),
    };
    let here = catch_unwind(AssertUnwindSafe(here));
    let mut ended = Ok(());
    if let Some(thread) = thread {
        while let Some(tick) = tick.filter(|_| !thread.has_ended()) {
            tick();
            std::thread::sleep(TICK);
        }
        ended = thread.join();
    }
    // Where there is no such thread, or it had no memory to begin.
    if locked(&aside).0.is_some() {
        ended = catch_unwind(AssertUnwindSafe(run));
    }
    let result = locked(&aside).1.take();
    match (here, ended, result) {
        (Ok(here), Ok(()), Some(aside)) => (here, aside),
        (Err(panic), ..) | (_, Err(panic), _) => resume_unwind(panic),
        (_, Ok(()), None) => unreachable!("what ran without a panic gave a result"),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, panic = "unwind"))]
mod tests {
    use super::*;

    #[test]
    fn two_closures_give_both_results_and_every_panic() {
        assert_eq!(both(|| 1, || "two".to_owned(), None), (1, "two".to_owned()));
        let n_ticks = std::cell::Cell::new(0);
        let (ticked, hear) = std::sync::mpsc::channel();
        let tick = || {
            n_ticks.set(n_ticks.get() + 1);
            let _ = ticked.send(());
        };
        assert!(both(|| (), move || hear.recv().is_ok(), Some(&tick)).1, "it waits for a tick");
        assert!(n_ticks.get() > 0);
        let text = |outcome: std::thread::Result<((), ())>| {
            let panic = outcome.expect_err("a panic");
            *panic.downcast::<&str>().expect("the text it was raised with")
        };
        assert_eq!(text(catch_unwind(|| both(|| panic!("here"), || (), None))), "here");
        assert_eq!(text(catch_unwind(|| both(|| (), || panic!("aside"), None))), "aside");
    }
}
