//! Products with numbers as 16-bit integers.

use super::*;
use crate::kernels::scalar::wide::WIDE;
use crate::quant::pack::{Rows, transpose};
use crate::quant::packed::{Group, Packing};
use crate::quant::tests::sample_row;

/// The levels that have such products.
fn levels() -> impl Iterator<Item = (&'static Kernels, &'static Wide)> {
    tables().filter_map(|kernels| Some((kernels, kernels.wide?)))
}

/// `bytes` rows packed, at a multiple of 64 in what is returned.
struct Packed {
    bytes: Vec<u8>,
    start: usize,
    n_pieces: usize,
    format: Format,
}

impl Packed {
    fn new(packing: &Packing, format: Format, rows: &[u8], n_cols: usize, with: Transpose) -> Packed {
        let n_bytes = packing.group_bytes(n_cols);
        let mut bytes = vec![0xAA; n_bytes + 64];
        let start = bytes.as_ptr().align_offset(64);
        bytes.truncate(start + n_bytes);
        (packing.pack)(&Rows { bytes: rows, row_bytes: 2 * n_cols }, with, &mut bytes[start..]);
        Packed { bytes, start, n_pieces: n_cols / 32, format }
    }

    fn group(&self) -> Group<'_> {
        Group::alone(self.format, &self.bytes[self.start..], self.n_pieces)
    }
}

fn rounded(wide: &Wide, x: &[f32]) -> Vec<I16Block> {
    let mut blocks = vec![I16Block { d: 7.0, qs: [7; 32] }; x.len() / 32];
    (wide.round)(x, &mut blocks);
    blocks
}

/// Rows of `format` that hold `x`.
fn rows_of(format: Format, x: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * x.len()];
    (format.info().quantize.unwrap())(x, &mut bytes);
    bytes
}

fn squares(codes: &[i16]) -> i64 {
    codes.iter().map(|&q| i64::from(q) * i64::from(q)).sum()
}

const FORMATS: [Format; 2] = [Format::F16, Format::BF16];

/// Blocks of every kind: of one number, of equal ones, of what is tiny, huge or nearly nothing, with zeros, with NaNs and infinities.
fn odd_blocks() -> Vec<f32> {
    let mut x = noise(32 * 64, 11);
    for (i, block) in x.chunks_mut(32).enumerate() {
        match i {
            0 => block.fill(0.0),
            1 => block.fill(1.0),
            2 => block.fill(-f32::MAX),
            3 => block[7] = f32::NAN,
            4 => block[31] = f32::INFINITY,
            5 => block[0] = f32::NEG_INFINITY,
            6 => block.iter_mut().skip(1).for_each(|x| *x = 0.0),
            7 => block.iter_mut().for_each(|x| *x *= 1e-40),
            8 => block.iter_mut().for_each(|x| *x *= 1e-30),
            9 => block.iter_mut().for_each(|x| *x *= f32::MAX),
            10 => block[3] = 1000.0,
            11 => block.iter_mut().skip(2).for_each(|x| *x *= 1e-6),
            _ => block.iter_mut().for_each(|x| *x *= 2f32.powi(i as i32 - 40)),
        }
    }
    x
}

#[test]
fn blocks_are_close_fit_products_and_have_the_same_bits_on_every_level() {
    let x = odd_blocks();
    let expected = rounded(&WIDE, &x);
    for (x, block) in x.chunks(32).zip(&expected) {
        assert!(squares(&block.qs) < 1 << 31, "{block:?}");
        let largest = x.iter().fold(0.0f32, |max, x| max.max(x.abs()));
        if x.iter().any(|x| !x.is_finite()) {
            assert!(block.d.is_nan() && block.qs == [0; 32], "{x:?}: {block:?}");
        } else if largest < 2f32.powi(-100) {
            assert_eq!(*block, I16Block::ZERO);
        } else {
            let norm = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let step = f64::max(norm / 46_336.0, f64::from(largest) / 32_767.0);
            assert!((f64::from(block.d) / step - 1.0).abs() < 1e-6, "{block:?}, {step}");
            for (&x, &q) in x.iter().zip(&block.qs) {
                let error = f64::from(x) - f64::from(block.d) * f64::from(q);
                assert!(error.abs() <= 0.502 * step, "{x}: {q} in {}", block.d);
            }
        }
    }
    let bits = |blocks: &[I16Block]| bytemuck::cast_slice::<I16Block, u8>(blocks).to_vec();
    for (kernels, wide) in levels() {
        assert!(bits(&rounded(wide, &x)) == bits(&expected), "{}", kernels.isa.name());
        // An odd address.
        assert!(bits(&rounded(wide, &x[1..][..64])) == bits(&rounded(&WIDE, &x[1..][..64])));
        (wide.round)(&[], &mut []);
    }
}

