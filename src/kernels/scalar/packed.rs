//! Products with packed weights: the meaning of the layout of [`crate::quant::packed`].
#![forbid(unsafe_code)]

use half::{bf16, f16};

use crate::kernels::{PackedNumbers, PackedProduct};
use crate::quant::packed::{COLS, Codes, Group, Packing, ROWS, STRIP, Scales, Values};
use crate::quant::{Dot, FORMAT_COUNT, FORMATS, Format, Q8Block};

/// The product for every format that can be packed.
pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
    let mut table: [Option<PackedProduct>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    let mut i = 0;
    while i < FORMAT_COUNT {
        if FORMATS[i].packing.is_some() && matches!(FORMATS[i].dot, Dot::Q8(_)) {
            table[i] = Some(product);
        }
        i += 1;
    }
    table
};

/// The product for every format whose groups are numbers.
pub const NUMBERS: [Option<PackedNumbers>; FORMAT_COUNT] = {
    let mut table: [Option<PackedNumbers>; FORMAT_COUNT] = [None; FORMAT_COUNT];
    table[Format::F32 as usize] =
        Some(|groups, x, n_cols, out| numbers(groups, x, n_cols, out, f32::from_le_bytes));
    table[Format::F16 as usize] =
        Some(|groups, x, n_cols, out| numbers(groups, x, n_cols, out, f16::from_le_bytes));
    table[Format::BF16 as usize] =
        Some(|groups, x, n_cols, out| numbers(groups, x, n_cols, out, bf16::from_le_bytes));
    table
};

/// See [`PackedNumbers`]: products are added up column by column.
fn numbers<T: Into<f32>, const BYTES: usize>(
    groups: &[u8],
    x: &[f32],
    n_cols: usize,
    out: &mut [f32],
    read: fn([u8; BYTES]) -> T,
) {
    out.fill(0.0);
    if n_cols == 0 {
        return;
    }
    let n_out = (x.len() / n_cols * ROWS).max(1);
    for (group, out) in groups.chunks_exact(BYTES * ROWS * n_cols).zip(out.chunks_mut(n_out)) {
        for (x, out) in x.chunks_exact(n_cols).zip(out.chunks_mut(ROWS)) {
            for (column, x) in group.chunks_exact(BYTES * ROWS).zip(x) {
                for (number, out) in column.as_chunks::<BYTES>().0.iter().zip(&mut *out) {
                    *out += read(*number).into() * x;
                }
            }
        }
    }
}

/// The values of the sixteen rows of a piece.
type Piece = [[i8; COLS]; ROWS];

/// See [`PackedProduct`]. A group of a format that is not packed gives zeros.
fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
    out.fill(0.0);
    let Some(packing) = &group.format.info().packing else { return };
    for i in 0..group.n_pieces {
        let piece = values(group, packing, i);
        let vectors = x.chunks_exact(group.n_pieces).zip(out.as_chunks_mut::<ROWS>().0);
        for (x, out) in vectors.map(|(x, out)| (&x[i], out)) {
            for (r, out) in out.iter_mut().enumerate() {
                let dot = |part: &[i8], x: &[i8]| -> i32 {
                    part.iter().zip(x).map(|(&q, &x)| i32::from(q) * i32::from(x)).sum()
                };
                let (low, high) = piece[r].split_at(COLS / 2);
                let sums = [dot(low, &x.qs[..COLS / 2]), dot(high, &x.qs[COLS / 2..])];
                *out += scaled(group, packing, (i, r), sums, x);
            }
        }
    }
}

