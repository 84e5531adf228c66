//! What one task of a matrix product computes: some rows of a weight, for every row of activations.

use std::ops::Range;

use half::f16;
use matrixmultiply::sgemm;

use super::groups::{FEW, Groups, groups_of, pack_now, packed_numbers, packs_now, rows_now};
use crate::backend::host::{HostWeight, Stop};
use crate::kernels::{I16Block, Kernels, MANY, halves};
use crate::quant::packed::{self, Ahead};
use crate::quant::{Dot, Format, Q8Block};
use crate::threads::DisjointMut;

/// Most products in one call.
pub(super) const MOST: usize = 4;

/// One product as the tasks see it.
pub(super) struct Target<'a> {
    pub weight: &'a HostWeight,
    /// `[n, n_rows]`.
    pub out: DisjointMut<'a, f32>,
    /// Number of its first group of rows among those of all products of the call.
    pub first_group: usize,
}

impl Target<'_> {
    /// Writes some columns of output row `t`, which belong to the task that calls.
    fn put(&self, t: usize, first: usize, columns: &[f32]) {
        let at = t * self.weight.n_rows + first;
        // SAFETY: each output column belongs to one task, and tasks of different products have different outputs.
        unsafe { self.out.slice(at..at + columns.len()) }.copy_from_slice(columns);
    }

    /// Writes the columns of a group from `first` on, as far as they are before `end`, of output rows from `t` on. Whole groups are
    /// written without a call for each row, which would take as long as the writing.
    fn put_group(&self, t: usize, (first, end): (usize, usize), rows: &[[f32; packed::ROWS]]) {
        if end - first < packed::ROWS {
            return (t..).zip(rows).for_each(|(t, row)| self.put(t, first, &row[..end - first]));
        }
        for (t, row) in (t..).zip(rows) {
            let at = t * self.weight.n_rows + first;
            // SAFETY: as of [`Target::put`].
            let out = unsafe { self.out.slice(at..at + packed::ROWS) };
            if let Some(out) = out.as_mut_array() {
                *out = *row;
            }
        }
    }
}

/// Inputs that the tasks of one call share.
pub(super) struct Inputs<'a> {
    pub kernels: &'static Kernels,
    pub stop: &'a Stop,
    /// Whether F32 weights go through `sgemm`.
    pub blocked: bool,
    pub x: &'a [f32],
    pub x_q8: &'a [Q8Block],
    pub x_wide: &'a [I16Block],
    pub n: usize,
}

/// Activation rows that a task multiplies with all its weights before the next rows. They stay in a core's cache, and fetching the
/// weights anew for each block costs little.
pub(super) const BLOCK: usize = 64;
/// The same where the weights of a task are packed for each block, or take more of a cache than a vector does: packing or fetching
/// them costs little beside the products with so many rows.
const BLOCK_MORE: usize = 4 * BLOCK;
/// Weight rows that are expanded and multiplied together.
pub(super) const PANEL: usize = 8;

/// Whether `w` is packed as numbers that are multiplied with activations as they are.
fn is_numbers(w: &HostWeight) -> bool {
    matches!(w.format, Format::F32 | Format::F16 | Format::BF16) && w.is_packed() && !w.is_wide()
}

// A group of packed rows fits where that many rows in f32 do: scales take less than the codes of a group.
const _: () = assert!(2 * packed::Codes::U8.bytes() <= PANEL * packed::COLS * size_of::<f32>());

