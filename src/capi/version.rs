//! Version and build information.

use std::ffi::{CStr, CString, c_char};
use std::sync::LazyLock;

use super::args::text;
use super::guard::guard_value;
use crate::arch;
use crate::kernels::Isa;
use crate::quant::FORMATS;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// Made on first use and never changed.
static BUILD: LazyLock<CString> = LazyLock::new(|| {
    let architectures: Vec<&str> = arch::known().collect();
    let formats: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
    let levels: Vec<&str> = Isa::supported().map(Isa::name).collect();
    let line = format!(
        "ember {}; architectures: {}; formats: {}; instruction sets: {}; target: {}",
        env!("CARGO_PKG_VERSION"),
        architectures.join(", "),
        formats.join(", "),
        levels.join(", "),
        env!("EMBER_TARGET"),
    );
    CString::new(line).unwrap_or_default()
});

fn c_str(text: &'static str) -> *const c_char {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default().as_ptr()
}

/// Gives the version of the library at run time, for example "0.2.0".
/// - Ownership: The text is static and never freed.
/// - Threads: Any thread, also several at the same time.
/// - @return the version, NUL-terminated, never NULL
#[unsafe(no_mangle)]
pub extern "C" fn ember_version_string() -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(c_str(VERSION)))
}

/// Parts of the library that a build may leave out.
const FEATURES: [(&str, bool); 4] = [
    ("chat", cfg!(feature = "chat")),
    ("constraints", cfg!(feature = "constraints")),
    ("hf", cfg!(feature = "hf")),
    ("tokenizers", cfg!(feature = "tokenizers")),
];

fn has_feature(name: &str) -> bool {
    FEATURES.contains(&(name, true))
}

/// Says whether the library was built with an optional part. What needs a part that is missing gives
/// EMBER_E_UNSUPPORTED.
/// - @param name the part, UTF-8: "chat" (chat templates), "constraints", "hf" (Hugging Face folders), "tokenizers"
///   (GGUF files whose text is normalized as BERT's or Qwen's); may be NULL if `name_len` is 0
/// - @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - Threads: Any thread, also several at the same time.
/// - @return 1 when the library has the part, 0 when it has not or does not know the name
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_has_feature(name: *const c_char, name_len: usize) -> i32 {
    guard_value(0, || Ok(i32::from(has_feature(text!(name, name_len)))))
}

/// Describes the build in one line: version, architectures, number formats, instruction sets that this machine can
/// run (lowest first), target.
/// - Ownership: The text is static and never freed.
/// - Threads: Any thread, also several at the same time.
/// - @return the line, NUL-terminated, never NULL
#[unsafe(no_mangle)]
pub extern "C" fn ember_build_info() -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(BUILD.as_ptr()))
}
