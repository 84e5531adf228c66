//! `docs/models.md` names every architecture and number format that Ember runs, and only fixtures and tests that exist;
//! its figures of llama.cpp are those that the tests compare with.

use crate::common;

use std::path::Path;

use common::{fixture, read_json};
use ember::quant::FORMATS;

/// The cells of the table rows of a text.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The `quoted` words of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_list_of_models_is_complete_and_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let doc = std::fs::read_to_string(root.join("docs/models.md")).expect("docs/models.md");
    let rows = rows(&doc);
    for architecture in ember::arch::known() {
        let row = rows.iter().find(|row| row[0] == format!("`{architecture}`"));
        let row = row.unwrap_or_else(|| panic!("docs/models.md has no line for {architecture}"));
        let fixtures: Vec<&str> = quoted(row[2]).collect();
        assert!(!fixtures.is_empty(), "{architecture} has no fixture");
        for name in fixtures {
            let path = fixture(&format!("models/{name}.gguf"));
            let file = ember::gguf::Gguf::open(&path).unwrap_or_else(|e| panic!("{e:?}"));
            let found = file.metadata().require_str("general.architecture").expect("its name");
            assert_eq!(found, architecture, "{name}");
        }
    }
    // `tests/it/hf_fields.rs` writes this row; every class has the field.
    let fields = std::fs::read_to_string(root.join("docs/folder-fields.md")).expect("docs/folder-fields.md");
    let types = fields.lines().find(|line| line.starts_with("| `_name_or_path`")).expect("the row");
    let table = doc.split("`config.json` that load |\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let table: Vec<&str> = quoted(table.expect("a table")).collect();
    // Of some model types two classes were driven.
    let driven: Vec<&str> = quoted(types).skip(1).filter(|name| !name.contains('+')).collect();
    assert_eq!(table, driven, "docs/models.md has other model types");
    let errors = &read_json(&fixture("models/llamacpp_errors.json"))["errors"];
    for info in &FORMATS {
        let row = rows.iter().find(|row| quoted(row[0]).any(|name| name == info.name));
        let row = row.unwrap_or_else(|| panic!("docs/models.md has no line for {}", info.name));
        let fixtures = ["quant", "llama-tied"].map(|kind| format!("{kind}-{}", info.name.to_lowercase()));
        if let Some(error) = fixtures.iter().find_map(|name| errors[name]["repack"].as_f64()) {
            let written: f64 = row[3].parse().unwrap_or_else(|e| panic!("{}: {:?}: {e}", info.name, row[3]));
            assert!((written - error).abs() <= 5e-3 * error, "{}: {written:e}, not {error:e}", info.name);
        }
    }
    for path in quoted(&doc).filter(|name| name.starts_with("tests/") && !name.contains('*')) {
        assert!(root.join(path).exists(), "docs/models.md names {path}, which does not exist");
    }
}
