//! Weights rearranged for vector registers: sixteen rows of a matrix side by side, so that one 512-bit register holds
//! four neighbouring values of each. A *group* is sixteen rows (missing ones are zeros); it is cut into *pieces* of 32
//! columns. In a group all codes come first, then all scales:
//!
//! - codes of a piece: *quads* of 64 bytes, byte `4r + k` of quad `j` for row `r` and column `4j + k`. Codes of four
//!   bits put quad `j` into the low and quad `j + 4` into the high nibbles of quad `j`; the bits above follow as planes:
//!   the fifth as eight masks of 64 bits, one per quad, the fifth and sixth as two planes of 64 bytes, whose bits
//!   `2i..2i + 2` belong to quad `4p + i` of plane `p`.
//! - scales of a piece: what [`Scales`] says, always sixteen rows side by side.
//!
//! The layout is that of the tiles of Intel AMX and of broadcast dot products (VNNI, Arm dotprod) alike, takes as many
//! bytes as the file (a few percent more for the K formats), and a piece can be read from its start to its end.
#![forbid(unsafe_code)]

use super::{Format, FormatInfo};

/// Rows in a group.
pub const ROWS: usize = 16;
/// Columns in a piece.
pub const COLS: usize = 32;
/// Alignment of groups.
const ALIGN: usize = 64;

/// How the codes of a piece are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// Four bits.
    U4,
    /// Five bits.
    U5,
    /// Six bits.
    U6,
    /// Eight bits.
    U8,
}

impl Codes {
    /// Bytes of a piece.
    pub const fn bytes(self) -> usize {
        match self {
            Codes::U4 => 256,
            Codes::U5 => 320,
            Codes::U6 => 384,
            Codes::U8 => 512,
        }
    }
}

/// How the scales of a piece are stored. A value is `scale * (code - offset) + minimum`, where the offset is the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// A binary16 per row and piece.
    F16,
    /// A bfloat16 per row and piece.
    Bf16,
    /// A binary16 per row and piece, and then as many for the minimum.
    F16Min,
    /// Per row and piece a byte (unsigned) for the scale and then one for the minimum; after all pieces, for each eight
    /// of them, the binary16 units of the scales and then of the minima, which are subtracted.
    Super,
    /// Per row and half piece a signed byte: of all rows for the first half, then for the second; after all pieces, for
    /// each eight of them, the binary16 units.
    Halves,
}

impl Scales {
    /// Bytes of a piece, without units.
    pub const fn bytes(self) -> usize {
        match self {
            Scales::F16 | Scales::Bf16 | Scales::Super | Scales::Halves => 32,
            Scales::F16Min => 64,
        }
    }

    /// Bytes of the units of eight pieces.
    pub const fn unit_bytes(self) -> usize {
        match self {
            Scales::F16 | Scales::Bf16 | Scales::F16Min => 0,
            Scales::Super => 64,
            Scales::Halves => 32,
        }
    }
}

/// One row's part of a piece.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Codes, each below 2 to the power of their bits.
    pub codes: [u8; COLS],
    /// The scale, or its unit: a binary16.
    pub d: [u8; 2],
    /// The minimum, or its unit: a binary16.
    pub m: [u8; 2],
    /// Scales in units of `d` (their bytes, signed or not).
    pub scales: [u8; 2],
    /// The minimum in units of `m`.
    pub min: u8,
}

impl Piece {
    /// A piece of zeros, whatever the format.
    pub const ZERO: Piece = Piece { codes: [0; COLS], d: [0; 2], m: [0; 2], scales: [0; 2], min: 0 };
}

/// How a format is packed.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Codes.
    pub codes: Codes,
    /// Scales.
    pub scales: Scales,
    /// Writes the pieces of one block of the format.
    pub pieces: fn(block: &[u8], out: &mut [Piece]),
}

/// The most pieces in a block of any format.
pub const MAX_PIECES: usize = 8;

impl Packing {
    /// Bytes of a group of rows of `n_cols` values.
    pub fn group_bytes(&self, n_cols: usize) -> usize {
        let n_pieces = n_cols / COLS;
        let scales = n_pieces * self.scales.bytes() + n_pieces.div_ceil(8) * self.scales.unit_bytes();
        (n_pieces * self.codes.bytes() + scales).next_multiple_of(ALIGN)
    }

