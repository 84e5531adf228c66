//! Any reply in any form: see src/reply.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ember_fuzz::reply::run(bytes));