/// What row `r` of piece `i` adds, given the sums of its two halves.
fn scaled(group: &Group<'_>, packing: &Packing, (i, r): (usize, usize), sums: [i32; 2], x: &Q8Block) -> f32 {
    let scales = &group.bytes[group.n_pieces * packing.codes.bytes()..];
    let (here, units) = scales.split_at(group.n_pieces * packing.scales.bytes());
    let here = &here[i * packing.scales.bytes()..];
    let units = &units[i / STRIP * packing.scales.unit_bytes()..];
    let pair = |bytes: &[u8], at: usize| [bytes[at + 2 * r], bytes[at + 2 * r + 1]];
    let half = |bytes: &[u8], at: usize| f16::from_le_bytes(pair(bytes, at)).to_f32();
    let sum = (sums[0] + sums[1]) as f32;
    match packing.scales {
        Scales::None | Scales::Unit | Scales::Words(_) => 0.0,
        Scales::Pairs => half(units, i % STRIP / 2 * 2 * ROWS) * x.d * sum,
        Scales::Fours => half(units, i % STRIP / 4 * 2 * ROWS) * x.d * sum,
        Scales::Strip => half(units, 0) * x.d * sum,
        Scales::F16 => half(here, 0) * x.d * sum,
        Scales::Bf16 => bf16::from_le_bytes(pair(here, 0)).to_f32() * x.d * sum,
        Scales::F16Min => half(here, 0) * x.d * sum + half(here, 2 * ROWS) * x.sum,
        Scales::Super => {
            let (scale, min) = (f32::from(here[r]), f32::from(here[ROWS + r]));
            half(units, 0) * x.d * scale * sum - half(units, 2 * ROWS) * min * x.sum
        }
        Scales::Halves => {
            let [low, high] = [here[r], here[ROWS + r]].map(|scale| i32::from(scale.cast_signed()));
            half(units, 0) * packing.factor() * x.d * (low * sums[0] + high * sums[1]) as f32
        }
        Scales::HalvesE4m3 => {
            let [low, high] = [here[r], here[ROWS + r]].map(half_of_e4m3);
            x.d * (low * sums[0] as f32 + high * sums[1] as f32)
        }
        Scales::HalvesMin => {
            let (low, high) = (here[r], here[ROWS + r]);
            let sum = i32::from(low & 15) * sums[0] + i32::from(high & 15) * sums[1];
            let min = f32::from(low >> 4) * x.sum_low + f32::from(high >> 4) * (x.sum - x.sum_low);
            half(units, 0) * x.d * sum as f32 - half(units, 2 * ROWS) * min
        }
    }
}

/// Half of a number of four bits of exponent with a bias of 7 and three of mantissa, which first become those of an f32.
fn half_of_e4m3(bits: u8) -> f32 {
    f32::from_bits(u32::from(bits) << 20) * 2f32.powi(120 - 1)
}

/// The values of the codes of piece `i`.
fn values(group: &Group<'_>, packing: &Packing, i: usize) -> Piece {
    let n_bytes = packing.codes.bytes();
    let bytes = &group.bytes[i * n_bytes..(i + 1) * n_bytes];
    std::array::from_fn(|r| {
        std::array::from_fn(|column| {
            let (quad, k) = (column / 4, column % 4);
            let nibble = || bytes[64 * (quad % 4) + 4 * r + k] >> (quad / 4 * 4) & 15;
            let code = match packing.codes {
                Codes::U2 => bytes[64 * (quad / 4) + 4 * r + k] >> (quad % 4 * 2) & 3,
                Codes::U4 => nibble(),
                Codes::U5 => {
                    let bit = 4 * r + k;
                    nibble() | (bytes[256 + 8 * quad + bit / 8] >> (bit % 8) & 1) << 4
                }
                Codes::U6 => {
                    let plane = bytes[256 + 64 * (quad / 4) + 4 * r + k];
                    nibble() | (plane >> (quad % 4 * 2) & 3) << 4
                }
                Codes::U8 => bytes[64 * quad + 4 * r + k],
                Codes::U1 => bytes[4 * r + column / 8] >> (column % 8) & 1,
                Codes::Halves | Codes::Singles | Codes::Wide | Codes::Words(_) => 0,
            };
            match packing.values {
                Values::Minus(offset) => code.wrapping_sub(offset).cast_signed(),
                Values::Parts(_) => code.wrapping_sub(128).cast_signed(),
                Values::Listed(list) => list[usize::from(code)],
                Values::Numbers | Values::LookedUp => 0,
            }
        })
    })
}