impl Inputs<'_> {
    /// Computes output columns `rows` (rows of the weight) of one product for all activation rows.
    /// `scratch` holds [`PANEL`] weight rows in f32, or a group of packed ones; for `then` see [`Group::then`].
    pub fn compute(&self, target: &Target<'_>, rows: Range<usize>, then: Ahead, scratch: &mut [f32]) {
        match self.kernels.dot[target.weight.format as usize] {
            _ if self.stop.says_so() => return,
            Dot::F32 if target.weight.format == Format::F32 && self.blocked && !target.weight.is_packed() => {
                return self.sgemm(target, rows);
            }
            _ => {}
        }
        for vectors in self.blocks(&[target]) {
            self.compute_block(target, rows.clone(), vectors, then, scratch);
        }
    }

    /// The activation rows in blocks; a task multiplies one block with all its weights before the next. A block has more than [`BLOCK`]
    /// rows only where each weight is packed for it, or is numbers: the buffers of other products hold no more. It ends when the pass
    /// is stopped.
    pub fn blocks(&self, targets: &[&Target<'_>]) -> impl Iterator<Item = Range<usize>> {
        let n = self.n;
        let takes_more = |target: &&Target<'_>| self.packs_now(target.weight) || is_numbers(target.weight);
        let block = if targets.iter().all(takes_more) { BLOCK_MORE } else { BLOCK };
        let goes_on = |_: &Range<usize>| !self.stop.says_so();
        (0..n).step_by(block).map(move |first| first..n.min(first + block)).take_while(goes_on)
    }

    /// As [`Inputs::compute`] for the activation rows of one block, without `sgemm`.
    pub fn compute_block(
        &self,
        target: &Target<'_>,
        rows: Range<usize>,
        vectors: Range<usize>,
        then: Ahead,
        scratch: &mut [f32],
    ) {
        let w = target.weight;
        match self.kernels.dot[w.format as usize] {
            Dot::Q8(_) if w.is_packed() => {
                let groups = Groups::of_bytes(self.kernels, w, groups_of(&rows), then);
                self.packed(target, &groups, self.x_q8, rows, vectors);
            }
            Dot::Q8(_) if self.packs_now(w) => self.packed_now(target, rows, vectors, scratch),
            Dot::Q8(dot) => self.in_place(target, rows, vectors, dot),
            Dot::F32 if w.is_wide() => {
                let groups = Groups::of_wide(self.kernels, w, groups_of(&rows), then);
                self.packed(target, &groups, self.x_wide, rows, vectors);
            }
            Dot::F32 if is_numbers(w) => self.numbers(target, rows, vectors),
            Dot::F32 => self.expanded(target, rows, vectors, scratch),
        }
    }

    /// Whether rows of `w` are packed each time they are multiplied.
    fn packs_now(&self, w: &HostWeight) -> bool {
        !w.is_packed() && packs_now(self.kernels, w.format)
    }

    /// Packed numbers; `rows` begin with a group.
    fn numbers(&self, target: &Target<'_>, rows: Range<usize>, vectors: Range<usize>) {
        let (w, n_cols) = (target.weight, target.weight.n_cols);
        let x = &self.x[vectors.start * n_cols..vectors.end * n_cols];
        if vectors.len() == 1 {
            let at = vectors.start * w.n_rows;
            // SAFETY: each output column belongs to one task, and tasks of different products have different outputs.
            let out = unsafe { target.out.slice(at + rows.start..at + rows.end) };
            return packed_numbers(self.kernels, w, rows, x, out);
        }
        /// Groups at a time.
        const GROUPS: usize = 2;
        let mut out = [0.0; GROUPS * BLOCK * packed::ROWS];
        for first in rows.clone().step_by(GROUPS * packed::ROWS) {
            let last = rows.end.min(first + GROUPS * packed::ROWS);
            for (i, x) in x.chunks(BLOCK * n_cols).enumerate() {
                let n = x.len() / n_cols;
                let out = &mut out[..(last - first).div_ceil(packed::ROWS) * n * packed::ROWS];
                packed_numbers(self.kernels, w, first..last, x, out);
                for (first, out) in (first..last).step_by(packed::ROWS).zip(out.chunks(n * packed::ROWS)) {
                    target.put_group(vectors.start + i * BLOCK, (first, last), out.as_chunks().0);
                }
            }
        }
    }

    /// Packed weights, whose groups `rows` are and begin with one; `x` are all rounded activations.
    fn packed<B>(
        &self,
        target: &Target<'_>,
        groups: &Groups<'_, B>,
        x: &[B],
        rows: Range<usize>,
        vectors: Range<usize>,
    ) {
        let n_blocks = groups.n_pieces;
        let x = &x[vectors.start * n_blocks..vectors.end * n_blocks];
        let put = |group: usize, t: usize, products: &[[f32; packed::ROWS]]| {
            let first = rows.start + group * packed::ROWS;
            target.put_group(vectors.start + t, (first, rows.end), products);
        };
        let pair = groups.pair.filter(|_| vectors.len() >= MANY);
        let n_paired = pair.map_or(0, |pair| groups.multiply_pairs(pair, x, put));
        let mut buffer = [0.0; BLOCK * packed::ROWS];
        for i in n_paired..groups.n {
            groups.multiply(&groups.group(i), x, &mut buffer, |t, products| put(i, t, products));
        }
    }

    /// Weights as they lie in the file, group by group as if they were packed; `rows` begin with a group.
    fn packed_now(
        &self,
        target: &Target<'_>,
        rows: Range<usize>,
        vectors: Range<usize>,
        scratch: &mut [f32],
    ) {
        let n_blocks = target.weight.n_cols / 32;
        let x = &self.x_q8[vectors.start * n_blocks..vectors.end * n_blocks];
        let alone = self.kernels.rows[target.weight.format as usize].filter(|_| vectors.len() <= FEW);
        let mut out = [0.0; BLOCK * packed::ROWS];
        for first in rows.clone().step_by(packed::ROWS) {
            let last = rows.end.min(first + packed::ROWS);
            if let Some(product) = alone {
                for (t, x) in x.chunks(n_blocks).enumerate() {
                    let mut out = [0.0; packed::ROWS];
                    product(&rows_now(target.weight, first..last), x, &mut out);
                    target.put_group(vectors.start + t, (first, last), &[out]);
                }
                continue;
            }
            let (product, group) = pack_now(self.kernels, target.weight, first..last, scratch);
            for (i, x) in x.chunks(BLOCK * n_blocks).enumerate() {
                let out = &mut out[..x.len() / n_blocks * packed::ROWS];
                product(&group, x, out);
                target.put_group(vectors.start + i * BLOCK, (first, last), out.as_chunks().0);
            }
        }
    }

    /// Weights as they lie in the file, row by row.
    fn in_place(
        &self,
        target: &Target<'_>,
        rows: Range<usize>,
        vectors: Range<usize>,
        dot: fn(&[u8], &[Q8Block]) -> f32,
    ) {
        let n_blocks = target.weight.n_cols / 32;
        for i in rows {
            let row = target.weight.row(i);
            for t in vectors.clone() {
                target.put(t, i, &[dot(row, &self.x_q8[t * n_blocks..(t + 1) * n_blocks])]);
            }
        }
    }

    /// Weights expanded to f32, a panel at a time.
    fn expanded(&self, target: &Target<'_>, rows: Range<usize>, vectors: Range<usize>, scratch: &mut [f32]) {
        let (w, n_cols) = (target.weight, target.weight.n_cols);
        let x = &self.x[vectors.start * n_cols..vectors.end * n_cols];
        let mut out = [0.0; PANEL * BLOCK];
        for first in rows.clone().step_by(PANEL) {
            let n_rows = PANEL.min(rows.end - first);
            let out = &mut out[..n_rows * vectors.len()];
            if let Some(rows) = self.half_rows(w, first..first + n_rows) {
                (self.kernels.dots_f16)(rows, x, n_cols, out);
            } else if w.format == Format::F32 {
                (self.kernels.dots_f32)(&w.f32s()[first * n_cols..(first + n_rows) * n_cols], x, n_cols, out);
            } else {
                let panel = &mut scratch[..n_rows * n_cols];
                for (i, row) in panel.chunks_exact_mut(n_cols).enumerate() {
                    (self.kernels.expand[w.format as usize])(w.row(first + i), row);
                }
                (self.kernels.dots_f32)(panel, x, n_cols, out);
            }
            for (t, row) in vectors.clone().zip(out.chunks_exact(n_rows)) {
                target.put(t, first, row);
            }
        }
    }

    /// Rows of a weight in binary16 that can be read where they lie.
    fn half_rows<'w>(&self, w: &'w HostWeight, rows: Range<usize>) -> Option<&'w [f16]> {
        if w.format == Format::F16 { halves(w.rows(rows)) } else { None }
    }

    fn sgemm(&self, target: &Target<'_>, rows: Range<usize>) {
        let w = target.weight;
        let (m, k, n) = (self.n, w.n_cols, rows.len());
        let a = &self.x[..m * k];
        let b = &w.f32s()[rows.start * k..rows.end * k];
        for t in 0..m {
            let at = t * w.n_rows;
            assert!(at + rows.end <= target.out.len(), "output row {t} leaves the buffer");
        }
        let c = target.out.as_mut_ptr().wrapping_add(rows.start);
        let row_stride = w.n_rows as isize;
        // SAFETY: `a` is [m, k] and `b` is [n, k] (read transposed), both checked by slicing; `c` covers columns
        // `rows` of the m output rows, checked above, which no other task touches.
        unsafe {
            sgemm(m, k, n, 1.0, a.as_ptr(), k as isize, 1, b.as_ptr(), 1, k as isize, 0.0, c, row_stride, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::tests::{buffer, noise, weight};
    use crate::backend::threaded::{F32Products, Pack, ThreadedBackend};
    use crate::backend::{Backend, Limits, MoeMatmul, Product, WeightRole};
    use crate::kernels::{Isa, Kernels};
    use crate::memory::Memory;
    use crate::quant::FORMATS;
    use crate::threads::ThreadPool;

    /// Products of `n` vectors with 96 rows and with 70, and with two of three experts of 32 rows each.
    fn products(isa: Isa, pack: Pack, format: crate::quant::Format, n: usize) -> Vec<f32> {
        let pool = ThreadPool::new(2, None).expect("threads");
        let kernels = Kernels::select(Some(isa));
        let memory = Memory::default();
        let mut b = ThreadedBackend::new(kernels, pool, F32Products::Dots, memory).expect("memory");
        b.set_pack(pack);
        let limits = Limits { n_tokens: n, n_cols: 256, n_slots: 2 * n, n_expert: 3, ..Limits::default() };
        b.reserve(&limits).expect("memory");
        let x = buffer(&mut b, &noise(n * 256, 1));
        let [whole, partly] = [96, 70].map(|n| weight(&mut b, format, n, 256, 2, WeightRole::Matrix));
        let may_stay = kernels.packing(format).is_some_and(|packing| packing.may_stay());
        assert_eq!(whole.is_packed(), pack == Pack::Auto && may_stay, "{format:?}, {isa:?}");
        let mut outs = [96, 70, 64].map(|n_rows| b.alloc(n * n_rows).expect("memory"));
        let [a, c, experts] = &mut outs;
        b.matmul_many(&x, n, &mut [Product { weight: &whole, out: a }, Product { weight: &partly, out: c }]);
        let route: Vec<f32> = (0..n).flat_map(|t| [(t % 3) as f32, 0.5, 2.0 - (t % 2) as f32, 0.5]).collect();
        let route = &buffer(&mut b, &route);
        let (weight, bias, n_expert, n_used, reduce) = (&whole, None, 3, 2, false);
        b.moe_matmul(MoeMatmul { x: &x, n, weight, bias, n_expert, n_used, route, reduce, out: experts });
        outs.iter().flat_map(|out| out.iter().copied()).collect()
    }

    #[test]
    fn rows_packed_when_they_are_multiplied_give_the_bits_of_packed_ones() {
        for isa in Isa::supported() {
            for format in FORMATS.iter().map(|info| info.format) {
                if !super::packs_now(Kernels::select(Some(isa)), format) {
                    continue;
                }
                for n in if cfg!(miri) { vec![1] } else { vec![1, 65, 257] } {
                    let [auto, never] = [Pack::Auto, Pack::Never].map(|pack| products(isa, pack, format, n));
                    let equal = auto.iter().zip(&never).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(equal && auto.len() == never.len(), "{format:?}, {isa:?}, {n} vectors");
                }
            }
        }
    }
}
