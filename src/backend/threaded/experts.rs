//! What one task of a product with chosen experts computes: some rows of every expert's matrix, for all vectors that chose it.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::ThreadedBackend;
use super::groups::{FEW, Groups, groups_of, pack_now, packed_numbers, packs_now, rows_now};
use super::products::PANEL;
use crate::backend::MoeMatmul;
use crate::backend::host::{HostWeight, Stop, Zeroed};
use crate::error::Result;
use crate::kernels::{I16Block, Kernels, MANY};
use crate::memory::Memory;
use crate::quant::packed::{self, Ahead};
use crate::quant::{Dot, Format, Q8Block};
use crate::threads::DisjointMut;

/// Approximate tasks that each thread gets of a product with chosen experts. Few, so that each reads long stretches of weights,
/// which memory delivers much faster than short ones. More than one, so that other threads help one that is held up. Other
/// products are shared by [`Shares`](super::shares::Shares).
const TASKS_PER_THREAD: usize = 2;
/// Vectors rounded to bytes that are multiplied with an expert's rows at a time; of other vectors about as many bytes.
const BATCH: usize = 32;
const SMALL_BATCH: usize = 8;

/// The slots of a call by their experts.
#[derive(Default)]
pub(super) struct Order {
    /// The slots of each expert, ascending, in the order of experts.
    slots: Zeroed<u32>,
    /// Where the slots of each expert begin.
    starts: Zeroed<u32>,
}

impl Order {
    /// Allocates space for `n_slots` slots and `n_expert` experts.
    pub fn reserve(&mut self, n_slots: usize, n_expert: usize, memory: &Memory) -> Result<()> {
        self.slots = memory.zeroed(n_slots, "the order of experts")?;
        self.starts = memory.zeroed(n_expert, "the order of experts")?;
        Ok(())
    }

    /// Sorts the slots of `route`, `[slots, 2]`, by their experts.
    pub fn sort(&mut self, route: &[f32], n_expert: usize) {
        let n_slots = route.len() / 2;
        let (slots, starts) = (&mut self.slots[..n_slots], &mut self.starts[..n_expert]);
        let expert = |slot: usize| route[2 * slot] as usize;
        starts.fill(0);
        (0..n_slots).for_each(|slot| starts[expert(slot)] += 1);
        let mut end = 0;
        for start in &mut *starts {
            end += *start;
            *start = end;
        }
        for slot in (0..n_slots).rev() {
            let start = &mut starts[expert(slot)];
            *start -= 1;
            slots[*start as usize] = slot as u32;
        }
    }

    /// The experts that have any of `n_slots` slots, with their slots.
    fn experts(&self, n_slots: usize, n_expert: usize) -> impl Iterator<Item = (usize, &[u32])> {
        let starts = &self.starts[..n_expert];
        let ends = starts[1..].iter().copied().chain([n_slots as u32]);
        let ranges = starts.iter().zip(ends).enumerate();
        ranges
            .map(|(expert, (&start, end))| (expert, &self.slots[start as usize..end as usize]))
            .filter(|(_, slots)| !slots.is_empty())
    }
}

/// A buffer for each thread with the vectors of an expert, one after another.
#[derive(Default)]
pub(super) struct Gathered {
    q8: Zeroed<Q8Block>,
    wide: Zeroed<I16Block>,
    f32: Zeroed<f32>,
}

impl Gathered {
    /// Allocates space for vectors of `n_cols` for each of `n_threads`, in [`I16Block`]s too if so.
    pub fn reserve(&mut self, n_cols: usize, n_threads: usize, wide: bool, memory: &Memory) -> Result<()> {
        let n = |batch: usize, len: usize| n_cols.div_ceil(len).saturating_mul(batch * n_threads);
        let what = "the vectors of an expert";
        self.q8 = memory.zeroed(n(BATCH, Q8Block::LEN), what)?;
        self.wide = memory.zeroed(if wide { n(SMALL_BATCH, I16Block::LEN) } else { 0 }, what)?;
        self.f32 = memory.zeroed(n(SMALL_BATCH, 1), what)?;
        Ok(())
    }

