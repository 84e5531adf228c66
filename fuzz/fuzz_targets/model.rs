//! Damaged models, loaded and run: see src/model.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::model::run(bytes));
