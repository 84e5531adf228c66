//! Model files and number formats for `ember quantize`: the library's own modules, compiled again. Its C interface has no
//! functions for them, and its Rust crate as a whole would bring C functions of the same names as those of the shared library.
#![allow(dead_code, unused_imports, reason = "the library uses more of these modules")]

// What the example calls the library.
extern crate self as ember;

#[path = "../../../src/cancel.rs"]
pub mod cancel;
#[path = "../../../src/error.rs"]
pub mod error;
#[path = "../../../src/gguf/mod.rs"]
pub mod gguf;
#[path = "../../../src/memory/mod.rs"]
pub mod memory;
#[path = "../../../src/quant/mod.rs"]
pub mod quant;
#[path = "../../../examples/quantize.rs"]
pub mod quantize;
