//! The steps of a conversation: see src/conversation.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::conversation::run(bytes));
