//! The sources of Ember's thread pool with their tests, and its gate and tasks under loom.
#![cfg(test)]
#![allow(dead_code, unused_imports, reason = "the rest of Ember uses it")]

#[path = "../../../src/error.rs"]
mod error;
#[cfg(feature = "loom")]
mod every_order;
#[path = "../../../src/threads/mod.rs"]
mod threads;
