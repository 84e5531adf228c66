//! Any calls of the C functions: see src/calls/mod.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::calls::run(bytes));
