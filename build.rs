//! Names the shared library, and regenerates `include/ember.h` from the sources of `src/capi` and `src/error.rs`, in the order of
//! `header/sections.txt`.
//!
//! The header is committed, so a checkout that cannot be written, or a build from a package without the sources
//! cbindgen needs, still works: then the committed header stays as it is.

#[path = "header/order.rs"]
mod order;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=header");
    println!("cargo::rerun-if-changed=src/capi");
    println!("cargo::rerun-if-changed=src/error.rs");
    println!("cargo::rerun-if-changed=cbindgen.toml");
    println!("cargo::rerun-if-changed=include/ember.h");
    println!("cargo::rustc-env=EMBER_TARGET={}", std::env::var("TARGET").expect("cargo sets TARGET"));
    name_library();
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_file(Path::new(&root).join("cbindgen.toml"));
    let header = config.map_err(|e| e.to_string()).and_then(|mut config| {
        config.after_includes = config.after_includes.map(|text| number(&text));
        let root = Path::new(&root);
        let builder = cbindgen::Builder::new().with_config(config);
        // `with_src` follows `mod` lines, so this is the error file and everything below capi.
        let builder = builder.with_src(root.join("src/error.rs")).with_src(root.join("src/capi/mod.rs"));
        builder.generate().map_err(|e| e.to_string())
    });
    match header {
        Ok(header) => write_header(Path::new(&root), &header),
        Err(e) => println!("cargo::warning=include/ember.h was not regenerated: {e}"),
    }
}

/// A text of the header with the numbers of the version in it.
fn number(text: &str) -> String {
    ["MAJOR", "MINOR", "PATCH"].iter().fold(text.to_string(), |text, part| {
        let number = std::env::var(format!("CARGO_PKG_VERSION_{part}")).expect("cargo sets the version");
        text.replace(&format!("@{part}@"), &number)
    })
}

/// The name that programs linked with the shared library look for at run time: with the first number of the version on
/// systems that keep several versions of a library side by side, without it on Android, where an app carries its own.
fn name_library() {
    let cfg = |name: &str| std::env::var(name).unwrap_or_default();
    let major = cfg("CARGO_PKG_VERSION_MAJOR");
    let arguments = match (cfg("CARGO_CFG_TARGET_VENDOR").as_str(), cfg("CARGO_CFG_TARGET_OS").as_str()) {
        ("apple", _) => vec![format!("-Wl,-install_name,@rpath/libember.{major}.dylib")],
        // Devices with pages of 16 KB refuse libraries whose segments lie closer.
        (_, "android") => vec!["-Wl,-soname,libember.so".into(), "-Wl,-z,max-page-size=16384".into()],
        (_, "linux" | "freebsd" | "netbsd" | "openbsd" | "dragonfly") => {
            vec![format!("-Wl,-soname,libember.so.{major}")]
        }
        _ => vec![],
    };
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}

/// Orders the header by nouns and writes it. A declaration that has no place in the order stops the build.
fn write_header(root: &Path, header: &cbindgen::Bindings) {
    let mut written = Vec::new();
    header.write(&mut written);
    let written = String::from_utf8_lossy(&written);
    let sections = std::fs::read_to_string(root.join("header/sections.txt"))
        .map_err(|e| format!("header/sections.txt: {e}"));
    let new = match sections.and_then(|sections| order::order(&written, &sections)) {
        Ok(new) => new,
        Err(e) => {
            println!("cargo::error=include/ember.h cannot be ordered: {e}");
            std::process::exit(1);
        }
    };
    let path = root.join("include/ember.h");
    if std::fs::read(&path).is_ok_and(|old| old == new.as_bytes()) {
        return;
    }
    if let Err(e) = std::fs::write(&path, new) {
        println!("cargo::warning={} could not be written: {e}", path.display());
    }
}
