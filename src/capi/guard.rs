//! What every export's body is wrapped in.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::{ember_error, error_into_raw};
use crate::error::{Error, Result, ember_status};
use crate::memory::reserve::{self, Mark};
use crate::threads::FloatEnv;

thread_local! {
    /// When the call that this thread is in began.
    static BEGAN: Cell<Mark> = const { Cell::new(Mark::START) };
    /// What the caller of that call computes in.
    static CALLERS: Cell<FloatEnv> = const { Cell::new(FloatEnv::OURS) };
}

/// Runs the body of a call, which may be inside another one's callback. Not for what signal handlers may call: the first
/// use of a thread's variable may allocate.
fn call<T>(body: impl FnOnce() -> T) -> T {
    let outer = (BEGAN.replace(reserve::mark()), CALLERS.replace(FloatEnv::current()));
    let result = FloatEnv::OURS.run(body);
    BEGAN.set(outer.0);
    CALLERS.set(outer.1);
    result
}

/// Calls a function of the host's, which computes in the environment that the host had when it called Ember.
pub fn host<T>(function: impl FnOnce() -> T) -> T {
    CALLERS.get().run(function)
}

/// `NoMemory` when memory ran out while the call at hand was at work, so that nothing new may stay.
pub fn check_memory() -> Result<()> {
    reserve::check(BEGAN.get())
}

/// Runs a fallible export: a panic becomes `EMBER_E_INTERNAL`, an error its status, and the sentence goes to `err`
/// when that is not NULL. On success `*err` is set to NULL.
///
/// `err` comes straight from the caller, who promised NULL or a pointer that may be written.
pub fn guard(err: *mut *mut ember_error, body: impl FnOnce() -> Result<()>) -> ember_status {
    let outcome =
        call(|| catch_unwind(AssertUnwindSafe(body))).unwrap_or_else(|payload| Err(panic_error(&*payload)));
    let (status, error) = match outcome {
        Ok(()) => (ember_status::EMBER_OK, std::ptr::null_mut()),
        Err(e) => (e.status(), if err.is_null() { std::ptr::null_mut() } else { error_into_raw(&e) }),
    };
    if !err.is_null() {
        // SAFETY: not NULL, so by the header's contract it may be written.
        unsafe { err.write(error) };
    }
    status
}

/// Runs an export that returns a value and cannot fail; `default` stands in for a panic or a bad handle.
pub fn guard_value<T>(default: T, body: impl FnOnce() -> Result<T>) -> T {
    match FloatEnv::OURS.run(|| catch_unwind(AssertUnwindSafe(body))) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => default,
    }
}

fn panic_error(payload: &(dyn std::any::Any + Send)) -> Error {
    let what = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "an unknown panic".to_owned());
    Error::Internal(format!("Ember has a defect: {what}"))
}

#[cfg(all(test, panic = "unwind"))]
mod tests {
    use super::super::error::{ember_error_free, ember_error_message};
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_sentence() {
        let mut err = std::ptr::null_mut();
        let status = guard(&mut err, || panic!("index out of range"));
        assert_eq!(status, ember_status::EMBER_E_INTERNAL);
        // SAFETY: `guard` just made it.
        let message = unsafe { ember_error_message(err) };
        // SAFETY: its message, NUL-terminated.
        let message = unsafe { std::ffi::CStr::from_ptr(message) };
        assert_eq!(message.to_str(), Ok("Ember has a defect: index out of range"));
        // SAFETY: as above; it is used no more.
        unsafe { ember_error_free(err) };
        assert_eq!(guard_value(7, || panic!("x")), 7);
    }
}
