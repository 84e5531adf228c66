//! Any template on any conversation: see src/chat.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::chat::run(bytes));
