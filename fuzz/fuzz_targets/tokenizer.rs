//! Any tokenizer.json and vocabulary: see src/tokenizer.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::tokenizer::run(bytes));
