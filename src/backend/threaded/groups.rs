//! Packed groups of a weight's rows, and the products with them.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::products::BLOCK;
use crate::backend::host::HostWeight;
use crate::kernels::{I16Block, Kernels, PackedPair, PackedProduct};
use crate::quant::pack::Rows;
use crate::quant::packed::{self, Ahead, Group};
use crate::quant::{Dot, Format, Q8Block};

/// The groups of rows that cover `rows`, whose first row begins a group.
pub(super) fn groups_of(rows: &Range<usize>) -> Range<usize> {
    rows.start / packed::ROWS..rows.end.div_ceil(packed::ROWS)
}

/// See [`crate::kernels::PackedNumbers`]: the product with rows `rows` of `w`, of which the first begins a group.
pub(super) fn packed_numbers(
    kernels: &Kernels,
    w: &HostWeight,
    rows: Range<usize>,
    x: &[f32],
    out: &mut [f32],
) {
    let (Some(product), Some(groups)) = (kernels.packed_numbers(w.format), w.groups(groups_of(&rows))) else {
        unreachable!("only formats that have a packing are packed");
    };
    product(groups, x, w.n_cols, out);
}

/// Whether unpacked rows of `format` are packed for each product.
pub(super) fn packs_now(kernels: &Kernels, format: Format) -> bool {
    matches!(kernels.dot[format as usize], Dot::Q8(_)) && kernels.packs(format)
}

/// Up to this many vectors are multiplied one by one with rows as they lie in the file, where a level has such products.
pub(super) const FEW: usize = 4;

/// Rows of `w` as they lie in the file.
pub(super) fn rows_now(w: &HostWeight, rows: Range<usize>) -> Rows<'_> {
    Rows { bytes: w.rows(rows), row_bytes: w.format.row_bytes(w.n_cols) }
}

/// Up to sixteen rows of `w`, packed into `scratch`, and their product: the same bits as of rows packed before.
pub(super) fn pack_now<'a>(
    kernels: &Kernels,
    w: &HostWeight,
    rows: Range<usize>,
    scratch: &'a mut [f32],
) -> (PackedProduct, Group<'a>) {
    let (Some(product), Some(packing)) = (kernels.packed_product(w.format), kernels.packing(w.format)) else {
        unreachable!("only formats that have a packing have packed products");
    };
    let rows = rows_now(w, rows);
    let group = &mut bytemuck::cast_slice_mut(scratch)[..packing.group_bytes(w.n_cols)];
    kernels.pack(w.format, &rows, group);
    (product, Group::alone(w.format, group, w.n_cols / packed::COLS))
}

/// Some groups of a packed weight, and how they are multiplied with activations rounded to `B`.
pub(super) struct Groups<'a, B> {
    product: PackedProduct<B>,
    /// For two groups in one call, where there is such a product.
    pub pair: Option<PackedPair<B>>,
    format: Format,
    pub n_pieces: usize,
    /// How many groups.
    pub n: usize,
    group_bytes: usize,
    bytes: &'a [u8],
    /// See [`Group::then`].
    then: Ahead,
}

impl<'a> Groups<'a, Q8Block> {
    /// Groups of codes.
    pub fn of_bytes(kernels: &Kernels, w: &'a HostWeight, groups: Range<usize>, then: Ahead) -> Self {
        let product = kernels.packed_product(w.format);
        Groups::of(product, kernels.pairs[w.format as usize], w, groups, then)
    }
}

impl<'a> Groups<'a, I16Block> {
    /// Groups of 16-bit integers.
    pub fn of_wide(kernels: &Kernels, w: &'a HostWeight, groups: Range<usize>, then: Ahead) -> Self {
        let (product, pair) =
            (kernels.wide.map(|wide| wide.product), kernels.wide.and_then(|wide| wide.pair));
        Groups::of(product, pair, w, groups, then)
    }
}

impl<'a, B> Groups<'a, B> {
    fn of(
        product: Option<PackedProduct<B>>,
        pair: Option<PackedPair<B>>,
        w: &'a HostWeight,
        groups: Range<usize>,
        then: Ahead,
    ) -> Self {
        let n = groups.len();
        let (Some(product), Some(bytes)) = (product, w.groups(groups)) else {
            unreachable!("only formats that have a packing are packed");
        };
        let (n_pieces, group_bytes) = (w.n_cols / packed::COLS, bytes.len() / n.max(1));
        Groups { product, pair, format: w.format, n_pieces, n, group_bytes, bytes, then }
    }

    /// Group `i` of [`Groups::n`]. An iterator would write and copy each: a read of what was just written in other sizes waits
    /// until all earlier writes have reached the cache.
    #[inline(always)]
    pub fn group(&self, i: usize) -> Group<'_> {
        let n_before = i * self.group_bytes;
        let bytes = &self.bytes[n_before..n_before + self.group_bytes];
        let n_following = self.bytes.len() - n_before - self.group_bytes;
        Group { format: self.format, bytes, n_pieces: self.n_pieces, n_before, n_following, then: &self.then }
    }

    /// Calls `put` with the number of the first of some vectors in `x` and their products with the rows of `group`, as many at a
    /// time as `buffer` holds.
    pub fn multiply(
        &self,
        group: &Group<'_>,
        x: &[B],
        buffer: &mut [f32],
        mut put: impl FnMut(usize, &[[f32; packed::ROWS]]),
    ) {
        let vectors = buffer.len() / packed::ROWS;
        for (i, x) in x.chunks(vectors * self.n_pieces).enumerate() {
            let out = &mut buffer[..x.len() / self.n_pieces * packed::ROWS];
            (self.product)(group, x, out);
            put(i * vectors, out.as_chunks().0);
        }
    }

    /// As [`Groups::multiply`] for two groups at a time and up to [`BLOCK`] vectors; `put` gets the number of the group too.
    /// Returns the number of groups.
    pub fn multiply_pairs(
        &self,
        pair: PackedPair<B>,
        x: &[B],
        put: impl Fn(usize, usize, &[[f32; packed::ROWS]]),
    ) -> usize {
        let mut buffer = [[0.0; BLOCK * packed::ROWS]; 2];
        let len = x.len() / self.n_pieces * packed::ROWS;
        let n_paired = self.n - self.n % 2;
        for first in (0..n_paired).step_by(2) {
            let (low, high) = (self.group(first), self.group(first + 1));
            pair([&low, &high], x, buffer.each_mut().map(|out| &mut out[..len]));
            for (group, out) in (first..).zip(&buffer) {
                put(group, 0, out[..len].as_chunks().0);
            }
        }
        n_paired
    }
}
