//! `docs/kernels.md` says how each format is multiplied on each instruction set of this machine.

use std::path::Path;

use ember::kernels::{Isa, Kernels};
use ember::quant::packed::{Codes, Values};
use ember::quant::{Dot, FORMATS, FormatInfo};

/// The column of the table that a level belongs to.
fn column(isa: Isa) -> usize {
    match isa {
        Isa::Scalar => 1,
        Isa::Avx2 | Isa::AvxVnni => 2,
        Isa::Avx512 | Isa::Amx => 3,
        Isa::Neon | Isa::Dotprod | Isa::I8mm => 4,
    }
}

/// The word for how a level multiplies a format.
fn word(kernels: &Kernels, info: &FormatInfo) -> &'static str {
    let packing = kernels.packing(info.format).filter(|_| kernels.packs(info.format));
    match (kernels.dot[info.format as usize], packing) {
        (Dot::Q8(_), Some(packing)) if matches!(packing.values, Values::LookedUp) => "looked up",
        (Dot::Q8(_), Some(packing)) if packing.may_stay() => "packed",
        (Dot::Q8(_), Some(_)) => "packed now",
        (Dot::Q8(_), None) => "rows",
        (Dot::F32, Some(packing)) if packing.codes == Codes::Wide => "16 bits",
        (Dot::F32, Some(_)) => "numbers",
        (Dot::F32, None) => "f32",
    }
}

#[test]
fn the_table_of_kernels_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kernels.md");
    let doc = std::fs::read_to_string(path).expect("docs/kernels.md");
    let rows: Vec<Vec<&str>> = doc
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for isa in Isa::supported() {
        let kernels = Kernels::select(Some(isa));
        for info in &FORMATS {
            let name = format!("`{}`", info.name);
            let row = rows.iter().find(|row| row[0].split(' ').any(|word| word == name));
            let row = row.unwrap_or_else(|| panic!("docs/kernels.md has no line for {name}"));
            assert_eq!(row[column(isa)], word(kernels, info), "{name}, {isa:?}");
        }
    }
}