#[test]
fn weights_have_the_same_bits_on_every_level_and_lose_few() {
    for format in FORMATS {
        let packing = |wide: &'static Wide| wide.packing(format).unwrap();
        for (n_cols, n_rows) in [(32, 16), (64, 3), (288, 16), (2048, 16), (544, 1), (256, 15)] {
            let numbers: Vec<f32> = odd_blocks().into_iter().cycle().take(n_rows * n_cols).collect();
            let numbers = rows_of(format, &numbers);
            let samples = sample_row(format.info(), n_rows * n_cols, 5);
            for rows in [numbers, samples] {
                let expected = Packed::new(packing(&WIDE), format, &rows, n_cols, transpose);
                for (kernels, wide) in levels() {
                    let got = Packed::new(packing(wide), format, &rows, n_cols, kernels.transpose);
                    let what = format!("{format:?} {n_rows}x{n_cols}, {}", kernels.isa.name());
                    assert!(got.group().bytes == expected.group().bytes, "{what}");
                    // Rows at an odd address.
                    let odd: Vec<u8> = [&[0], &rows[..]].concat();
                    let odd = Packed::new(packing(wide), format, &odd[1..], n_cols, kernels.transpose);
                    assert!(odd.group().bytes == expected.group().bytes, "{what}, odd");
                }
            }
        }
        // Of normal weights most are as they were: their products with one number each are these numbers.
        let rows = rows_of(format, &noise(16 * 256, 12));
        let packed = Packed::new(packing(&WIDE), format, &rows, 256, transpose);
        let mut expanded = vec![0.0; 16 * 256];
        (format.info().dequantize)(&rows, &mut expanded);
        let mut n_same = 0;
        for column in 0..256 {
            let mut x = vec![0.0; 256];
            x[column] = 1.0;
            let mut out = [0.0; 16];
            (WIDE.product)(&packed.group(), &rounded(&WIDE, &x), &mut out);
            for (r, got) in out.into_iter().enumerate() {
                let w = expanded[r * 256 + column];
                assert!((got - w).abs() <= 7e-5, "{got} {w}");
                n_same += usize::from((got - w).abs() <= 1e-6 * w.abs());
            }
        }
        assert!(n_same > 16 * 256 * 3 / 4, "{format:?}: {n_same}");
    }
}

/// The definition rounds each number once and adds up exactly; all others give its bits, for any number of vectors.
#[test]
fn products_have_the_bits_of_the_definition_which_is_close() {
    for (format, (n_cols, n_rows)) in
        FORMATS.into_iter().flat_map(|f| [(32, 16), (288, 9), (576, 16), (1536, 16), (96, 1)].map(|s| (f, s)))
    {
        let rows = rows_of(format, &noise(n_rows * n_cols, 13));
        let mut expanded = vec![0.0; n_rows * n_cols];
        (format.info().dequantize)(&rows, &mut expanded);
        let mut x = noise(29 * n_cols, 14);
        x[n_cols + 5] = 40.0;
        x[3 * n_cols - 1] = f32::NAN;
        let packed = Packed::new(WIDE.packing(format).unwrap(), format, &rows, n_cols, transpose);
        let blocks = rounded(&WIDE, &x);
        let mut expected = vec![f32::NAN; 29 * 16];
        (WIDE.product)(&packed.group(), &blocks, &mut expected);
        for (t, (x, out)) in x.chunks(n_cols).zip(expected.chunks(16)).enumerate() {
            let norm = |x: &[f32]| x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            for (row, out) in expanded.chunks(n_cols).zip(out) {
                let exact: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let close = (f64::from(*out) - exact).abs() <= 1e-4 * norm(row) * norm(x);
                assert!(close || t == 2 && out.is_nan(), "vector {t}: {out} {exact}");
            }
        }
        let bits = |x: &[f32]| x.iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect::<Vec<_>>();
        for (kernels, wide) in levels() {
            for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 29] {
                let mut got = vec![7.0; 16 * n];
                (wide.product)(&packed.group(), &blocks[..n * n_cols / 32], &mut got);
                assert_eq!(bits(&got), bits(&expected[..16 * n]), "{}, {n} vectors", kernels.isa.name());
            }
        }
    }
}

/// Weights and activations that are as large as they can be together: 2^31 is not reached.
#[test]
fn the_largest_sums_do_not_overflow() {
    for value in [[1.0; 32], std::array::from_fn(|i| if i % 32 == 0 { 1.0 } else { 1e-4 })] {
        for sign in [1.0, -1.0] {
            let weights: Vec<f32> = value.iter().cycle().take(16 * 256).map(|x| sign * x).collect();
            let exact: f64 = 8.0 * f64::from(sign) * value.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            let x: Vec<f32> = value.iter().copied().cycle().take(256).collect();
            for format in FORMATS {
                let rows = rows_of(format, &weights);
                let packed = Packed::new(WIDE.packing(format).unwrap(), format, &rows, 256, transpose);
                for wide in levels().map(|(_, wide)| wide).chain([&WIDE]) {
                    let mut out = [0.0; 16];
                    (wide.product)(&packed.group(), &rounded(wide, &x), &mut out);
                    for out in out {
                        assert_close(out, exact, 1e-4 * exact.abs(), &format!("{format:?}, {sign}"));
                    }
                }
            }
        }
    }
}
