//! A file and a type table made by the `gguf` Python package (tests/fixtures/gguf/make.py) are read as it meant them.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ember::gguf::{Array, Gguf, StringArray, TensorType, Value};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf").join(name)
}

#[test]
fn every_key_is_read() {
    let file = Gguf::open(&fixture("py_v3.gguf")).unwrap();
    assert_eq!(file.version(), 3);
    let nested = Array::Array(vec![Array::I32(vec![1, 2]), Array::I32(vec![3])]);
    let expected: Vec<(&str, Value)> = vec![
        ("general.architecture", "llama".into()),
        ("general.alignment", 64u32.into()),
        ("scalar.uint8", 200u8.into()),
        ("scalar.int8", (-100i8).into()),
        ("scalar.uint16", 60_000u16.into()),
        ("scalar.int16", (-30_000i16).into()),
        ("scalar.uint32", 4_000_000_000u32.into()),
        ("scalar.int32", (-2_000_000_000i32).into()),
        ("scalar.float32", 0.1f32.into()),
        ("scalar.bool", true.into()),
        ("scalar.string", "größer".into()),
        ("scalar.uint64", ((1u64 << 63) + 1).into()),
        ("scalar.int64", (-(1i64 << 62)).into()),
        ("scalar.float64", 0.1f64.into()),
        ("array.uint8", vec![1u8, 2, 255].into()),
        ("array.int8", vec![-1i8, 127].into()),
        ("array.uint16", vec![65_535u16].into()),
        ("array.int16", vec![-32_768i16, 1].into()),
        ("array.uint32", vec![u32::MAX, 0].into()),
        ("array.int32", vec![-5i32, 6].into()),
        ("array.float32", vec![0.5f32, -2.0].into()),
        ("array.bool", vec![true, false, true].into()),
        ("array.string", StringArray::copy(&["a", "", "ß", "▁the"]).unwrap().into()),
        ("array.uint64", vec![u64::MAX].into()),
        ("array.int64", vec![i64::MIN].into()),
        ("array.float64", vec![1e300f64, -0.5].into()),
        ("array.nested", nested.into()),
    ];
    let found: Vec<(&str, Value)> = file.metadata().iter().map(|(k, v)| (k, v.clone())).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_tensor_is_read() {
    let file = Gguf::open(&fixture("py_v3.gguf")).unwrap();
    let shapes: Vec<_> = file.tensors().iter().map(|t| (&*t.name, t.ty, &*t.dims, t.n_bytes)).collect();
    let expected: [(&str, TensorType, &[usize], usize); 4] = [
        ("ramp.f32", TensorType::F32, &[32, 2], 256),
        ("ramp.f16", TensorType::F16, &[32, 2], 128),
        ("ramp.q8_0", TensorType::Q8_0, &[32, 2], 68),
        ("cube.i32", TensorType::I32, &[2, 3, 4], 96),
    ];
    assert_eq!(shapes, expected);

    let bytes = |name| file.tensor_bytes(file.tensor(name).unwrap());
    let ramp: Vec<u8> = (0..64i16).flat_map(|i| f32::from(i - 31).to_le_bytes()).collect();
    assert_eq!(bytes("ramp.f32"), ramp);
    let ramp_16: Vec<u8> =
        (0..64i16).flat_map(|i| half::f16::from_f32(f32::from(i - 31)).to_le_bytes()).collect();
    assert_eq!(bytes("ramp.f16"), ramp_16);
    let cube: Vec<u8> = (0..24i32).flat_map(i32::to_le_bytes).collect();
    assert_eq!(bytes("cube.i32"), cube);
    // The second row of the ramp is 1..=32: its scale is 32/127, its largest element 127.
    let second_block = &bytes("ramp.q8_0")[34..];
    assert_eq!(second_block[..2], half::f16::from_f32(32.0 / 127.0).to_le_bytes());
    assert_eq!(second_block[33], 127);
}

#[test]
fn the_type_table_agrees() {
    let json = std::fs::read_to_string(fixture("types.json")).unwrap();
    let table: BTreeMap<String, (u32, usize, usize)> = serde_json::from_str(&json).unwrap();
    for (name, &(id, block_len, block_bytes)) in &table {
        let ty = TensorType(id);
        assert_eq!((ty.name(), ty.block_len()), (&**name, block_len));
        // ggml's Q8_1 block is two f16 and 32 bytes; the package still counts the two as f32.
        let expected = if ty == TensorType::Q8_1 { 36 } else { block_bytes };
        assert_eq!(ty.block_bytes(), expected, "{name}");
    }
    // Newer than the package.
    let missing: Vec<_> = TensorType::all().filter(|ty| !table.contains_key(ty.name())).collect();
    assert_eq!(missing, [TensorType::Q2_0]);
}
