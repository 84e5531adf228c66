//! Any bytes as a saved state: see src/state.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::state::run(bytes));