    /// Packs up to sixteen rows of the format `info`, each of `n_cols` values, into a group.
    pub fn pack<'a>(
        &self,
        info: &FormatInfo,
        rows: impl Iterator<Item = &'a [u8]>,
        n_cols: usize,
        out: &mut [u8],
    ) {
        let n_pieces = n_cols / COLS;
        let pieces_per_block = info.block_len / COLS;
        let (codes, scales) = out.split_at_mut(n_pieces * self.codes.bytes());
        codes.fill(0);
        scales.fill(0);
        let mut pieces = [Piece::ZERO; MAX_PIECES];
        for (r, row) in rows.take(ROWS).enumerate() {
            for (b, block) in row.chunks_exact(info.block_bytes).enumerate() {
                let pieces = &mut pieces[..pieces_per_block];
                (self.pieces)(block, pieces);
                for (i, piece) in pieces.iter().enumerate() {
                    let at = b * pieces_per_block + i;
                    let bytes = self.codes.bytes();
                    self.put_codes(&piece.codes, r, &mut codes[at * bytes..(at + 1) * bytes]);
                    self.put_scales(piece, r, at, n_pieces, scales);
                }
            }
        }
    }

    fn put_codes(&self, codes: &[u8; COLS], r: usize, out: &mut [u8]) {
        // Four columns at a time: the bytes of this row in one quad.
        let quads: [u32; 8] = std::array::from_fn(|j| {
            u32::from_le_bytes([codes[4 * j], codes[4 * j + 1], codes[4 * j + 2], codes[4 * j + 3]])
        });
        let mut put = |quad: usize, bytes: u32| {
            out[64 * quad + 4 * r..][..4].copy_from_slice(&bytes.to_le_bytes());
        };
        if self.codes == Codes::U8 {
            quads.into_iter().enumerate().for_each(|(j, quad)| put(j, quad));
            return;
        }
        let (low, high) = (quads.map(|quad| quad & 0x0F0F_0F0F), quads.map(|quad| quad >> 4 & 0x0F0F_0F0F));
        for j in 0..4 {
            put(j, low[j] | low[j + 4] << 4);
        }
        if self.codes == Codes::U6 {
            for plane in 0..2 {
                let bits = (0..4).fold(0, |bits, i| bits | high[4 * plane + i] << (2 * i));
                put(4 + plane, bits);
            }
        }
        if self.codes == Codes::U5 {
            for (j, bits) in high.into_iter().enumerate() {
                let [a, b, c, d] = bits.to_le_bytes();
                out[256 + 8 * j + r / 2] |= (a | b << 1 | c << 2 | d << 3) << (r % 2 * 4);
            }
        }
    }

    fn put_scales(&self, piece: &Piece, r: usize, at: usize, n_pieces: usize, out: &mut [u8]) {
        let here = at * self.scales.bytes();
        let unit = n_pieces * self.scales.bytes() + at / 8 * self.scales.unit_bytes();
        let mut put = |at: usize, bytes: [u8; 2]| out[at + 2 * r..][..2].copy_from_slice(&bytes);
        match self.scales {
            Scales::F16 | Scales::Bf16 => put(here, piece.d),
            Scales::F16Min => {
                put(here, piece.d);
                put(here + 2 * ROWS, piece.m);
            }
            Scales::Super => {
                put(unit, piece.d);
                put(unit + 2 * ROWS, piece.m);
                (out[here + r], out[here + ROWS + r]) = (piece.scales[0], piece.min);
            }
            Scales::Halves => {
                put(unit, piece.d);
                (out[here + r], out[here + ROWS + r]) = (piece.scales[0], piece.scales[1]);
            }
        }
    }
}

/// A group as kernels take it.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The format that was packed.
    pub format: Format,
    /// [`Packing::group_bytes`] bytes.
    pub bytes: &'a [u8],
    /// Pieces: columns divided by 32.
    pub n_pieces: usize,
}
