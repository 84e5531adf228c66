//! A binary of its own: it sets the panic hook of the process.
//!
//! The crate `llguidance` wraps the process's panic hook when its first parser is made. The host's hook stays in force.
#![cfg(feature = "constraints")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ember::constrain::{Constraint, ConstraintOptions, Grammar};

static N_PANICS: AtomicUsize = AtomicUsize::new(0);

fn panics() -> usize {
    let before = N_PANICS.load(SeqCst);
    assert!(std::panic::catch_unwind(|| panic!("of the host's")).is_err());
    N_PANICS.load(SeqCst) - before
}

/// One test, since a process has one hook.
#[test]
fn the_hosts_panic_hook_stays_in_force() {
    std::panic::set_hook(Box::new(|_| {
        N_PANICS.fetch_add(1, SeqCst);
    }));
    assert_eq!(panics(), 1);
    let model = common::load(&common::bundled_model());
    let constraint = || {
        Constraint::new(
            model.vocabulary().unwrap(),
            Grammar::Regex("[a-z]{1,9}"),
            &ConstraintOptions::default(),
        )
    };
    let made = constraint().unwrap();
    made.start().mask().unwrap();
    assert_eq!(panics(), 1, "the hook from before");
    assert!(std::thread::spawn(|| panic!("elsewhere")).join().is_err());
    assert_eq!(N_PANICS.load(SeqCst), 3);
    // A hook that is set later stays too: llguidance installs its hook once.
    std::panic::set_hook(Box::new(|_| {
        N_PANICS.fetch_add(100, SeqCst);
    }));
    constraint().unwrap().start().mask().unwrap();
    assert_eq!(panics(), 100, "the hook from behind");
}
