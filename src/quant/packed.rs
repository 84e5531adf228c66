//! Weights rearranged for vector registers: sixteen rows of a matrix side by side, so that one 512-bit register holds
//! four neighbouring values of each. A *group* is sixteen rows (missing ones are zeros); it is cut into *pieces* of 32
//! columns. In a group all codes come first, then all scales:
//!
//! - codes of a piece: *quads* of 64 bytes, byte `4r + k` of quad `j` for row `r` and column `4j + k`. Codes of two bits
//!   are two planes of 64 bytes, whose bits `2i..2i + 2` belong to quad `4p + i` of plane `p`. Codes of four bits put quad
//!   `j` into the low and quad `j + 4` into the high nibbles of quad `j`; the bits above follow: the fifth as eight masks of
//!   64 bits, one per quad, the fifth and sixth as two such planes.
//! - scales of a piece: what [`Scales`] says, always sixteen rows side by side.
//!
//! Numbers that are no codes (F16, BF16) lie column after column, those of a column side by side, and have no scales.
//!
//! The layout is that of the tiles of Intel AMX and of broadcast dot products (VNNI, Arm dotprod) alike, takes as many
//! bytes as the file (a few percent more for the K formats), and a piece can be read from its start to its end.
#![forbid(unsafe_code)]

use bytemuck::Pod;

use super::Format;

/// Rows in a group.
pub const ROWS: usize = 16;
/// Columns in a piece.
pub const COLS: usize = 32;
/// Pieces that share units of scales, and that are packed in one go.
const STRIP: usize = 8;
/// Alignment of groups.
const ALIGN: usize = 64;

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
    /// No codes but numbers of sixteen bits: that of column `c` and row `r` of the piece is number `16c + r`.
    Halves,
}

impl Codes {
    /// Bytes of a piece.
    pub const fn bytes(self) -> usize {
        match self {
            Codes::U2 => 128,
            Codes::U4 => 256,
            Codes::U5 => 320,
            Codes::U6 => 384,
            Codes::U8 => 512,
            Codes::Halves => 1024,
        }
    }
}

/// How the scales of a piece are stored. A weight is its scale times what its code stands for ([`Values`]), plus its
/// minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// None.
    None,
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
    /// Per row and half piece a byte, the scale in its low nibble and the minimum in the high one: of all rows for the first
    /// half, then for the second; after all pieces, for each eight of them, the binary16 units of the scales and then of
    /// the minima, which are subtracted.
    HalvesMin,
}

impl Scales {
    /// Bytes of a piece, without units.
    pub const fn bytes(self) -> usize {
        match self {
            Scales::None => 0,
            Scales::F16 | Scales::Bf16 | Scales::Super | Scales::Halves | Scales::HalvesMin => 32,
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
            Scales::None | Scales::F16 | Scales::Bf16 | Scales::F16Min => 0,
            Scales::Super | Scales::HalvesMin => 64,
            Scales::Halves => 32,
        }
    }
}

/// What the codes of a format stand for.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// The code less this number.
    Minus(u8),
    /// The value with the number of the code, of four bits.
    Listed(&'static [i8; 16]),
    /// Themselves: numbers in the format.
    Numbers,
}

/// How numbers of sixteen bits are packed.
pub(super) const HALVES: Packing =
    Packing { codes: Codes::Halves, values: Values::Numbers, scales: Scales::None, pack: pack_halves };

/// See [`Packing::pack`].
fn pack_halves(rows: &[&[u8]], out: &mut [u8]) {
    /// Columns of which all rows are read before the next: a line of the cache of each.
    const STRIP: usize = 32;
    let rows: [&[[u8; 2]]; ROWS] =
        std::array::from_fn(|r| rows.get(r).map_or(&[][..], |row| row.as_chunks().0));
    let columns = out.as_chunks_mut::<2>().0.as_chunks_mut::<ROWS>().0;
    for (i, columns) in columns.chunks_mut(STRIP).enumerate() {
        for (r, row) in rows.iter().enumerate() {
            if row.is_empty() {
                columns.iter_mut().for_each(|column| column[r] = [0; 2]);
            }
            let numbers = row.iter().skip(i * STRIP);
            columns.iter_mut().zip(numbers).for_each(|(column, number)| column[r] = *number);
        }
    }
}

/// How a format is packed.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Codes.
    pub codes: Codes,
    /// What they stand for.
    pub values: Values,
    /// Scales.
    pub scales: Scales,
    /// Packs up to sixteen rows of equal length into a group: every byte of `out`, [`Packing::group_bytes`] of them, is
    /// written.
    pub pack: fn(rows: &[&[u8]], out: &mut [u8]),
}

