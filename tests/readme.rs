//! The README's program is the one that is built and run.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_program_in_the_readme_is_the_example() {
    let program = read("examples/c/hello.c");
    assert!(program.lines().count() <= 30, "a program of at most 30 lines");
    assert!(
        read("README.md").contains(&format!("```c\n{program}```")),
        "examples/c/hello.c stands in the README"
    );
}
