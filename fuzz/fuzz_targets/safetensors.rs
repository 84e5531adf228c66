//! Damaged Hugging Face folders, loaded and run: see src/safetensors.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::safetensors::run(bytes));