impl Packing {
    /// Bytes of a group of rows of `n_cols` values.
    pub fn group_bytes(&self, n_cols: usize) -> usize {
        let n_pieces = n_cols / COLS;
        let scales = n_pieces * self.scales.bytes() + n_pieces.div_ceil(STRIP) * self.scales.unit_bytes();
        (n_pieces * self.codes.bytes() + scales).next_multiple_of(ALIGN)
    }
}

/// The codes of one row's part of a piece, their bits laid apart as the group has them.
pub(super) trait RowCodes: Copy {
    /// Zeros.
    const ZERO: Self;
    /// The kind of codes.
    const CODES: Codes;
    /// Writes the codes of all rows.
    fn put(rows: [&Self; ROWS], out: &mut [u8]);
}

/// Two bits: those of column `16p + 4i + k` in bits `2i..2i + 2` of byte `4p + k`.
#[derive(Clone, Copy)]
pub(super) struct U2(pub [u8; 8]);

/// Four bits: byte `i` holds column `i` in its low nibble and column `i + 16` in its high nibble.
#[derive(Clone, Copy)]
pub(super) struct U4(pub [u8; 16]);

/// Five bits: the lower four as in [`U4`], and the fifth of column `i` in bit `i`.
#[derive(Clone, Copy)]
pub(super) struct U5(pub [u8; 16], pub [u8; 4]);

/// Six bits: the lower four as in [`U4`], and the others as in [`U2`].
#[derive(Clone, Copy)]
pub(super) struct U6(pub [u8; 16], pub [u8; 8]);

/// Eight bits.
#[derive(Clone, Copy)]
pub(super) struct U8(pub [u8; COLS]);

/// Puts the rows' words side by side: word `j` of row `r` at `64j + 4r`.
#[inline]
fn put_words<const N: usize>(rows: [&[u8; N]; ROWS], out: &mut [u8]) {
    for (j, quad) in out.as_chunks_mut::<{ 4 * ROWS }>().0.iter_mut().take(N / 4).enumerate() {
        for (row, word) in rows.iter().zip(quad.as_chunks_mut::<4>().0) {
            *word = std::array::from_fn(|k| row[4 * j + k]);
        }
    }
}

impl RowCodes for U2 {
    const ZERO: U2 = U2([0; 8]);
    const CODES: Codes = Codes::U2;
    #[inline]
    fn put(rows: [&U2; ROWS], out: &mut [u8]) {
        put_words(rows.map(|row| &row.0), out);
    }
}

impl RowCodes for U4 {
    const ZERO: U4 = U4([0; 16]);
    const CODES: Codes = Codes::U4;
    #[inline]
    fn put(rows: [&U4; ROWS], out: &mut [u8]) {
        put_words(rows.map(|row| &row.0), out);
    }
}

impl RowCodes for U5 {
    const ZERO: U5 = U5([0; 16], [0; 4]);
    const CODES: Codes = Codes::U5;
    #[inline]
    fn put(rows: [&U5; ROWS], out: &mut [u8]) {
        let (low, high) = out.split_at_mut(Codes::U4.bytes());
        put_words(rows.map(|row| &row.0), low);
        let bits = rows.map(|row| u32::from_le_bytes(row.1));
        for (j, mask) in high.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let nibble = |r: usize| u64::from(bits[r] >> (4 * j) & 15) << (4 * r);
            *mask = (0..ROWS).fold(0, |mask, r| mask | nibble(r)).to_le_bytes();
        }
    }
}

impl RowCodes for U6 {
    const ZERO: U6 = U6([0; 16], [0; 8]);
    const CODES: Codes = Codes::U6;
    #[inline]
    fn put(rows: [&U6; ROWS], out: &mut [u8]) {
        let (low, high) = out.split_at_mut(Codes::U4.bytes());
        put_words(rows.map(|row| &row.0), low);
        put_words(rows.map(|row| &row.1), high);
    }
}

impl RowCodes for U8 {
    const ZERO: U8 = U8([0; COLS]);
    const CODES: Codes = Codes::U8;
    #[inline]
    fn put(rows: [&U8; ROWS], out: &mut [u8]) {
        put_words(rows.map(|row| &row.0), out);
    }
}