    /// The buffers of `n_threads` threads.
    pub fn by_thread(&mut self, n_threads: usize) -> ThreadBuffers<'_> {
        let lens = (self.q8.len() / n_threads, self.wide.len() / n_threads, self.f32.len() / n_threads);
        let (q8, wide, f32) = (&mut *self.q8, &mut *self.wide, &mut *self.f32);
        ThreadBuffers {
            lens,
            q8: DisjointMut::new(q8),
            wide: DisjointMut::new(wide),
            f32: DisjointMut::new(f32),
        }
    }
}

/// What [`Gathered`] has for each thread.
pub(super) struct ThreadBuffers<'a> {
    lens: (usize, usize, usize),
    q8: DisjointMut<'a, Q8Block>,
    wide: DisjointMut<'a, I16Block>,
    f32: DisjointMut<'a, f32>,
}

impl ThreadBuffers<'_> {
    /// The buffer of one thread.
    ///
    /// # Safety
    /// Nobody else has this thread's buffer at the same time.
    pub unsafe fn of(&self, thread: usize) -> ThreadBuffer<'_> {
        let range = |len: usize| thread * len..(thread + 1) * len;
        // SAFETY: the caller sees to it.
        let q8 = unsafe { self.q8.slice(range(self.lens.0)) };
        // SAFETY: as above.
        let wide = unsafe { self.wide.slice(range(self.lens.1)) };
        // SAFETY: as above.
        let f32 = unsafe { self.f32.slice(range(self.lens.2)) };
        ThreadBuffer { q8, wide, f32 }
    }
}

/// A thread's buffer.
pub(super) struct ThreadBuffer<'a> {
    q8: &'a mut [Q8Block],
    wide: &'a mut [I16Block],
    f32: &'a mut [f32],
}

/// The vectors of `inputs` in `x`, each of `len` blocks, one after another: copied to `buffer` unless they lie so already.
fn gather<'a, T: Pod + Zeroable>(
    x: &'a [T],
    len: usize,
    inputs: impl Iterator<Item = usize> + Clone,
    buffer: &'a mut [T],
) -> &'a [T] {
    let n = inputs.clone().count();
    let first = inputs.clone().next().unwrap_or(0);
    if inputs.clone().eq(first..first + n) {
        return &x[first * len..(first + n) * len];
    }
    for (input, to) in inputs.zip(buffer.chunks_exact_mut(len)) {
        to.copy_from_slice(&x[input * len..(input + 1) * len]);
    }
    &buffer[..n * len]
}

/// A product with the matrices of chosen experts, as its tasks read it.
pub(super) struct Experts<'a> {
    pub kernels: &'static Kernels,
    pub stop: &'a Stop,
    pub weight: &'a HostWeight,
    pub n_expert: usize,
    /// Rows of one expert's matrix.
    pub n_rows: usize,
    pub n_used: usize,
    pub reduce: bool,
    /// `[n_expert, n_rows]`.
    pub bias: Option<&'a [f32]>,
    /// `[slots, 2]`.
    pub route: &'a [f32],
    /// Of `route`.
    pub order: &'a Order,
    pub x: &'a [f32],
    pub x_q8: &'a [Q8Block],
    pub x_wide: &'a [I16Block],
    pub out: DisjointMut<'a, f32>,
}

