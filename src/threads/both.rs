//! Two things at the same time.
#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use super::default_threads;

/// The results of `here`, which the caller's thread runs, and of `aside`, which another runs at the same time; where
/// the process may use but one, or none can be started, `aside` runs after `here`. A panic of either is raised again
/// here when both have ended.
pub fn both<A, B: Send>(here: impl FnOnce() -> A, aside: impl FnOnce() -> B + Send) -> (A, B) {
    let aside = Mutex::new(Some(aside));
    let run_aside = || {
        let aside = aside.lock().unwrap_or_else(PoisonError::into_inner).take();
        aside.map(|aside| aside())
    };
    std::thread::scope(|scope| {
        let thread = match default_threads(None) {
            1 => None,
            _ => std::thread::Builder::new().name("ember-load".into()).spawn_scoped(scope, run_aside).ok(),
        };
        let here = here();
        let aside = match thread {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => run_aside(),
        };
        match aside {
            Some(aside) => (here, aside),
            None => unreachable!("it was taken by the one thread that runs it"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn two_things_at_once_give_both_results_and_every_panic() {
        assert_eq!(both(|| 1, || "two".to_owned()), (1, "two".to_owned()));
        let text = |outcome: std::thread::Result<((), ())>| {
            let panic = outcome.expect_err("a panic");
            *panic.downcast::<&str>().expect("the text it was raised with")
        };
        assert_eq!(text(catch_unwind(|| both(|| panic!("here"), || ()))), "here");
        assert_eq!(text(catch_unwind(|| both(|| (), || panic!("aside")))), "aside");
    }
}
