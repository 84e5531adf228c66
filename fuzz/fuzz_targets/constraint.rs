//! Any schema, expression or grammar: see src/constraint.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::constraint::run(bytes));