impl Experts<'_> {
    /// Computes output columns `rows` of every slot. `scratch` holds [`PANEL`] weight rows in f32, or a group of packed ones.
    pub fn compute(&self, rows: Range<usize>, buffer: &mut ThreadBuffer<'_>, scratch: &mut [f32]) {
        let n_slots = self.route.len() / 2;
        if self.reduce {
            for row in 0..n_slots / self.n_used {
                self.columns(row, rows.start, rows.len()).fill(0.0);
            }
        }
        let batch = match self.kernels.dot[self.weight.format as usize] {
            Dot::Q8(_) => BATCH,
            Dot::F32 => SMALL_BATCH,
        };
        for (expert, slots) in self.order.experts(n_slots, self.n_expert) {
            if self.stop.says_so() {
                return;
            }
            for slots in slots.chunks(batch) {
                self.multiply(expert, slots, rows.clone(), buffer, scratch);
            }
        }
    }

    /// Output columns of a row, which belong to the calling task.
    #[allow(clippy::mut_from_ref, reason = "see the safety comment")]
    fn columns(&self, row: usize, first: usize, n: usize) -> &mut [f32] {
        let at = row * self.n_rows + first;
        // SAFETY: each output column belongs to one task.
        unsafe { self.out.slice(at..at + n) }
    }

    /// Adds `products` of the vector of `slot` with rows of `expert` from `first` on to the output.
    fn put(&self, expert: usize, slot: u32, first: usize, products: &[f32]) {
        let slot = slot as usize;
        let row = if self.reduce { slot / self.n_used } else { slot };
        let out = self.columns(row, first, products.len());
        let bias = self.bias.map(|bias| &bias[expert * self.n_rows + first..][..products.len()]);
        for (i, (out, &y)) in out.iter_mut().zip(products).enumerate() {
            let y = bias.map_or(y, |bias| y + bias[i]);
            *out = if self.reduce { *out + self.route[2 * slot + 1] * y } else { y };
        }
    }

    /// The products of the vectors of `slots` with `rows` of `expert`.
    fn multiply(
        &self,
        expert: usize,
        slots: &[u32],
        rows: Range<usize>,
        buffer: &mut ThreadBuffer<'_>,
        scratch: &mut [f32],
    ) {
        let (w, kernels, n_cols) = (self.weight, self.kernels, self.weight.n_cols);
        let (n_blocks, begin) = (n_cols / packed::COLS, expert * self.n_rows);
        let stretch = begin + rows.start..begin + rows.end;
        let inputs = slots.iter().map(|&slot| slot as usize / if self.reduce { 1 } else { self.n_used });
        let is_packed = w.is_packed() && self.n_rows.is_multiple_of(packed::ROWS);
        match kernels.dot[w.format as usize] {
            Dot::Q8(dot) => {
                let x = gather(self.x_q8, n_blocks, inputs, buffer.q8);
                if is_packed {
                    let groups = Groups::of_bytes(kernels, w, groups_of(&stretch), Ahead::NONE);
                    self.packed(expert, slots, &groups, x, rows);
                } else if packs_now(kernels, w.format) {
                    let mut out = [[0.0; packed::ROWS]; BATCH];
                    let alone = kernels.rows[w.format as usize].filter(|_| slots.len() <= FEW);
                    for first in stretch.clone().step_by(packed::ROWS) {
                        let last = stretch.end.min(first + packed::ROWS);
                        if let Some(product) = alone {
                            for (x, out) in x.chunks_exact(n_blocks).zip(&mut out) {
                                product(&rows_now(w, first..last), x, out);
                            }
                            self.put_rows(expert, slots, first - begin, last - first, &out);
                            continue;
                        }
                        let (product, group) = pack_now(kernels, w, first..last, scratch);
                        product(&group, x, out[..slots.len()].as_flattened_mut());
                        self.put_rows(expert, slots, first - begin, last - first, &out);
                    }
                } else {
                    for i in stretch {
                        for (&slot, x) in slots.iter().zip(x.chunks_exact(n_blocks)) {
                            self.put(expert, slot, i - begin, &[dot(w.row(i), x)]);
                        }
                    }
                }
            }
            Dot::F32 if is_packed && w.is_wide() => {
                let x = gather(self.x_wide, n_blocks, inputs, buffer.wide);
                let groups = Groups::of_wide(kernels, w, groups_of(&stretch), Ahead::NONE);
                self.packed(expert, slots, &groups, x, rows);
            }
            Dot::F32 => {
                let x = gather(self.x, n_cols, inputs, buffer.f32);
                if is_packed {
                    let mut out = [[0.0; packed::ROWS]; SMALL_BATCH];
                    for first in stretch.clone().step_by(packed::ROWS) {
                        let last = stretch.end.min(first + packed::ROWS);
                        let out = &mut out[..slots.len()];
                        packed_numbers(kernels, w, first..last, x, out.as_flattened_mut());
                        self.put_rows(expert, slots, first - begin, last - first, out);
                    }
                    return;
                }
                let mut out = [0.0; PANEL * SMALL_BATCH];
                for first in stretch.clone().step_by(PANEL) {
                    let n_rows = PANEL.min(stretch.end - first);
                    let out = &mut out[..n_rows * slots.len()];
                    let panel = match w.format {
                        Format::F32 => &w.f32s()[first * n_cols..(first + n_rows) * n_cols],
                        _ => {
                            let panel = &mut scratch[..n_rows * n_cols];
                            for (i, row) in panel.chunks_exact_mut(n_cols).enumerate() {
                                (kernels.expand[w.format as usize])(w.row(first + i), row);
                            }
                            &*panel
                        }
                    };
                    (kernels.dots_f32)(panel, x, n_cols, out);
                    for (&slot, products) in slots.iter().zip(out.chunks_exact(n_rows)) {
                        self.put(expert, slot, first - begin, products);
                    }
                }
            }
        }
    }

    /// The products with packed rows of an expert, in `groups`.
    fn packed<B>(&self, expert: usize, slots: &[u32], groups: &Groups<'_, B>, x: &[B], rows: Range<usize>) {
        let put = |group: usize, t: usize, products: &[[f32; packed::ROWS]]| {
            let first = rows.start + group * packed::ROWS;
            let n = packed::ROWS.min(rows.end - first);
            self.put_rows(expert, &slots[t..t + products.len()], first, n, products);
        };
        let pair = groups.pair.filter(|_| slots.len() >= MANY);
        let n_paired = pair.map_or(0, |pair| groups.multiply_pairs(pair, x, put));
        let mut buffer = [0.0; BATCH * packed::ROWS];
        for i in n_paired..groups.n {
            groups.multiply(&groups.group(i), x, &mut buffer, |t, products| put(i, t, products));
        }
    }

    /// The first `n` of the products of each of `slots` with a group of rows from `first` on.
    fn put_rows(
        &self,
        expert: usize,
        slots: &[u32],
        first: usize,
        n: usize,
        products: &[[f32; packed::ROWS]],
    ) {
        slots.iter().zip(products).for_each(|(&slot, row)| self.put(expert, slot, first, &row[..n]));
    }
}

