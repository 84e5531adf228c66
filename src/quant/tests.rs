//! The same tests for every row of [`FORMATS`].
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

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

/// A repeatable row of bytes, from the same generator as `tests/oracle/quant_golden.py`.
fn random_bytes(n: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..n).map(|_| next()).collect()
}

fn dequantized(info: &FormatInfo, row: &[u8]) -> Vec<f32> {
    let mut values = vec![f32::NAN; row.len() / info.block_bytes * info.block_len];
    (info.dequantize)(row, &mut values);
    values
}

/// A repeatable row of `n` values (full blocks) near 1 in any format. Where Ember can quantize, the values are in -1..1.
/// Otherwise many random blocks are drawn, and the one whose largest value is nearest to 1 is taken.
pub(crate) fn sample_row(info: &FormatInfo, n: usize, seed: u32) -> Vec<u8> {
    let mut row = vec![0; info.format.row_bytes(n)];
    if let Some(quantize) = info.quantize {
        quantize(&noise(n, seed), &mut row);
        return row;
    }
    const DRAWS: usize = 64;
    let drawn = random_bytes(row.len() * DRAWS, seed);
    let far_from_1 = |block: &[u8]| {
        let values = dequantized(info, block);
        let largest = values.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
        let usable = largest > 0.0 && values.iter().all(|x| x.is_finite());
        if usable { largest.log2().abs() } else { f32::INFINITY }
    };
    for (block, drawn) in row.chunks_mut(info.block_bytes).zip(drawn.chunks(info.block_bytes * DRAWS)) {
        let candidates = drawn.chunks(info.block_bytes);
        let nearest = candidates.min_by(|a, b| far_from_1(a).total_cmp(&far_from_1(b)));
        block.copy_from_slice(nearest.unwrap());
    }
    row
}

/// `None` for a format that Ember cannot write.
fn round_trip(info: &FormatInfo, x: &[f32]) -> Option<(Vec<u8>, Vec<f32>)> {
    let mut row = vec![0; info.format.row_bytes(x.len())];
    info.quantize?(x, &mut row);
    let values = dequantized(info, &row);
    Some((row, values))
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
fn dequantizing_gives_the_bits_of_the_reference_package() {
    let golden = String::from_utf8(fixture("dequantize.txt")).unwrap();
    assert!(golden.lines().count() >= 33, "the golden file has a line per format");
    for line in golden.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let info = FORMATS.iter().find(|info| info.name == name).unwrap();
        let mut row: Vec<u8> = (0..=255).flat_map(|byte| vec![byte; info.block_bytes]).collect();
        row.extend(random_bytes(1024 * info.block_bytes, 1));
        for (i, (blocks, expected)) in row.chunks(64 * info.block_bytes).zip(&mut words).enumerate() {
            let bits = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
            let fnv = dequantized(info, blocks).into_iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, x| {
                (h ^ u64::from(bits(x))).wrapping_mul(0x100_0000_01b3)
            });
            assert_eq!(format!("{fnv:016x}"), expected, "{name}: blocks {}..{}", 64 * i, 64 * (i + 1));
        }
        assert_eq!(words.next(), None, "{name}");
    }
}

#[test]
fn quantizing_gives_the_bits_of_the_reference_package() {
    use Format::*;
    let x = floats(&fixture("input.f32"));
    assert_eq!(x.len(), 512);
    for info in [F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1].map(Format::info) {
        let golden_row = fixture(&format!("{}.bin", info.name.to_lowercase()));
        let golden_values = floats(&fixture(&format!("{}.f32", info.name.to_lowercase())));
        let (row, values) = round_trip(info, &x).unwrap();
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

/// The data of `tests/oracle/quant_rmse.py`.
fn kind_of_data(kind: &str) -> Vec<f32> {
    const N: usize = 16384;
    let mut state = 7u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i64::from(state >> 8)
    };
    let mut bell = || ((draw() + draw() + draw() + draw()) - (1 << 25)) as f32 / (1 << 24) as f32;
    let bell: Vec<f32> = (0..N).map(|_| bell()).collect();
    match kind {
        "uniform" => noise(N, 6),
        "bell" => bell,
        "heavy" => bell.iter().map(|x| x * x.abs()).collect(),
        "shifted" => bell.iter().map(|x| x + 0.5).collect(),
        _ => panic!("no kind of data is called {kind}"),
    }
}

fn relative_rms_error(got: &[f32], x: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(x).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    (error / x.iter().map(|&x| square(f64::from(x))).sum::<f64>()).sqrt()
}

#[test]
fn the_k_formats_lose_no_more_than_with_llama_cpp() {
    let golden = String::from_utf8(fixture("rmse.txt")).unwrap();
    assert_eq!(golden.lines().count(), 20, "five formats, four kinds of data");
    for line in golden.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let info = FORMATS.iter().find(|info| info.name == words[0]).unwrap();
        let x = kind_of_data(words[1]);
        let ours = relative_rms_error(&round_trip(info, &x).unwrap().1, &x);
        let theirs: f64 = words[2].parse().unwrap();
        println!("{line} ratio {:.4}", ours / theirs);
        assert!(ours <= 1.02 * theirs, "{line}: {ours:.6}");
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
            Format::Q5_0 => 2.0 / 16.0, // the end opposite to the largest magnitude is cut
            Format::Q5_1 => 2.0 / 31.0,
            Format::Q4_0 => 2.0 / 8.0, // as with Q5_0
            Format::Q4_1 => 2.0 / 15.0,
            _ => continue,
        };
        for (a, b) in x.iter().zip(&round_trip(info, &x).unwrap().1) {
            // The scale itself is rounded to 11 bits.
            let bound = if step == 0.0 { 0.0 } else { step / 2.0 + a.abs() / 2048.0 };
            assert!((a - b).abs() <= bound, "{}: {a} became {b}", info.name);
        }
    }
}

