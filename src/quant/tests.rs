//! The same tests for every row of [`FORMATS`].
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use std::path::Path;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quant").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A repeatable vector of values in -1..1 (a linear congruential generator).
fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn round_trip(info: &FormatInfo, x: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let mut row = vec![0; info.format.row_bytes(x.len())];
    (info.quantize)(x, &mut row);
    let mut values = vec![f32::NAN; x.len()];
    (info.dequantize)(&row, &mut values);
    (row, values)
}

#[test]
fn the_registry_is_consistent() {
    for (i, info) in FORMATS.iter().enumerate() {
        assert_eq!(info.format as usize, i, "{}", info.name);
        assert_eq!(info.format.info().name, info.name);
        assert_eq!(format!("{:?}", info.format), info.name);
        let ty = TensorType(info.tensor_type);
        assert_eq!(Format::from_tensor_type(ty), Some(info.format));
        assert_eq!(
            (ty.name(), ty.block_len(), ty.block_bytes()),
            (info.name, info.block_len, info.block_bytes)
        );
        assert_eq!(info.format.row_bytes(info.block_len * 3), info.block_bytes * 3);
    }
    assert_eq!(Format::from_tensor_type(TensorType(9999)), None);
}

#[test]
fn the_same_bits_as_the_reference_package() {
    let x = floats(&fixture("input.f32"));
    assert_eq!(x.len(), 512);
    for info in &FORMATS {
        let golden_row = fixture(&format!("{}.bin", info.name.to_lowercase()));
        let golden_values = floats(&fixture(&format!("{}.f32", info.name.to_lowercase())));
        let (row, values) = round_trip(info, &x);
        for (i, (a, b)) in row.iter().zip(&golden_row).enumerate() {
            assert_eq!(a, b, "{}: byte {i} (block {})", info.name, i / info.block_bytes);
        }
        assert_eq!(row.len(), golden_row.len());
        for (i, (a, b)) in values.iter().zip(&golden_values).enumerate() {
            assert!(
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                "{}: {i}: {a} is not {b}",
                info.name
            );
        }
        assert_eq!(values.len(), golden_values.len());
    }
}

#[test]
fn round_trip_error_is_within_half_a_step() {
    let x = noise(4096, 1);
    for info in &FORMATS {
        let step = match info.format {
            Format::F32 => 0.0,
            Format::F16 => 1.0 / 2048.0,
            Format::BF16 => 1.0 / 256.0,
            Format::Q8_0 => 1.0 / 127.0,
            Format::Q4_0 => 2.0 / 8.0, // the end opposite to the largest magnitude is cut
            Format::Q4_1 => 2.0 / 15.0,
        };
        for (a, b) in x.iter().zip(&round_trip(info, &x).1) {
            // The scale itself is rounded to 11 bits.
            let bound = if step == 0.0 { 0.0 } else { step / 2.0 + a.abs() / 2048.0 };
            assert!((a - b).abs() <= bound, "{}: {a} became {b}", info.name);
        }
    }
}

#[test]
fn the_integer_dot_is_the_dot_of_the_dequantized_values() {
    for info in &FORMATS {
        let Dot::Q8(dot) = info.dot else { continue };
        for n in [0, 32, 64, 96, 256, 4096] {
            let (row, w) = round_trip(info, &noise(n, 2));
            let mut x = vec![Q8Block::ZERO; n / Q8Block::LEN];
            quantize_activations(&noise(n, 3), &mut x);
            let x_values = x.iter().flat_map(|b| b.qs.map(|q| f64::from(b.d) * f64::from(q)));
            let products: Vec<f64> = w.iter().zip(x_values).map(|(&w, x)| f64::from(w) * x).collect();
            let (expected, magnitude) = products.iter().fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()));
            let got = f64::from(dot(&row, &x));
            assert!(
                (got - expected).abs() <= 1e-6 * magnitude,
                "{} n = {n}: {got} is not {expected}",
                info.name
            );
        }
    }
}

#[test]
fn rows_of_any_alignment_give_the_same_values() {
    for info in &FORMATS {
        let (row, values) = round_trip(info, &noise(512, 4));
        for shift in 1..8 {
            let mut shifted = vec![0; shift];
            shifted.extend(&row);
            let mut again = vec![0.0; 512];
            (info.dequantize)(&shifted[shift..], &mut again);
            assert_eq!(again, values, "{} at {shift}", info.name);
        }
    }
}

#[test]
fn non_finite_values_do_not_panic() {
    for info in &FORMATS {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45] {
            round_trip(info, &[bad; 64]);
            let mut x = noise(64, 5);
            x[7] = bad;
            round_trip(info, &x);
        }
        round_trip(info, &[]);
    }
}
