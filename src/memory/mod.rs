//! Memory for large buffers: packed weights, files that were read, KV caches, activations, logits. It comes from the system or
//! from the host's [`Allocator`], and is counted against a limit. Small allocations come from the global allocator. For C
//! programs that one keeps a reserve for when the system has no more memory ([`reserve`]).
//!
//! A [`Memory`] has a limit, perhaps the host's allocator, and a count. A model has one; each of its contexts has another inside
//! it. A [`Memory`] that only measures hands out empty buffers. Binding a model with it costs next to nothing and gives the exact
//! sum; `ember_memory_estimate` works that way.
#![deny(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bytemuck::Pod;

use crate::error::{Error, Result};

#[cfg(windows)]
#[allow(unsafe_code, reason = "calls of the system")]
pub mod pages;
#[allow(unsafe_code, reason = "an allocator")]
pub mod reserve;

#[allow(unsafe_code, reason = "parts of a mapping")]
mod slab;
#[allow(unsafe_code, reason = "slices over memory of its own")]
mod zeroed;

pub use reserve::{
    Reserve, append, collected, copied, copied_text, expect_memory, fallible, filled, with_capacity,
};
pub use zeroed::Zeroed;

/// The source of large buffers that a host sets. Called by any thread.
///
/// # Safety
/// What [`Allocator::allocate`] returns belongs to the caller, whole and zeroed, until it is given back.
#[allow(unsafe_code, reason = "the promise above cannot be checked")]
pub unsafe trait Allocator: Send + Sync {
    /// `size` zeros at a multiple of `align`; `None` when there are none left.
    fn allocate(&self, size: usize, align: usize) -> Option<NonNull<u8>>;

    /// Takes memory back.
    ///
    /// # Safety
    /// `block` came from [`Allocator::allocate`] with the same numbers, and nothing uses it any more.
    unsafe fn free(&self, block: NonNull<u8>, size: usize, align: usize);
}

/// A memory budget that large buffers count against. Clones share it; the default one has no limit.
#[derive(Clone, Default)]
pub struct Memory(Option<Arc<Account>>);

/// The options of a memory budget.
#[derive(Clone, Default)]
pub struct MemoryOptions {
    /// The most bytes at a time; `None`: no limit.
    pub limit: Option<u64>,
    /// Their source; `None`: that of the outer budget, or the system.
    pub allocator: Option<Arc<dyn Allocator>>,
    /// Buffers are empty, whatever length was asked for: only the count matters.
    pub measure: bool,
}

struct Account {
    options: MemoryOptions,
    /// The outer budget, which is charged too.
    outer: Memory,
    used: AtomicU64,
    slabs: slab::Slabs,
}

impl Memory {
    /// The default one.
    pub const UNLIMITED: Memory = Memory(None);

    /// A budget of its own.
    pub fn new(options: MemoryOptions) -> Memory {
        Memory::default().inner(options)
    }

    /// A budget whose buffers count against this one as well.
    pub fn inner(&self, mut options: MemoryOptions) -> Memory {
        if let Some(outer) = &self.0 {
            options.allocator = options.allocator.or_else(|| outer.options.allocator.clone());
            options.measure |= outer.options.measure;
        }
        let (outer, used, slabs) = (self.clone(), AtomicU64::new(0), slab::Slabs::default());
        Memory(Some(Arc::new(Account { options, outer, used, slabs })))
    }

    /// A buffer of `len` zeros, or `NoMemory` naming `what`.
    pub fn zeroed<T: Pod>(&self, len: usize, what: &str) -> Result<Zeroed<T>> {
        Zeroed::new(self, len, what)
    }

    /// Bytes that are taken at the moment; 0 for the default budget, which does not count.
    pub fn used(&self) -> u64 {
        self.0.as_ref().map_or(0, |account| account.used.load(SeqCst))
    }

    /// Whether buffers are empty.
    pub fn measures(&self) -> bool {
        self.0.as_ref().is_some_and(|account| account.options.measure)
    }

    /// Counts `bytes` for something that is not a buffer of this budget.
    pub fn charge(&self, bytes: u64, what: &str) -> Result<Charge> {
        self.pay(bytes, what)?;
        Ok(Charge { memory: self.clone(), bytes })
    }

    fn allocator(&self) -> Option<&Arc<dyn Allocator>> {
        self.0.as_ref()?.options.allocator.as_ref()
    }

    fn slabs(&self) -> Option<&slab::Slabs> {
        self.0.as_ref().map(|account| &account.slabs)
    }

    fn pay(&self, bytes: u64, what: &str) -> Result<()> {
        let Some(account) = &self.0 else { return Ok(()) };
        let limit = account.options.limit.unwrap_or(u64::MAX);
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        account.used.try_update(SeqCst, SeqCst, more).map_err(|used| {
            Error::NoMemory(format!(
                "no memory for {what}: {bytes} bytes, but {used} of the limit of {limit} bytes are in use"
            ))
        })?;
        account.outer.pay(bytes, what).inspect_err(|_| account.give_back(bytes))
    }

    fn give_back(&self, bytes: u64) {
        if let Some(account) = &self.0 {
            account.give_back(bytes);
            account.outer.give_back(bytes);
        }
    }
}

impl Account {
    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, SeqCst);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("memory of the system"),
            Some(account) => write!(f, "{} bytes of {:?}", self.used(), account.options.limit),
        }
    }
}

impl fmt::Debug for MemoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryOptions { limit, allocator, measure } = self;
        write!(f, "limit {limit:?}, allocator {}, measure {measure}", allocator.is_some())
    }
}

/// Bytes that are charged until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_and_what_is_dropped_is_given_back() {
        let outer = Memory::new(MemoryOptions { limit: Some(1000), ..Default::default() });
        let inner = outer.inner(MemoryOptions { limit: Some(700), ..Default::default() });
        let first = inner.zeroed::<u8>(600, "the first").expect("memory");
        let (used, _) = (inner.used(), ());
        assert!((600..=700).contains(&used) && outer.used() == used);
        let error = inner.zeroed::<u8>(200, "the second").err().expect("too much for the inner one");
        assert!(error.to_string().contains("the second") && error.to_string().contains("700"), "{error}");
        let error = outer.zeroed::<u8>(500, "the third").err().expect("too much for the outer one");
        assert!(error.to_string().contains("1000"), "{error}");
        assert_eq!(outer.used(), used);
        let other = outer.zeroed::<u8>(200, "the fourth").expect("memory");
        drop(first);
        assert_eq!(inner.used(), 0);
        drop(other);
        assert_eq!(outer.used(), 0);
    }

    #[test]
    fn an_inner_limit_that_the_outer_one_stops_is_left_as_it_was() {
        let outer = Memory::new(MemoryOptions { limit: Some(100), ..Default::default() });
        let inner = outer.inner(MemoryOptions::default());
        assert!(inner.zeroed::<u8>(1 << 12, "too much").is_err());
        assert_eq!((inner.used(), outer.used()), (0, 0));
        let charge = inner.charge(60, "something").expect("as much as there is");
        assert!(inner.charge(60, "more").is_err());
        drop(charge);
        assert!(inner.charge(60, "again").is_ok());
    }

    #[test]
    fn measuring_takes_nothing_and_counts_everything() {
        let memory = Memory::new(MemoryOptions { measure: true, ..Default::default() });
        let huge = memory.zeroed::<f32>(1 << 28, "much").expect("nothing is taken");
        assert!(huge.is_empty() && memory.used() >= 4 << 28);
        drop(huge);
        assert_eq!(memory.used(), 0);
    }
}
