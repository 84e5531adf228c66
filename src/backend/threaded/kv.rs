//! Writes keys and values into the cache, with several threads where there are many.

use super::super::host::{HostKv, HostPass, Part, put, rotate_head, take};
use super::super::{KvAppend, KvRows, Rotation};
use super::shares::rows_of;
use super::{FEWEST_ELEMENTS, MOST_ELEMENTS, ThreadedBackend};
use crate::kernels::Kernels;
use crate::kernels::attention::PAGE_LEN;
use crate::threads::{DisjointMut, ThreadPool};

/// Most rows whose pages are compared.
const MOST_ROWS: usize = 64;

/// See [`crate::backend::Backend::kv_append`]. `scratch` has space for a head for each thread.
pub(super) fn append(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    pass: &HostPass,
    args: KvAppend<'_, ThreadedBackend>,
    scratch: &mut [f32],
) {
    let KvAppend { kv, layer, rows } = args;
    match rows {
        KvRows::New { group, k, v } => {
            store(kernels, pool, (kv, layer), (k, v), &pass.groups[group].slots);
        }
        KvRows::Moved { from, to, rotation } => {
            relocate(kernels, pool, (kv, layer), (from, to), rotation, scratch)
        }
    }
}

/// Stores new rows. A key has a cache line for each component, one after the other. So a task takes rows with pages of their own;
/// otherwise it takes the keys or the values of one head in some of the pages.
fn store(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    (kv, layer): (&mut HostKv, usize),
    (k, v): (&[f32], &[f32]),
    slots: &[u32],
) {
    let place = kv.layer(layer);
    let n_head = place.heads.n;
    let n_elements = slots.len() * n_head * (place.dim(Part::K) + place.dim(Part::V));
    if n_elements < 2 * FEWEST_ELEMENTS || pool.n_threads() == 1 {
        return kv.append(kernels, layer, slots, (k, v));
    }
    let bytes = DisjointMut::new(kv.bytes_mut());
    let n_threads = pool.n_threads();
    if slots.len() >= n_threads && have_pages_of_their_own(slots) {
        return pool.run(n_threads, &|_, task| {
            for row in rows_of(task, slots.len(), n_threads) {
                let parts = (0..n_head).flat_map(|head| [(head, (Part::K, k)), (head, (Part::V, v))]);
                for (head, (part, x)) in parts.filter(|(_, (part, _))| place.keeps(*part)) {
                    let block = place.block(slots[row] as usize / PAGE_LEN, part, head);
                    // SAFETY: blocks do not overlap, and each belongs to one task, by its page, which is of one row.
                    let block = unsafe { bytes.slice(block) };
                    let dim = place.dim(part);
                    put(kernels, &place, part, slots[row], &x[(row * n_head + head) * dim..][..dim], block);
                }
            }
        });
    }
    let n_sets = n_elements.div_ceil(2 * n_head * MOST_ELEMENTS);
    pool.run(2 * n_head * n_sets, &|_, task| {
        let (head, set) = (task / 2 % n_head, task / 2 / n_head);
        let (part, x) = if task % 2 == 0 { (Part::K, k) } else { (Part::V, v) };
        if !place.keeps(part) {
            return;
        }
        for (row, &slot) in slots.iter().enumerate() {
            let page = slot as usize / PAGE_LEN;
            if page % n_sets == set {
                let block = place.block(page, part, head);
                // SAFETY: blocks do not overlap, and each belongs to one task by its part, head and page.
                let block = unsafe { bytes.slice(block) };
                let dim = place.dim(part);
                put(kernels, &place, part, slot, &x[(row * n_head + head) * dim..][..dim], block);
            }
        }
    });
}

/// Whether no two of the slots are in one page; `false` for more than [`MOST_ROWS`].
fn have_pages_of_their_own(slots: &[u32]) -> bool {
    let page = |slot: &u32| *slot as usize / PAGE_LEN;
    let differs = |i: usize| slots[..i].iter().all(|slot| page(slot) != page(&slots[i]));
    slots.len() <= MOST_ROWS && (0..slots.len()).all(differs)
}

/// Moves rows. A task takes the keys or the values of one head, whose rows must move in order.
fn relocate(
    kernels: &Kernels,
    pool: &mut ThreadPool,
    (kv, layer): (&mut HostKv, usize),
    (from, to): (&[u32], &[u32]),
    rotation: Option<Rotation<'_>>,
    scratch: &mut [f32],
) {
    let place = kv.layer(layer);
    let per_thread = scratch.len() / pool.n_threads();
    let scratch = DisjointMut::new(scratch);
    let bytes = DisjointMut::new(kv.bytes_mut());
    pool.run(2 * place.heads.n, &|thread, task| {
        let (part, rotation) = if task % 2 == 0 { (Part::K, rotation) } else { (Part::V, None) };
        if !place.keeps(part) {
            return;
        }
        let block = |slot: u32| place.block(slot as usize / PAGE_LEN, part, task / 2);
        // SAFETY: thread numbers are distinct, and so are their parts of the scratch.
        let x = unsafe { scratch.slice(thread * per_thread..thread * per_thread + place.dim(part)) };
        for (&from, &to) in from.iter().zip(to) {
            // SAFETY: blocks do not overlap, and each belongs to one task by its part and head.
            take(&place, part, from, unsafe { bytes.slice(block(from)) }, x);
            rotate_head(kernels, rotation, x);
            // SAFETY: as before, and the block read from is no longer borrowed.
            put(kernels, &place, part, to, x, unsafe { bytes.slice(block(to)) });
        }
    });
}
