//! Weights rearranged for vector registers: sixteen rows of a matrix side by side, so that one 512-bit register holds four
//! neighbouring values of each. A *group* is sixteen rows (the scales of missing ones are zeros). It is cut into *pieces* of 32
//! columns. In a group all codes come first, then all scales:
//!
//! - codes of a piece: *quads* of 64 bytes, byte `4r + k` of quad `j` for row `r` and column `4j + k`. Codes of two bits
//!   are two planes of 64 bytes, whose bits `2i..2i + 2` belong to quad `4p + i` of plane `p`. Codes of four bits put quad
//!   `j` into the low and quad `j + 4` into the high nibbles of quad `j`; the bits above follow: the fifth as eight masks of
//!   64 bits, one per quad, the fifth and sixth as two such planes.
//! - scales of a piece: as [`Scales`] says, always sixteen rows side by side.
//!
//! Numbers without codes (F32, F16, BF16) lie column after column, those of a column side by side, and have no scales. Where
//! products of 16-bit integers are faster they are packed as integers: pairs of columns, with a unit for each eight pieces.
//!
//! The layout fits the tiles of Intel AMX and broadcast dot products (VNNI, Arm dotprod) alike. It takes as many bytes as the
//! file (a few percent more for the K formats), and a piece is read from its start to its end.
#![forbid(unsafe_code)]

use super::Format;
use super::pack::{Rows, Transpose, pack_halves};

/// Rows in a group.
pub const ROWS: usize = 16;
/// Columns in a piece.
pub const COLS: usize = 32;
/// Pieces that share units of scales.
pub const STRIP: usize = 8;
/// Alignment of groups.
pub const ALIGN: usize = 64;

/// How the codes of a piece are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// Two bits.
    U2,
    /// Four bits.
    U4,
    /// Five bits.
    U5,
    /// Six bits.
    U6,
    /// Eight bits.
    U8,
    /// One bit: bit `c` of word `r` belongs to column `c` of row `r`.
    U1,
    /// This many words of each row, as the file has them; see [`super::words`].
    Words(usize),
    /// No codes but numbers of sixteen bits: that of column `c` and row `r` of the piece is number `16c + r`.
    Halves,
    /// The same with numbers of 32 bits.
    Singles,
    /// Signed 16-bit integers: those of columns `2p` and `2p + 1` and row `r` of the piece are numbers `32p + 2r` and
    /// `32p + 2r + 1`.
    Wide,
}

impl Codes {
    /// Bytes of a piece.
    pub const fn bytes(self) -> usize {
        match self {
            Codes::U1 => 64,
            Codes::U2 => 128,
            Codes::U4 => 256,
            Codes::U5 => 320,
            Codes::U6 => 384,
            Codes::U8 => 512,
            Codes::Halves | Codes::Wide => 1024,
            Codes::Singles => 2048,
            Codes::Words(n) => 64 * n,
        }
    }
}

/// How the scales of a piece are stored. A weight is its scale times the value of its code ([`Values`]), plus its minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// None.
    None,
    /// After all pieces, for each eight of them, a bfloat16 per row: a power of two.
    Unit,
    /// After all pieces, for each eight of them, a binary16 per row.
    Strip,
    /// After all pieces, for each two of them, a binary16 per row.
    Pairs,
    /// After all pieces, for each four of them, a binary16 per row.
    Fours,
    /// After all pieces, for each eight of them, this many words of each row and a binary16 per row.
    Words(usize),
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
    /// Per row and half piece a byte, four bits of exponent with a bias of 7 and three of mantissa (E4M3), of which half is the scale:
    /// of all rows for the first half, then for the second.
    HalvesE4m3,
    /// Per row and half piece a byte, the scale in its low nibble and the minimum in the high one: of all rows for the first
    /// half, then for the second; after all pieces, for each eight of them, the binary16 units of the scales and then of
    /// the minima, which are subtracted.
    HalvesMin,
}

impl Scales {
    /// Bytes of a piece, without units.
    pub const fn bytes(self) -> usize {
        match self {
            Scales::None
            | Scales::Unit
            | Scales::Strip
            | Scales::Pairs
            | Scales::Fours
            | Scales::Words(_) => 0,
            Scales::F16 | Scales::Bf16 | Scales::Super => 32,
            Scales::Halves | Scales::HalvesMin | Scales::HalvesE4m3 => 32,
            Scales::F16Min => 64,
        }
    }

