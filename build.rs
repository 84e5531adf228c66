//! Regenerates `include/ember.h` from the sources of `src/capi` and `src/error.rs`.
//!
//! The header is committed, so a checkout that cannot be written, or a build from a package without the sources
//! cbindgen needs, still works: then the committed header stays as it is.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=src/capi");
    println!("cargo::rerun-if-changed=src/error.rs");
    println!("cargo::rerun-if-changed=cbindgen.toml");
    println!("cargo::rustc-env=EMBER_TARGET={}", std::env::var("TARGET").expect("cargo sets TARGET"));
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_file(Path::new(&root).join("cbindgen.toml"));
    let header = config.map_err(|e| e.to_string()).and_then(|config| {
        let builder = cbindgen::Builder::new().with_config(config);
        let builder = sources(Path::new(&root)).into_iter().fold(builder, cbindgen::Builder::with_src);
        builder.generate().map_err(|e| e.to_string())
    });
    match header {
        Ok(header) => write_if_changed(&Path::new(&root).join("include/ember.h"), &header),
        Err(e) => println!("cargo::warning=include/ember.h was not regenerated: {e}"),
    }
}

/// The files whose public items make up the header, in a fixed order.
fn sources(root: &Path) -> Vec<PathBuf> {
    let capi = std::fs::read_dir(root.join("src/capi")).expect("src/capi is part of the crate");
    let mut files: Vec<PathBuf> = capi.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.insert(0, root.join("src/error.rs"));
    files
}

fn write_if_changed(path: &Path, header: &cbindgen::Bindings) {
    let mut new = Vec::new();
    header.write(&mut new);
    if std::fs::read(path).is_ok_and(|old| old == new) {
        return;
    }
    if let Err(e) = std::fs::write(path, new) {
        println!("cargo::warning={} could not be written: {e}", path.display());
    }
}