impl ThreadedBackend {
    /// See [`crate::backend::Backend::moe_matmul`].
    pub(super) fn multiply_experts(&mut self, args: MoeMatmul<'_, Self>) {
        let (w, n_slots, n_threads) = (args.weight, args.n * args.n_used, self.pool.n_threads());
        self.prepare([w].into_iter(), args.x, if args.reduce { n_slots } else { args.n });
        self.course.leave();
        let route = &args.route[..2 * n_slots];
        // The pass may have ended before experts were chosen.
        if self.pass.stop.says_so() {
            return;
        }
        self.order.sort(route, args.n_expert);
        let n_rows = w.n_rows / args.n_expert;
        // A multiple of the rows of a packed group.
        let even = n_rows.div_ceil(n_threads * TASKS_PER_THREAD);
        let rows_per_task = even.max(1).next_multiple_of(packed::ROWS);
        let experts = Experts {
            kernels: self.kernels,
            stop: &self.pass.stop,
            weight: w,
            n_expert: args.n_expert,
            n_rows,
            n_used: args.n_used,
            reduce: args.reduce,
            bias: args.bias.map(HostWeight::f32s),
            route,
            order: &self.order,
            x: args.x,
            x_q8: &self.rounded.blocks,
            x_wide: &self.rounded.wide,
            out: DisjointMut::new(args.out),
        };
        let scratch_len = PANEL * self.n_cols;
        let scratch = DisjointMut::new(&mut self.rows);
        let buffers = self.gathered.by_thread(n_threads);
        self.pool.run(n_rows.div_ceil(rows_per_task), &|thread, task| {
            let rows = task * rows_per_task..n_rows.min((task + 1) * rows_per_task);
            // SAFETY: thread numbers are distinct, and so are their rows of scratch.
            let scratch = unsafe { scratch.slice(thread * scratch_len..(thread + 1) * scratch_len) };
            // SAFETY: as before.
            let mut buffer = unsafe { buffers.of(thread) };
            experts.compute(rows, &mut buffer, scratch);
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::tests::{buffer, noise, weight};
    use crate::backend::threaded::{F32Products, Pack, ThreadedBackend};
    use crate::backend::{Backend, Limits, MoeMatmul, WeightRole};
    use crate::kernels::{Isa, Kernels};
    use crate::memory::Memory;
    use crate::quant::FORMATS;
    use crate::threads::ThreadPool;

    /// Rows, experts, experts of a row, and length of a vector.
    const N: usize = if cfg!(miri) { 5 } else { 90 };
    const N_EXPERT: usize = 7;
    const N_USED: usize = 3;
    const N_COLS: usize = 256;

    /// One expert is chosen by all rows, one by none; the others by one row or some rows.
    fn route(row: usize) -> [f32; 2 * N_USED] {
        let first = if row == 11 { 1 } else { 2 };
        [5.0, 0.5, first as f32, 0.25, [3.0, 4.0, 6.0][row % 3], 0.125 + row as f32]
    }

    /// The products of all rows in calls of so many.
    fn products(b: &mut ThreadedBackend, w: &super::HostWeight, reduce: bool, batch: usize) -> Vec<u32> {
        let (n_in, n_out) = if reduce { (N_USED, 1) } else { (1, N_USED) };
        let x = noise(N * n_in * N_COLS, 3);
        let mut all = Vec::new();
        for first in (0..N).step_by(batch) {
            let n = batch.min(N - first);
            let x = buffer(b, &x[first * n_in * N_COLS..(first + n) * n_in * N_COLS]);
            let route = buffer(b, &(first..first + n).flat_map(route).collect::<Vec<_>>());
            let n_rows = w.n_rows / N_EXPERT;
            let mut out = b.alloc(n * n_out * n_rows).expect("memory");
            b.moe_matmul(MoeMatmul {
                x: &x,
                n,
                weight: w,
                bias: None,
                n_expert: N_EXPERT,
                n_used: N_USED,
                route: &route,
                reduce,
                out: &mut out,
            });
            all.extend(out.iter().map(|x| x.to_bits()));
        }
        all
    }

    #[test]
    fn many_rows_give_the_bits_of_one_after_the_other() {
        for isa in Isa::supported() {
            let kernels = Kernels::select(Some(isa));
            for (format, pack, n_rows) in FORMATS.iter().map(|info| info.format).flat_map(|format| {
                [(format, Pack::Auto, 48), (format, Pack::Never, 48), (format, Pack::Auto, 37)]
            }) {
                let pool = ThreadPool::new(2, None).expect("threads");
                let mut b = ThreadedBackend::new(kernels, pool, F32Products::Dots, Memory::default())
                    .expect("memory");
                b.set_pack(pack);
                let limits = Limits {
                    n_tokens: N,
                    n_cols: N_USED * N_COLS,
                    n_slots: N * N_USED,
                    n_expert: N_EXPERT,
                    ..Limits::default()
                };
                b.reserve(&limits).expect("memory");
                let w = weight(&mut b, format, N_EXPERT * n_rows, N_COLS, 2, WeightRole::Matrix);
                for reduce in [false, true] {
                    let [one, some, all] = [1, 40, N].map(|batch| products(&mut b, &w, reduce, batch));
                    let what = format!("{format:?}, {isa:?}, {pack:?}, {n_rows} rows, {reduce}");
                    assert!(one == all && some == all, "{what}");
                }
            }
        }
    }
}