    /// Bytes of a piece with its share of the units.
    pub const fn bytes_with_units(self) -> usize {
        self.bytes() + self.unit_bytes() / STRIP
    }

    /// Bytes of the units of eight pieces.
    pub const fn unit_bytes(self) -> usize {
        match self {
            Scales::None | Scales::F16 | Scales::Bf16 | Scales::F16Min | Scales::HalvesE4m3 => 0,
            Scales::Pairs => 128,
            Scales::Fours => 64,
            Scales::Words(n) => 64 * n + 32,
            Scales::Super | Scales::HalvesMin => 64,
            Scales::Halves | Scales::Unit | Scales::Strip => 32,
        }
    }

    /// Bytes of the units of [`Scales::pieces_per_unit`] pieces.
    pub const fn unit_bytes_of_one(self) -> usize {
        self.unit_bytes() * self.pieces_per_unit() / STRIP
    }

    /// Pieces that share units.
    pub const fn pieces_per_unit(self) -> usize {
        match self {
            Scales::Pairs => 2,
            Scales::Fours => 4,
            _ => STRIP,
        }
    }
}

/// The values of the codes of a format.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// The code less this number.
    Minus(u8),
    /// The value with the number of the code, of four bits.
    Listed(&'static [i8; 16]),
    /// The code less 128, divided by this number. Such rows take several times the memory of those of the file: they are packed
    /// only for the time of a product.
    Parts(u8),
    /// The level that packs them looks values up in the tables of the format.
    LookedUp,
    /// Themselves: numbers in the format, or in units.
    Numbers,
}

/// How numbers of sixteen bits are packed.
pub(super) const HALVES: Packing =
    Packing { codes: Codes::Halves, values: Values::Numbers, scales: Scales::None, pack: pack_halves };

/// How numbers of 32 bits are packed: their words side by side.
pub(super) const SINGLES: Packing = Packing {
    codes: Codes::Singles,
    values: Values::Numbers,
    scales: Scales::None,
    pack: |rows, transpose, out| transpose(rows, 0, out),
};

/// How a format of numbers is packed as integers by `pack`.
pub const fn wide(pack: Pack) -> Packing {
    Packing { codes: Codes::Wide, values: Values::Numbers, scales: Scales::Unit, pack }
}

/// Packs rows into a group: see [`Packing::pack`].
pub type Pack = fn(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]);

/// How a format is packed.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Codes.
    pub codes: Codes,
    /// The values of the codes.
    pub values: Values,
    /// Scales.
    pub scales: Scales,
    /// Packs rows into a group and writes every byte of `out`, [`Packing::group_bytes`] of them. `transpose` does what
    /// [`super::pack::transpose`] does.
    pub pack: Pack,
}

impl Packing {
    /// Whether rows may stay packed: they take about the memory of those of the file.
    pub const fn may_stay(&self) -> bool {
        !matches!(self.values, Values::Parts(_))
    }

    /// The factor on units of scales.
    pub const fn factor(&self) -> f32 {
        match self.values {
            Values::Parts(n) => 1.0 / n as f32,
            _ => 1.0,
        }
    }

    /// Bytes of a group of rows of `n_cols` values.
    pub fn group_bytes(&self, n_cols: usize) -> usize {
        let n_pieces = n_cols / COLS;
        let scales = n_pieces * self.scales.bytes() + n_pieces.div_ceil(STRIP) * self.scales.unit_bytes();
        (n_pieces * self.codes.bytes() + scales).next_multiple_of(ALIGN)
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
    /// Bytes of the groups before it in memory that the same thread has just multiplied.
    pub n_before: usize,
    /// Bytes of the groups after it in memory that the same thread multiplies next.
    pub n_following: usize,
    /// What the thread will multiply after those. It is a reference, since products that copied it would wait for it to be
    /// written.
    pub then: &'a Ahead,
}

impl<'a> Group<'a> {
    /// A group without others before and after it.
    pub fn alone(format: Format, bytes: &'a [u8], n_pieces: usize) -> Group<'a> {
        Group { format, bytes, n_pieces, n_before: 0, n_following: 0, then: &Ahead::NONE }
    }
}

/// Memory that may be fetched into the cache, and is never read: it may no longer exist. Without bytes it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Of the first byte.
    pub address: usize,
    /// Bytes from there on.
    pub n_bytes: usize,
}

impl Ahead {
    /// None.
    pub const NONE: Ahead = Ahead { address: 0, n_bytes: 0 };
}
