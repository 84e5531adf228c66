//! The definition of products with numbers as 16-bit integers ([`crate::kernels::wide`]).
#![forbid(unsafe_code)]

use half::{bf16, f16};

use super::int16::{squares, to_14_bits};
use crate::kernels::wide::{I16Block, Wide, power_of_two, unit, unit_bits};
use crate::quant::pack::Rows;
use crate::quant::packed::{COLS, Codes, Group, ROWS, STRIP, wide};

/// The definition. The table of plain Rust has no such products, since products in f32 are as fast.
pub const WIDE: Wide = Wide {
    round,
    f16: wide(|rows, _, out| pack(rows, out, |bytes| f16::from_le_bytes(bytes).to_f32())),
    bf16: wide(|rows, _, out| pack(rows, out, |bytes| bf16::from_le_bytes(bytes).to_f32())),
    product,
    pair: None,
};

/// Rounds activations, ties to even. Blocks whose largest number is below 2^-100 become zeros.
pub fn round(x: &[f32], out: &mut [I16Block]) {
    debug_assert_eq!(x.len(), out.len() * I16Block::LEN, "one block per 32 activations");
    for (x, out) in x.as_chunks::<{ I16Block::LEN }>().0.iter().zip(out) {
        let largest = largest(x);
        let inverse = to_14_bits(largest);
        let squares = squares(x, |x| x * inverse);
        *out = match (squares.is_finite(), inverse > 0.0) {
            (false, _) => I16Block::NAN,
            (true, false) => I16Block::ZERO,
            (true, true) => {
                let unit = unit(largest * inverse, squares);
                let factor = inverse * (1.0 / unit);
                I16Block { d: unit / inverse, qs: x.map(|x| (x * factor).round_ties_even() as i16) }
            }
        };
    }
}

/// The largest magnitude; NaNs have none.
fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest })
}

/// Packs rows of numbers that `read` reads; see [`crate::quant::packed::Packing::pack`]. Where one of a row's 256 columns is NaN
/// or infinite, all are zeros with a NaN unit.
pub fn pack(rows: &Rows<'_>, out: &mut [u8], read: impl Fn([u8; 2]) -> f32) {
    out.fill(0);
    let n_pieces = rows.row_bytes / (2 * COLS);
    let (codes, units) = out.split_at_mut(n_pieces * Codes::Wide.bytes());
    for r in 0..ROWS {
        let numbers: Vec<f32> = rows.row(r).as_chunks::<2>().0.iter().map(|&bytes| read(bytes)).collect();
        for (s, strip) in numbers.chunks(STRIP * COLS).enumerate() {
            let (unit, inverse) = unit_of_weights(strip);
            units[2 * (s * ROWS + r)..][..2].copy_from_slice(&unit_bits(unit));
            for (i, x) in strip.iter().enumerate() {
                let column = s * STRIP * COLS + i;
                let code = (x * inverse).round_ties_even() as i16;
                let at = 2 * (column / 2 * 2 * ROWS + 2 * r + column % 2);
                codes[at..at + 2].copy_from_slice(&code.to_le_bytes());
            }
        }
    }
}

/// The unit of a row's numbers in up to eight pieces, and the factor that brings them into it.
fn unit_of_weights(x: &[f32]) -> (f32, f32) {
    let inverse = to_14_bits(largest(x));
    let mut most = 0.0f32;
    for x in x.chunks(COLS) {
        let squares = squares(x, |x| x * inverse);
        if !squares.is_finite() {
            return (f32::NAN, 0.0);
        }
        most = most.max(unit(largest(x) * inverse, squares));
    }
    if inverse == 0.0 {
        return (0.0, 0.0);
    }
    let unit = power_of_two(most);
    (unit / inverse, inverse / unit)
}

/// See [`crate::kernels::PackedProduct`]: sums within blocks are exact; those of eight blocks are added in units of the weights.
fn product(group: &Group<'_>, x: &[I16Block], out: &mut [f32]) {
    out.fill(0.0);
    let (codes, units) = group.bytes.split_at(group.n_pieces * Codes::Wide.bytes());
    let number = |bytes: &[u8], i: usize| [bytes[2 * i], bytes[2 * i + 1]];
    for (x, out) in x.chunks_exact(group.n_pieces.max(1)).zip(out.as_chunks_mut::<ROWS>().0) {
        for (r, out) in out.iter_mut().enumerate() {
            let strips = x.chunks(STRIP).zip(codes.chunks(STRIP * Codes::Wide.bytes()));
            for (s, (x, codes)) in strips.enumerate() {
                let mut sum = 0.0f32;
                for (x, codes) in x.iter().zip(codes.chunks_exact(Codes::Wide.bytes())) {
                    let products = x.qs.iter().enumerate().map(|(i, &q)| {
                        let code = i16::from_le_bytes(number(codes, i / 2 * 2 * ROWS + 2 * r + i % 2));
                        i32::from(code) * i32::from(q)
                    });
                    sum = (products.sum::<i32>() as f32).mul_add(x.d, sum);
                }
                *out = sum.mul_add(bf16::from_le_bytes(number(units, s * ROWS + r)).to_f32(), *out);
            }
        }
    }
}
