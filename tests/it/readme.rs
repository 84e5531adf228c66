//! The first program of docs/install.md is the one that is built and run, and every page with blocks of code has a test that runs them.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_program_in_the_installation_is_the_example() {
    let program = read("examples/c/hello.c");
    assert!(program.lines().count() <= 30, "a program of at most 30 lines");
    assert!(
        read("docs/install.md").contains(&format!("```c\n{program}```")),
        "examples/c/hello.c stands in docs/install.md"
    );
}

#[test]
fn the_lines_in_the_android_readme_are_those_that_are_built() {
    let page = read("packaging/android/README.md");
    let block = page.split("```cmake\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // The first line names the folder, which the test gives on the command line.
    let (folder, lines) = block.split_once('\n').unwrap();
    assert!(folder.starts_with("set(Ember_DIR "), "{folder}");
    assert!(
        read("tests/packaging/android/CMakeLists.txt").contains(lines),
        "an app is built with these lines"
    );
}

/// Values of macros and sizes of structs, which other languages take from the page.
#[test]
fn the_tables_for_other_languages_are_those_of_the_header() {
    let (page, abi) = (read("docs/ffi.md"), read("tests/golden/abi.txt"));
    let mut n = 0;
    for line in abi.lines() {
        let row = match line.split(' ').collect::<Vec<_>>()[..] {
            ["define", name, value] => format!("\n| `{name}` | {value} |"),
            ["struct", name, _, size] => format!("\n| `{name}` | {size} |"),
            _ => continue,
        };
        n += 1;
        assert!(page.contains(&row), "docs/ffi.md lacks {row}");
    }
    assert_eq!(page.matches("\n| `").count(), n, "docs/ffi.md has rows that the header has not");
}

/// Every status has a row, by its name and number.
#[test]
fn the_page_of_error_codes_has_every_status() {
    let (page, abi) = (read("docs/statuses.md"), read("tests/golden/abi.txt"));
    let statuses: Vec<String> = abi
        .lines()
        .filter_map(|line| line.strip_prefix("enum ember_status "))
        .filter_map(|rest| rest.split_once(' '))
        .map(|(name, number)| format!("\n| `{name}` | {number} |"))
        .collect();
    assert!(statuses.len() > 10, "{statuses:?}");
    for row in &statuses {
        assert!(page.contains(row), "docs/statuses.md lacks {row}");
    }
    assert_eq!(page.matches("\n| `EMBER_").count(), statuses.len(), "docs/statuses.md has rows of no status");
}

/// Pages with blocks of code, and what runs the blocks.
const RUN_BY: &[(&str, &str)] = &[
    ("README.md", "tests/capi/readme.sh"),
    ("README.md", "bindings/python/tests/test_docs.py"),
    ("CONTRIBUTING.md", "tests/capi/readme.sh"),
    ("docs/install.md", "tests/capi/readme.sh"),
    ("docs/install.md", "tests/packaging/install.sh"),
    ("docs/packages.md", "tests/capi/readme.sh"),
    ("docs/command-line.md", "tests/capi/readme.sh"),
    ("docs/guides/chat.md", "tests/capi/readme.sh"),
    ("docs/guides/tools.md", "tests/capi/readme.sh"),
    ("docs/guides/embeddings.md", "tests/capi/readme.sh"),
    ("docs/guides/mobile.md", "tests/capi/readme.sh"),
    ("docs/guides/performance.md", "tests/capi/readme.sh"),
    ("ARCHITECTURE.md", "tests/it/architecture.rs"),
    ("bench/README.md", "tests/capi/readme.sh"),
    ("bench/history.md", "tests/capi/readme.sh"),
    ("docs/models.md", "tests/capi/readme.sh"),
    ("examples/models/README.md", "tests/capi/readme.sh"),
    ("docs/c.md", "tests/capi/guide.sh"),
    ("docs/guides/errors.md", "tests/capi/guide.sh"),
    ("docs/guides/text.md", "tests/capi/guide.sh"),
    ("docs/guides/structured-output.md", "tests/capi/guide.sh"),
    ("docs/guides/chat.md", "tests/capi/guide.sh"),
    ("docs/guides/tools.md", "tests/capi/guide.sh"),
    ("docs/guides/embeddings.md", "tests/capi/guide.sh"),
    ("docs/guides/tokenizers.md", "tests/capi/guide.sh"),
    ("docs/guides/threads.md", "tests/capi/guide.sh"),
    ("docs/guides/many-users.md", "tests/capi/guide.sh"),
    ("docs/guides/state.md", "tests/capi/guide.sh"),
    ("docs/guides/models.md", "tests/capi/guide.sh"),
    ("docs/guides/memory.md", "tests/capi/guide.sh"),
    ("docs/ffi.md", "tests/capi/ffi.sh"),
    ("bindings/cpp/README.md", "bindings/cpp/tests/run.sh"),
    ("bindings/dotnet/README.md", "bindings/dotnet/test.sh"),
    ("bindings/go/README.md", "bindings/go/readme_test.go"),
    ("bindings/go/examples/server/README.md", "bindings/go/examples/server/clients/test.sh"),
    ("bindings/java/README.md", "bindings/pages.sh"),
    ("bindings/kotlin/README.md", "bindings/kotlin/test.sh"),
    ("bindings/node/README.md", "bindings/node/ember.test.mjs"),
    ("bindings/python/README.md", "bindings/python/tests/test_docs.py"),
    ("bindings/python/README.md", "bindings/python/tests/ray_batch_check.py"),
    ("bindings/swift/README.md", "bindings/swift/Tests/EmberTests/ReadmeTests.swift"),
    ("bindings/swift/README.md", "bindings/swift/test.sh"),
    ("packaging/android/README.md", "tests/it/readme.rs"),
];

#[test]
fn every_page_with_code_names_who_runs_it() {
    fn walk(root: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !["target", "build", "node_modules"].contains(&&*name) {
                    walk(root, &path, found);
                }
            } else if name.ends_with(".md") && std::fs::read_to_string(&path).unwrap().contains("```") {
                let page = path.strip_prefix(root).unwrap().components();
                let parts: Vec<_> = page.map(|part| part.as_os_str().to_string_lossy()).collect();
                found.push(parts.join("/"));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    for dir in ["bench", "bindings", "docs", "examples", "fuzz", "packaging", "scripts", "tests"] {
        walk(root, &root.join(dir), &mut pages);
    }
    for page in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        pages.extend(read(page).contains("```").then(|| page.to_owned()));
    }
    assert!(pages.len() >= 9, "{pages:?}");
    for page in pages {
        let mut by = RUN_BY.iter().filter(|(name, _)| *name == page).peekable();
        assert!(by.peek().is_some(), "nothing runs the blocks of {page}");
        for (_, test) in by {
            let name = page.rsplit('/').next().unwrap();
            assert!(read(test).contains(name), "{test} does not mention {page}");
        }
    }
}
