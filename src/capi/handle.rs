//! Handles: heap objects that begin with a tag, so that a NULL, foreign or freed pointer is caught where it can be.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::{Mutex, MutexGuard};

use super::guard::check_memory;
use crate::error::{Error, Result};

/// The tag of a handle that was freed. Reading it is a matter of luck: the memory may be in use again.
const FREED: u64 = 0xdead_dead_dead_dead;

/// A type as C knows it: only its address is ever used. What lies there is a [`Handle`].
pub trait CType {
    /// The object that the handle points to.
    type Object: Send + Sync;
    /// Differs from type to type.
    const TAG: u64;
    /// The C name, for error sentences.
    const NAME: &'static str;
}

/// The memory layout of every handle: a tag, then the object.
#[repr(C)]
pub struct Handle<T> {
    tag: AtomicU64,
    object: T,
}

impl<T> Deref for Handle<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.object
    }
}

/// Moves `object` to the heap and returns a handle that the caller owns.
pub fn into_raw<C: CType>(object: C::Object) -> *mut C {
    Box::into_raw(boxed::<C>(object)).cast::<C>()
}

/// As [`into_raw`], for what is to stay: `NoMemory` when memory ran out while it was made.
pub fn try_into_raw<C: CType>(object: C::Object) -> Result<*mut C> {
    let boxed = boxed::<C>(object);
    check_memory()?;
    Ok(Box::into_raw(boxed).cast::<C>())
}

fn boxed<C: CType>(object: C::Object) -> Box<Handle<C::Object>> {
    Box::new(Handle { tag: AtomicU64::new(C::TAG), object })
}

/// The object that `ptr` points to, for as long as the export runs. `arg` names the argument.
///
/// # Safety
/// `ptr` is NULL or points to a living handle of some type, which stays alive while the export runs.
pub unsafe fn borrow<'a, C: CType>(ptr: *const C, arg: &str) -> Result<&'a Handle<C::Object>> {
    // SAFETY: forwarded.
    unsafe { check(ptr, arg) }?;
    // SAFETY: the tag says it is a living handle of `C`, and the caller promised that it stays so.
    Ok(unsafe { &*ptr.cast::<Handle<C::Object>>() })
}

/// As [`borrow`], without a sentence for an error, so that a signal handler may call it: it allocates nothing.
///
/// # Safety
/// As [`borrow`].
pub unsafe fn peek<'a, C: CType>(ptr: *const C) -> Option<&'a Handle<C::Object>> {
    let is_place = !ptr.is_null() && ptr.cast::<Handle<C::Object>>().is_aligned();
    // SAFETY: as in `check`.
    let tag = is_place.then(|| unsafe { &*ptr.cast::<AtomicU64>() })?;
    // SAFETY: as in `borrow`.
    (tag.load(SeqCst) == C::TAG).then(|| unsafe { &*ptr.cast::<Handle<C::Object>>() })
}

/// Frees the object that `ptr` points to, if `may_go` agrees. NULL and pointers to something else are left alone.
///
/// # Safety
/// As [`borrow`]; and nothing uses `ptr` afterwards.
pub unsafe fn free<C: CType>(ptr: *mut C, may_go: impl FnOnce(&C::Object) -> bool) -> Result<()> {
    // SAFETY: forwarded.
    let handle = unsafe { borrow(ptr.cast_const(), "the handle") }?;
    if may_go(handle) {
        handle.tag.store(FREED, SeqCst);
        // SAFETY: every handle was made by `into_raw`, and its tag said that it was not freed yet.
        drop(unsafe { Box::from_raw(ptr.cast::<Handle<C::Object>>()) });
    }
    Ok(())
}

/// # Safety
/// As [`borrow`].
unsafe fn check<C: CType>(ptr: *const C, arg: &str) -> Result<()> {
    if ptr.is_null() {
        return Err(Error::InvalidArgument(format!("{arg} is NULL, expected an {}", C::NAME)));
    }
    if !ptr.cast::<Handle<C::Object>>().is_aligned() {
        return Err(Error::InvalidArgument(format!("{arg} is not the address of an {}", C::NAME)));
    }
    // SAFETY: not NULL, aligned, and by the caller's promise a handle, all of which begin with a tag.
    let tag = unsafe { &*ptr.cast::<AtomicU64>() };
    match tag.load(SeqCst) {
        tag if tag == C::TAG => Ok(()),
        FREED => Err(Error::InvalidArgument(format!("{arg} is an {} that was freed", C::NAME))),
        _ => Err(Error::InvalidArgument(format!("{arg} is not an {}", C::NAME))),
    }
}

/// The state of a handle that one call at a time may use; another call at the same time gets `Busy`.
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    /// Wraps the state.
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(value))
    }

    /// The state, or `Busy` naming the argument `arg`.
    pub fn lock(&self, arg: &str) -> Result<MutexGuard<'_, T>> {
        self.0.try_lock().ok_or_else(|| Error::Busy(format!("{arg} is in use by another call")))
    }

    /// Whether no call uses the state.
    pub fn is_idle(&self) -> bool {
        !self.0.is_locked()
    }
}
