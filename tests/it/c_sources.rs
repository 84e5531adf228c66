//! Habits of the C in this repository that a compiler does not see.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};

use regex::Regex;

/// The files of a folder in which C may stand.
fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && !matches!(name, "target" | "build" | "node_modules" | "fixtures") {
                files(&path, out);
            }
        } else if path
            .extension()
            .is_some_and(|e| ["c", "h", "hpp", "cpp", "md", "go", "py"].iter().any(|c| e == *c))
        {
            out.push(path);
        }
    }
}

/// `must(f(&err), err)` may read `err` before `f` sets it: C does not order the arguments of a call.
#[test]
fn no_call_takes_an_error_beside_the_call_that_sets_it() {
    let call = Regex::new(r"&([a-z_]*err[a-z_]*)\)+,\s*([a-z_]*err[a-z_]*)\)").unwrap();
    let mut sources = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["bench", "bindings", "docs", "examples", "header", "include", "tests"]
        .iter()
        .for_each(|folder| files(&root.join(folder), &mut sources));
    sources.push(root.join("README.md"));
    assert!(sources.len() > 100);
    let mut found = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        for part in call.captures_iter(&text).filter(|part| part[1] == part[2]) {
            let line = text[..part.get(0).unwrap().start()].lines().count();
            found.push(format!("{}:{line}: {}", path.display(), &part[0]));
        }
    }
    assert!(
        found.is_empty(),
        "these may read an error before it is set; pass its address:\n{}",
        found.join("\n")
    );
}
