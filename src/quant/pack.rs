//! How rows of a file become groups (see [`super::packed`]): words of all sixteen rows are put side by side
//! ([`transpose`]), and then the bits of all rows are moved together.
#![forbid(unsafe_code)]

use bytemuck::Pod;

use super::blocks::{Groups, SUPER};
use super::f16::scale_bytes;
use super::packed::{COLS, Codes, ROWS, STRIP, Scales};

/// Bytes of one word of each row.
pub(super) const QUAD: usize = 4 * ROWS;
/// Bytes of sixteen bytes of each row.
pub const RUN: usize = 16 * ROWS;

/// Up to sixteen rows of equal length, one after another. Missing rows count as zeros.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The bytes of all.
    pub bytes: &'a [u8],
    /// The bytes of one.
    pub row_bytes: usize,
}

impl<'a> Rows<'a> {
    /// Row `r`, or nothing where it is missing.
    pub fn row(&self, r: usize) -> &'a [u8] {
        let start = r.saturating_mul(self.row_bytes);
        self.bytes.get(start..start.saturating_add(self.row_bytes)).unwrap_or_default()
    }
}

/// Puts words side by side as [`transpose`] does.
pub type Transpose = fn(rows: &Rows<'_>, at: usize, out: &mut [u8]);

/// Puts the four-byte words of the rows from byte `at` on side by side: word `j` of row `r` at `64j + 4r` of `out`, whose length,
/// a multiple of 64, gives their number. Missing bytes are zeros.
pub fn transpose(rows: &Rows<'_>, at: usize, out: &mut [u8]) {
    for r in 0..ROWS {
        let words = rows.row(r).get(at..).unwrap_or_default().as_chunks::<4>().0;
        let words = words.iter().copied().chain(std::iter::repeat([0; 4]));
        for (quad, word) in out.as_chunks_mut::<QUAD>().0.iter_mut().zip(words) {
            quad.as_chunks_mut::<4>().0[r] = word;
        }
    }
}

/// As [`transpose`]. `whole` transposes where all sixteen rows have sixteen bytes for each of `runs`; its first argument begins
/// with the first row, and rows are its second argument's bytes apart.
pub fn transpose_runs(
    rows: &Rows<'_>,
    at: usize,
    out: &mut [u8],
    whole: impl FnOnce(&[u8], usize, &mut [[u8; RUN]]),
) {
    let (runs, rest) = out.as_chunks_mut::<RUN>();
    let n = 16 * runs.len();
    let there =
        at.saturating_add(n) <= rows.row_bytes && ROWS.saturating_mul(rows.row_bytes) <= rows.bytes.len();
    if !there || n == 0 {
        return transpose(rows, at, out);
    }
    whole(&rows.bytes[at..], rows.row_bytes, runs);
    transpose(rows, at + n, rest);
}

/// One block of each of sixteen rows.
pub(super) struct Blocks<'a> {
    rows: &'a Rows<'a>,
    transpose: Transpose,
    /// The first byte of the blocks in their rows.
    at: usize,
}

impl Blocks<'_> {
    /// As [`transpose`], from byte `at` of the blocks on.
    pub fn words(&self, at: usize, out: &mut [u8]) {
        (self.transpose)(self.rows, self.at + at, out);
    }
}

/// The data of one row's part of a piece, without the codes.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The scale, or its unit: 16 bits.
    pub d: [u8; 2],
    /// The minimum, or its unit: a binary16.
    pub m: [u8; 2],
    /// Bytes in units of `d` and `m`, as [`Scales::Super`] and the three with scales of halves have them.
    pub bytes: [u8; 2],
}

impl Scale {
    /// The scale of missing rows.
    pub const ZERO: Scale = Scale { d: [0; 2], m: [0; 2], bytes: [0; 2] };
}

