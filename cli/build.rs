//! Makes the declarations of `include/ember.h` for Rust, and says where the shared library lies, when the program is linked and when it runs.
//!
//! EMBER_LIB_DIR is the folder that it is linked from (default: `build/lib`).

#[path = "header.rs"]
mod header;

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=header.rs");
    println!("cargo::rerun-if-changed=../include/ember.h");
    println!("cargo::rerun-if-env-changed=EMBER_LIB_DIR");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../include/ember.h")).expect("include/ember.h is readable");
    let declarations = header::rust(&text).unwrap_or_else(|why| panic!("include/ember.h: {why}"));
    std::fs::write(PathBuf::from(variable("OUT_DIR")).join("ffi.rs"), declarations)
        .expect("OUT_DIR is writable");

    let folder = std::env::var_os("EMBER_LIB_DIR").map_or_else(|| root.join("../build/lib"), PathBuf::from);
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=dylib=ember");
    println!("cargo::rustc-env=EMBER_TARGET={}", variable("TARGET"));
    // Beside the program in a wheel, and in `../lib` else. Windows looks beside the program by itself.
    let origin =
        match (variable("CARGO_CFG_TARGET_VENDOR").as_str(), variable("CARGO_CFG_TARGET_FAMILY").as_str()) {
            ("apple", _) => "@loader_path",
            (_, "unix") => "$ORIGIN",
            _ => return,
        };
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{origin}/../lib");
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{origin}");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