/// One row's part of a piece.
#[derive(Clone, Copy)]
pub(super) struct Piece<C> {
    /// Codes.
    pub codes: C,
    /// The scale, or its unit: 16 bits.
    pub d: [u8; 2],
    /// The minimum, or its unit: a binary16.
    pub m: [u8; 2],
    /// Bytes in units of `d` and `m`, as [`Scales::Super`], [`Scales::Halves`] and [`Scales::HalvesMin`] have them.
    pub bytes: [u8; 2],
}

impl<C: RowCodes> Piece<C> {
    /// A piece of zeros, whatever the format.
    pub const ZERO: Self = Piece { codes: C::ZERO, d: [0; 2], m: [0; 2], bytes: [0; 2] };
}

/// Packs up to sixteen rows of blocks `B`, each of which is `N` pieces: what every format's [`Packing::pack`] is made of.
///
/// Goes through the rows in strips of eight pieces: a strip of one row is read in one go, so that rows a power of two
/// apart do not push each other out of the cache, and what was read waits in the first-level cache to be written.
#[inline]
pub(super) fn interleave<B: Pod, C: RowCodes, const N: usize>(
    rows: &[&[u8]],
    out: &mut [u8],
    scales: Scales,
    pieces: impl Fn(&B) -> [Piece<C>; N],
) {
    const { assert!(STRIP.is_multiple_of(N), "strips are whole blocks") };
    let n_pieces = rows.first().map_or(0, |row| row.len() / size_of::<B>() * N);
    let (all_codes, rest) = out.split_at_mut(n_pieces * C::CODES.bytes());
    let (all_scales, units) = rest.split_at_mut(n_pieces * scales.bytes());
    let n_units = n_pieces.div_ceil(STRIP) * scales.unit_bytes();
    units[n_units..].fill(0);
    let mut strip = [[Piece::<C>::ZERO; STRIP]; ROWS];
    for first in (0..n_pieces).step_by(STRIP) {
        let n = STRIP.min(n_pieces - first);
        for (row, strip) in rows.iter().zip(&mut strip) {
            let blocks = &row[first / N * size_of::<B>()..][..n / N * size_of::<B>()];
            for (block, strip) in blocks.chunks_exact(size_of::<B>()).zip(strip.as_chunks_mut::<N>().0) {
                *strip = pieces(bytemuck::from_bytes(block));
            }
        }
        let codes = all_codes[first * C::CODES.bytes()..].chunks_exact_mut(C::CODES.bytes());
        let piece_scales = all_scales[first * scales.bytes()..].chunks_exact_mut(scales.bytes());
        for (i, (codes, out)) in codes.zip(piece_scales).take(n).enumerate() {
            C::put(std::array::from_fn(|r| &strip[r][i].codes), codes);
            let (low, high) = out.split_at_mut(scales.bytes().min(2 * ROWS));
            match scales {
                Scales::None => {}
                Scales::F16 | Scales::Bf16 => put_pairs(low, |r| strip[r][i].d),
                Scales::F16Min => {
                    put_pairs(low, |r| strip[r][i].d);
                    put_pairs(high, |r| strip[r][i].m);
                }
                Scales::Super | Scales::Halves | Scales::HalvesMin => {
                    for (r, strip) in strip.iter().enumerate() {
                        (low[r], low[ROWS + r]) = (strip[i].bytes[0], strip[i].bytes[1]);
                    }
                }
            }
        }
        let units = &mut units[first / STRIP * scales.unit_bytes()..][..scales.unit_bytes()];
        let (d, m) = units.split_at_mut(units.len().min(2 * ROWS));
        put_pairs(d, |r| strip[r][0].d);
        put_pairs(m, |r| strip[r][0].m);
    }
}

/// Writes the two bytes of each row side by side, as many as there is room for.
#[inline]
fn put_pairs(out: &mut [u8], pair: impl Fn(usize) -> [u8; 2]) {
    for (r, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *out = pair(r);
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
    /// Bytes of the groups behind it in memory that the same thread multiplies next.
    pub n_following: usize,
    /// What the thread will multiply after those.
    pub then: Ahead,
}

impl<'a> Group<'a> {
    /// A group before and after which nothing is multiplied.
    pub fn alone(format: Format, bytes: &'a [u8], n_pieces: usize) -> Group<'a> {
        Group { format, bytes, n_pieces, n_before: 0, n_following: 0, then: Ahead::default() }
    }
}

/// Memory that may be fetched into the cache, and is never read through: it may be gone. Without bytes it is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Of the first byte.
    pub address: usize,
    /// Bytes from there on.
    pub n_bytes: usize,
}
