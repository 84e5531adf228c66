//! Version and build information.

use std::ffi::{CStr, c_char};

use super::guard::guard_value;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
const BUILD: &str = concat!(
    "ember ",
    env!("CARGO_PKG_VERSION"),
    "; architectures: gpt2, llama; formats: F32, F16, BF16, Q8_0, Q4_0, Q4_1; target: ",
    env!("EMBER_TARGET"),
    "\0"
);

fn c_str(text: &'static str) -> *const c_char {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default().as_ptr()
}

/// The version of the library at run time, for example "0.1.0". Static; never freed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ember_version_string() -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(c_str(VERSION)))
}

/// One line on what this build can do: version, architectures, number formats, target. Static; never freed. Any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn ember_build_info() -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(c_str(BUILD)))
}
