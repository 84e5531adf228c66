//! Any bytes as a GGUF file: see src/gguf.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::gguf::run(bytes));