/// The dot product in f64 of dequantized weights and activations, and the sum of the magnitudes of its terms.
fn expected_dot(w: &[f32], x: &[Q8Block]) -> (f64, f64) {
    let x_values = x.iter().flat_map(|b| b.qs.map(|q| f64::from(b.d) * f64::from(q)));
    let products = w.iter().zip(x_values).map(|(&w, x)| f64::from(w) * x);
    products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()))
}

#[test]
fn the_integer_dot_is_the_dot_of_the_dequantized_values() {
    for info in &FORMATS {
        let Dot::Q8(dot) = info.dot else { continue };
        for n in [0, 32, 64, 96, 256, 1280, 4096].map(|n: usize| n.next_multiple_of(info.block_len)) {
            let row = sample_row(info, n, 2);
            let mut x = vec![Q8Block::ZERO; n / Q8Block::LEN];
            quantize_activations(&noise(n, 3), &mut x);
            let (expected, magnitude) = expected_dot(&dequantized(info, &row), &x);
            let got = f64::from(dot(&row, &x));
            assert!(
                (got - expected).abs() <= 1e-6 * magnitude,
                "{} n = {n}: {got} is not {expected} ({magnitude})",
                info.name
            );
        }
    }
}

/// Scales of every size, infinite and NaN: no panic (and no overflow of integers, which debug builds check); where the values are
/// finite, the results are finite and right.
#[test]
fn any_bytes_can_be_multiplied() {
    for info in &FORMATS {
        let Dot::Q8(dot) = info.dot else { continue };
        let mut row: Vec<u8> = (0..=255).flat_map(|byte| vec![byte; info.block_bytes]).collect();
        row.extend(random_bytes(1024 * info.block_bytes, 6));
        let mut x = vec![Q8Block::ZERO; info.block_len / Q8Block::LEN];
        for (i, block) in row.chunks(info.block_bytes).enumerate() {
            match i % 4 {
                0 => x.fill(Q8Block::new(1.0 / 127.0, [-127; Q8Block::LEN])),
                1 => x.fill(Q8Block::new(1.0 / 127.0, [127; Q8Block::LEN])),
                _ => quantize_activations(&noise(info.block_len, i as u32), &mut x),
            }
            let (expected, magnitude) = expected_dot(&dequantized(info, block), &x);
            let got = dot(block, &x);
            if magnitude.is_nan() || magnitude > 1e37 {
                assert!(!magnitude.is_nan() || !got.is_finite(), "{} {i}: {got}", info.name);
            } else {
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error <= 1e-5 * magnitude + 1e-36,
                    "{} {i}: {got} is not {expected} ({magnitude})",
                    info.name
                );
            }
        }
        for d in [f32::NAN, f32::INFINITY] {
            dot(&row, &vec![Q8Block::new(d, [-128; 32]); 1280 * x.len()]);
        }
    }
}

#[test]
fn rows_of_any_alignment_give_the_same_values() {
    for info in &FORMATS {
        let row = sample_row(info, 512, 4);
        let values = dequantized(info, &row);
        for shift in 1..8 {
            let mut shifted = vec![0; shift];
            shifted.extend(&row);
            assert_eq!(dequantized(info, &shifted[shift..]), values, "{} at {shift}", info.name);
        }
    }
}

#[test]
fn sample_rows_are_near_1() {
    for info in &FORMATS {
        let values = dequantized(info, &sample_row(info, 512, 5));
        let largest = values.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
        let far = matches!(info.format, Format::F64 | Format::I16 | Format::I32 | Format::I64);
        assert!(values.iter().all(|x| x.is_finite()) && largest > 0.1, "{}: {largest}", info.name);
        assert!(far || largest < 100.0, "{}: {largest}", info.name);
    }
}

#[test]
fn extreme_values_in_k_formats() {
    use Format::*;
    for info in [Q2_K, Q3_K, Q4_K, Q5_K, Q6_K].map(Format::info) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e12] {
            let mut x = noise(512, 5);
            x[300] = bad;
            let values = round_trip(info, &x).unwrap().1;
            let (first, second) = values.split_at(256);
            assert!(
                first.iter().all(|v| v.is_finite()) && second.iter().all(|v| v.is_nan()),
                "{}",
                info.name
            );
        }
        assert_eq!(round_trip(info, &[0.0; 256]).unwrap().1, [0.0; 256], "{}", info.name);
        assert_eq!(round_trip(info, &[1e-30; 256]).unwrap().1, [0.0; 256], "{}", info.name);
        for x in [0.75f32, -0.75, 1000.0] {
            let values = round_trip(info, &[x; 256]).unwrap().1;
            assert!(
                values.iter().all(|v| (v - x).abs() <= x.abs() / 1000.0),
                "{}: {x} {}",
                info.name,
                values[0]
            );
        }
    }
}

#[test]
fn non_finite_values_do_not_panic() {
    for info in FORMATS.iter().filter(|info| info.quantize.is_some()) {
        let n = 64usize.next_multiple_of(info.block_len);
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45] {
            round_trip(info, &vec![bad; n]).unwrap();
            let mut x = noise(n, 5);
            x[7] = bad;
            round_trip(info, &x).unwrap();
        }
        round_trip(info, &[]).unwrap();
    }
}
