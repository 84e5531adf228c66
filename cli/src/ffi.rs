//! The declarations of `include/ember.h`, which `build.rs` makes.
#![allow(
    dead_code,
    non_camel_case_types,
    missing_docs,
    reason = "all of the header, under its own names, described there"
)]

include!(concat!(env!("OUT_DIR"), "/ffi.rs"));

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::process::Command;

    /// A C compiler finds each struct as large, and each field at the same place, as Rust does.
    #[test]
    fn structs_are_laid_out_as_in_c() {
        let folder = tempfile::tempdir().expect("a folder");
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../include/ember.h");
        let mut source = format!("#include \"{header}\"\n");
        for (name, field, number) in super::LAYOUTS {
            let measured = match *field {
                "" => format!("sizeof({name})"),
                field => format!("offsetof({name}, {field})"),
            };
            let _ = writeln!(source, "_Static_assert({measured} == {number}, \"{name} {field}\");");
        }
        assert!(super::LAYOUTS.len() > 100, "the header has structs");
        let file = folder.path().join("layout.c");
        std::fs::write(&file, source).expect("a file");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let done = Command::new(compiler)
            .args(["-std=c11", "-fsyntax-only"])
            .arg(&file)
            .output()
            .expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