/// Packs rows of blocks `B`, each of which is `N` pieces; the [`super::packed::Packing::pack`] of every format with codes calls
/// this. `codes` writes those of the blocks' pieces, one after another; `scales` are those of a row's pieces.
#[inline]
pub(super) fn pack_blocks<B: Pod, const N: usize>(
    rows: &Rows<'_>,
    transpose: Transpose,
    (kind, scale_kind): (Codes, Scales),
    out: &mut [u8],
    codes: impl Fn(&Blocks<'_>, &mut [u8]),
    scales: impl Fn(&B) -> [Scale; N],
) {
    const { assert!(STRIP.is_multiple_of(N), "units are those of whole blocks") };
    let n_blocks = rows.row_bytes / size_of::<B>();
    let (all_codes, rest) = out.split_at_mut(n_blocks * N * kind.bytes());
    let (all_scales, units) = rest.split_at_mut(n_blocks * N * scale_kind.bytes());
    units[(n_blocks * N).div_ceil(scale_kind.pieces_per_unit()) * scale_kind.unit_bytes_of_one()..].fill(0);
    let mut row = [&rows.bytes[..0]; ROWS];
    for (r, row) in row.iter_mut().enumerate() {
        *row = rows.row(r);
    }
    let block_codes = all_codes.chunks_exact_mut(N * kind.bytes());
    let scale_bytes = N * scale_kind.bytes();
    for (b, out_codes) in block_codes.enumerate() {
        let out_scales = &mut all_scales[b * scale_bytes..(b + 1) * scale_bytes];
        let at = b * size_of::<B>();
        codes(&Blocks { rows, transpose, at }, out_codes);
        let mut all = [[Scale::ZERO; N]; ROWS];
        for (all, row) in all.iter_mut().zip(row) {
            if let Some(block) = row.get(at..at + size_of::<B>()) {
                *all = scales(bytemuck::from_bytes(block));
            }
        }
        for (i, out) in out_scales.chunks_exact_mut(scale_kind.bytes().max(1)).enumerate() {
            let (low, high) = out.split_at_mut(scale_kind.bytes().min(2 * ROWS));
            match scale_kind {
                Scales::None | Scales::Unit | Scales::Strip | Scales::Pairs | Scales::Fours => {}
                Scales::Words(_) => unreachable!("words are packed as they are"),
                Scales::F16 | Scales::Bf16 => put_pairs(low, |r| all[r][i].d),
                Scales::F16Min => {
                    put_pairs(low, |r| all[r][i].d);
                    put_pairs(high, |r| all[r][i].m);
                }
                Scales::Super | Scales::Halves | Scales::HalvesMin | Scales::HalvesE4m3 => {
                    for (r, scale) in all.iter().enumerate() {
                        [low[r], low[ROWS + r]] = scale[i].bytes;
                    }
                }
            }
        }
        let of_unit = scale_kind.pieces_per_unit();
        if (b * N).is_multiple_of(of_unit) {
            let unit_bytes = scale_kind.unit_bytes_of_one();
            let units = &mut units[b * N / of_unit * unit_bytes..][..unit_bytes];
            let (d, m) = units.split_at_mut(unit_bytes.min(2 * ROWS));
            put_pairs(d, |r| all[r][0].d);
            put_pairs(m, |r| all[r][0].m);
        }
    }
}

/// Packs rows of blocks of 256 values that have to be looked up: `unpack` gives those of a block, times the `D` of
/// [`Values::Parts`](super::packed::Values::Parts).
#[inline]
pub(super) fn pack_groups<B: Pod, const D: u8, const N: usize, const LEN: usize>(
    rows: &Rows<'_>,
    transpose: Transpose,
    out: &mut [u8],
    unpack: impl Fn(&B) -> Groups<N, LEN>,
) {
    const { assert!(N * LEN == SUPER && SUPER == STRIP * COLS && COLS.is_multiple_of(LEN)) };
    let (kind, scale_kind) = (Codes::U8, Scales::Halves);
    let n_blocks = rows.row_bytes / size_of::<B>();
    let (codes, rest) = out.split_at_mut(n_blocks * STRIP * kind.bytes());
    let (scales, rest) = rest.split_at_mut(n_blocks * STRIP * scale_kind.bytes());
    let (units, padding) = rest.split_at_mut(n_blocks * scale_kind.unit_bytes());
    padding.fill(0);
    let codes = codes.chunks_exact_mut(STRIP * kind.bytes());
    let scales = scales.chunks_exact_mut(STRIP * scale_kind.bytes());
    let units = units.chunks_exact_mut(scale_kind.unit_bytes());
    touch(rows.bytes);
    let mut values = [[128u8; SUPER]; ROWS];
    for (b, ((codes, scales), units)) in codes.zip(scales).zip(units).enumerate() {
        let at = b * size_of::<B>();
        for (r, values) in values.iter_mut().enumerate() {
            let block = rows.row(r).get(at..at + size_of::<B>());
            let block = block.map(|block| unpack(bytemuck::from_bytes(block)));
            let block = block.unwrap_or(Groups { d: 0.0, scales: [0; N], q: [[0; LEN]; N] });
            for (value, q) in values.iter_mut().zip(block.q.as_flattened()) {
                *value = q.cast_unsigned() ^ 128;
            }
            for (half, scale) in scales.chunks_exact_mut(ROWS).enumerate() {
                scale[r] = block.scales[half * COLS / 2 / LEN].cast_unsigned();
            }
            units.as_chunks_mut::<2>().0[r] = scale_bytes(block.d * f32::from(D));
        }
        transpose(&Rows { bytes: values.as_flattened(), row_bytes: SUPER }, 0, codes);
    }
}

/// Touches each cache line, in order. The blocks of sixteen rows lie apart from each other, and each would be waited for.
#[inline]
fn touch(bytes: &[u8]) {
    const LINE: usize = 64;
    let firsts = bytes.iter().step_by(LINE);
    std::hint::black_box(firsts.fold(0, |sum: u8, byte| sum ^ byte));
}

/// Writes the two bytes of each row side by side, as many as fit.
#[inline]
fn put_pairs(out: &mut [u8], pair: impl Fn(usize) -> [u8; 2]) {
    for (r, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *out = pair(r);
    }
}

/// See [`super::packed::Packing::pack`]: numbers of sixteen bits, column by column.
pub(super) fn pack_halves(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    /// Bytes of a row that are read together: a cache line.
    const LINE: usize = 2 * COLS;
    let mut words = [0u32; LINE / 4 * ROWS];
    for (i, columns) in out.chunks_mut(LINE * ROWS).enumerate() {
        transpose(rows, i * LINE, bytemuck::cast_slice_mut(&mut words));
        for (pair, quad) in columns.as_chunks_mut::<QUAD>().0.iter_mut().zip(words.as_chunks::<ROWS>().0) {
            let words = quad.map(u32::from_le);
            let pairs =
                [words.map(|word| (word as u16).to_le()), words.map(|word| ((word >> 16) as u16).to_le())];
            *pair = bytemuck::cast(pairs);
        }
    }
}

/// `out[i] = f(a[i], b[i])` for bytes, of which `f` takes eight at a time.
#[inline]
pub(super) fn combine(a: &[u8], b: &[u8], out: &mut [u8], f: impl Fn(u64, u64) -> u64) {
    let pairs = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    for (out, (a, b)) in out.as_chunks_mut::<8>().0.iter_mut().zip(pairs) {
        *out = f(u64::from_le_bytes(*a), u64::from_le_bytes(*b)).to_le_bytes();
    }
}

/// The bits `mask << shift` of each of eight bytes, shifted right.
#[inline]
pub(super) fn cut(bytes: u64, shift: usize, mask: u8) -> u64 {
    bytes >> shift & u64::from_le_bytes([mask; 8])
}

/// Codes of four bits: those in bits `shift..shift + 4` of 32 bytes of each row.
#[inline]
pub(super) fn put_nibbles(run: &[u8; 2 * RUN], shift: usize, out: &mut [u8]) {
    let (a, b) = run.split_at(RUN);
    combine(a, b, out, |a, b| cut(a, shift, 15) | cut(b, shift, 15) << 4);
}

/// The nibbles of all pieces of blocks whose pieces `2h` and `2h + 1` are the low and the high nibbles of 32 bytes from byte
/// `at + 32h` on, each at the beginning of `piece_bytes`.
#[inline]
pub(super) fn put_nibbles_of_runs(blocks: &Blocks<'_>, at: usize, piece_bytes: usize, out: &mut [u8]) {
    let mut run = [0; 2 * RUN];
    for (h, pieces) in out.chunks_exact_mut(2 * piece_bytes).enumerate() {
        blocks.words(at + 32 * h, &mut run);
        let (low, high) = pieces.split_at_mut(piece_bytes);
        put_nibbles(&run, 0, &mut low[..RUN]);
        put_nibbles(&run, 4, &mut high[..RUN]);
    }
}

/// Two planes of two bits: those in bits `shift..shift + 2` of 32 bytes of each row.
#[inline]
pub(super) fn put_planes(run: &[u8; 2 * RUN], shift: usize, out: &mut [u8]) {
    let halves = run.as_chunks::<RUN>().0.iter().zip(out.as_chunks_mut::<QUAD>().0);
    for (half, plane) in halves {
        let quads = half.as_chunks::<8>().0.as_chunks::<8>().0;
        for (k, out) in plane.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let pair = |j: usize| cut(u64::from_le_bytes(quads[j][k]), shift, 3) << (2 * j);
            *out = (pair(0) | pair(1) | pair(2) | pair(3)).to_le_bytes();
        }
    }
}

