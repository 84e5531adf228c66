//! Groups that keep the bits of the file, for levels that look values up faster than memory delivers them: the words of a block's
//! arrays are put side by side, sixteen rows in a register, and nothing is unpacked. Such groups take the memory of their rows.
//!
//! In a group the words of the pieces come first: for each piece those of [`Layout::PIECES`]. Then, for each block, come those of
//! [`Layout::BLOCK`] and a binary16 per row.
#![forbid(unsafe_code)]

use super::pack::{QUAD, Rows, Transpose};
use super::packed::{Codes, Packing, ROWS, STRIP, Scales, Values};
use super::{iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, tq1_0};

/// Which words of a block of 256 values belong to its pieces, and which to all of it. An array is its first byte and how many words
/// a piece has of it, or the block.
trait Layout {
    /// Bytes of a block.
    const BYTES: usize;
    /// Arrays of the pieces.
    const PIECES: &'static [(usize, usize)];
    /// Arrays of the block.
    const BLOCK: &'static [(usize, usize)];

    /// The scale of a block, a binary16.
    fn unit(block: &[u8]) -> [u8; 2];
}

/// How many words some arrays have.
const fn count(arrays: &[(usize, usize)]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < arrays.len() {
        n += arrays[i].1;
        i += 1;
    }
    n
}

/// The packing of a layout.
const fn packing<L: Layout>() -> Packing {
    Packing {
        codes: Codes::Words(count(L::PIECES)),
        values: Values::LookedUp,
        scales: Scales::Words(count(L::BLOCK)),
        pack: pack::<L>,
    }
}

/// See [`Packing::pack`].
fn pack<L: Layout>(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let Packing { codes, scales, .. } = const { packing::<L>() };
    let n_blocks = rows.row_bytes / L::BYTES;
    let (codes, rest) = out.split_at_mut(n_blocks * STRIP * codes.bytes());
    let (units, padding) = rest.split_at_mut(n_blocks * scales.unit_bytes());
    padding.fill(0);
    let codes = codes.chunks_exact_mut((STRIP * count(L::PIECES) * QUAD).max(1));
    // A block may have no words of pieces.
    let codes = codes.map(Some).chain(std::iter::repeat_with(|| None));
    for (b, (units, codes)) in units.chunks_exact_mut(scales.unit_bytes()).zip(codes).enumerate() {
        let at = b * L::BYTES;
        if let Some(codes) = codes {
            put_pieces::<L>(rows, transpose, at, codes);
        }
        let mut units = units;
        for &(array, n) in L::BLOCK {
            let (words, rest) = units.split_at_mut(n * QUAD);
            transpose(rows, at + array, words);
            units = rest;
        }
        for (r, unit) in units.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *unit = rows.row(r).get(at..at + L::BYTES).map_or([0; 2], L::unit);
        }
    }
}

/// Writes the words of the pieces of the blocks that begin at byte `at` of their rows.
fn put_pieces<L: Layout>(rows: &Rows<'_>, transpose: Transpose, at: usize, out: &mut [u8]) {
    /// Words of an array.
    const MOST: usize = 2 * STRIP;
    let n_words = count(L::PIECES);
    let mut first = 0;
    for &(array, n) in L::PIECES {
        if n == n_words {
            return transpose(rows, at + array, out);
        }
        let mut words = [0; MOST * QUAD];
        let words = &mut words[..n * STRIP * QUAD];
        transpose(rows, at + array, words);
        for (words, piece) in words.chunks_exact(n * QUAD).zip(out.chunks_exact_mut(n_words * QUAD)) {
            piece[first * QUAD..(first + n) * QUAD].copy_from_slice(words);
        }
        first += n;
    }
}

/// A layout and its packing.
macro_rules! layout {
    ($(#[$doc:meta])* $name:ident, $module:ident, $pieces:expr, $block:expr, $unit:expr) => {
        $(#[$doc])*
        pub const $name: Packing = {
            struct Arrays;
            impl Layout for Arrays {
                const BYTES: usize = $module::BYTES;
                const PIECES: &'static [(usize, usize)] = &$pieces;
                const BLOCK: &'static [(usize, usize)] = &$block;

                fn unit(block: &[u8]) -> [u8; 2] {
                    let unit: fn(&[u8]) -> [u8; 2] = $unit;
                    unit(block)
                }
            }
            const { assert!(SIZE_OF_UNIT == 2 * ROWS) };
            packing::<Arrays>()
        };
    };
}

/// Bytes of the units of a block.
const SIZE_OF_UNIT: usize = Scales::Words(0).unit_bytes();

/// The number at the beginning of a block.
fn first_unit(block: &[u8]) -> [u8; 2] {
    block.first_chunk().copied().unwrap_or_default()
}

layout!(
    /// The low bytes of point numbers; of the block their upper bits, the scales and the shifts.
    IQ1_S, iq1_s, [(2, 1)], [(34, 4)], first_unit
);
layout!(
    /// The low bytes of point numbers; of the block their upper bits and the shifts, and the scales.
    IQ1_M, iq1_m, [(0, 1)], [(32, 4), (48, 2)], |block| {
        let packed: Option<&iq1_m::Packed> = bytemuck::try_from_bytes(block).ok();
        packed.map_or([0; 2], iq1_m::Packed::unit)
    }
);
layout!(
    /// Point numbers, and signs with a scale.
    IQ2_XXS, iq2_xxs, [(2, 2)], [], first_unit
);
layout!(
    /// Point numbers with signs; of the block the scales.
    IQ2_XS, iq2_xs, [(2, 2)], [(66, 2)], first_unit
);
layout!(
    /// The low bytes of point numbers, and signs; of the block the upper bits of point numbers, and the scales.
    IQ2_S, iq2_s, [(2, 1), (34, 1)], [(66, 2), (74, 2)], first_unit
);
layout!(
    /// Point numbers, and signs with a scale.
    IQ3_XXS, iq3_xxs, [(2, 2), (66, 1)], [], first_unit
);
layout!(
    /// The low bytes of point numbers, and signs; of the block the upper bits of point numbers, and the scales.
    IQ3_S, iq3_s, [(2, 2), (74, 1)], [(66, 2), (106, 1)], first_unit
);
layout!(
    /// Digits of the block.
    TQ1_0, tq1_0, [], [(0, 13)], |block| block.last_chunk().copied().unwrap_or_default()
);
