//! Locks that threads sleep on and that a child process made by `fork` may use: the standard library keeps the state of sleepers
//! in the lock itself. parking_lot chains the sleepers of all locks through memory of their threads. In a child the parent's
//! sleepers stay in these chains, in memory that the child's threads get, and a thread that sleeps or wakes others hangs.
#![forbid(unsafe_code)]

use std::sync::{self, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// As the standard library's; a panic of its holder changes nothing.
#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock that holds `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, if no other thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, unless another thread holds the lock for all of 0.3 s, as a thread of the parent may in a child process made by
    /// `fork`: for locks that threads hold for moments.
    pub fn lock_or_give_up(&self) -> Option<MutexGuard<'_, T>> {
        let until = Instant::now() + Duration::from_millis(300);
        loop {
            let guard = self.try_lock();
            if guard.is_some() || Instant::now() >= until {
                return guard;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// As the standard library's.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Wakes all sleeping threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Sleeps until it is notified, or wakes spuriously, and no longer than `until`. Returns whether the time is over.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, until: Option<Instant>) -> (MutexGuard<'a, T>, bool) {
        match until {
            None => (self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), false),
            Some(until) => {
                let patience = until.saturating_duration_since(Instant::now());
                let outcome = self.0.wait_timeout(guard, patience);
                let (guard, timeout) = outcome.unwrap_or_else(PoisonError::into_inner);
                (guard, timeout.timed_out())
            }
        }
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_gives_back_is_given_up() {
        let lock = Mutex::new(5);
        let mut held = lock.lock();
        assert!(lock.try_lock().is_none());
        *held = 6;
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| lock.lock_or_give_up().is_none()).join().expect("no panic"));
            let waits = scope.spawn(|| lock.lock_or_give_up().map(|guard| *guard));
            drop(held);
            assert_eq!(waits.join().expect("no panic"), Some(6));
        });
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            std::panic::resume_unwind(Box::new("a defect"))
        }));
        assert_eq!(*lock.lock(), 6, "nothing is poisoned");
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn sleepers_are_woken_or_late() {
        let (lock, changed) = (Mutex::new(false), Condvar::default());
        let (guard, late) = changed.wait(lock.lock(), Some(Instant::now()));
        drop(guard);
        assert!(late);
        std::thread::scope(|scope| {
            let sleepers = [None, Instant::now().checked_add(Duration::from_secs(3600))].map(|until| {
                let (lock, changed) = (&lock, &changed);
                scope.spawn(move || {
                    let mut guard = lock.lock();
                    while !*guard {
                        let late;
                        (guard, late) = changed.wait(guard, until);
                        assert!(!late);
                    }
                })
            });
            *lock.lock() = true;
            changed.notify_all();
            for sleeper in sleepers {
                sleeper.join().expect("no panic");
            }
        });
    }
}