/// The fifth bits of a piece, from words of all rows whose bit `i` is that of column `i`.
#[inline]
pub(super) fn put_fifth_bits(words: &[u8; QUAD], out: &mut [u8]) {
    let masks = out.as_chunks_mut::<8>().0;
    for (r, rows) in words.as_chunks::<8>().0.iter().enumerate() {
        let [a, b] = bytemuck::cast::<_, [[u8; 4]; 2]>(*rows).map(u32::from_le_bytes);
        let even = a & 0x0F0F_0F0F | (b & 0x0F0F_0F0F) << 4;
        let odd = a >> 4 & 0x0F0F_0F0F | b & 0xF0F0_F0F0;
        for (k, (even, odd)) in even.to_le_bytes().into_iter().zip(odd.to_le_bytes()).enumerate() {
            (masks[2 * k][r], masks[2 * k + 1][r]) = (even, odd);
        }
    }
}

/// The fifth bits of a piece: bits `shift` of 32 bytes of each row.
#[inline]
pub(super) fn put_fifth_bits_of_bytes(run: &[u8; 2 * RUN], shift: usize, out: &mut [u8]) {
    for (mask, eight) in out.iter_mut().zip(run.as_chunks::<8>().0) {
        let bits = cut(u64::from_le_bytes(*eight), shift, 1);
        // The factor moves bit 8i to bit 56 + i, and nothing else up there.
        *mask = (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
}
