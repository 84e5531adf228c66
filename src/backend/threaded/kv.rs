//! Keys and values into the cache, by several threads where there are many.

use super::super::KvAppend;
use super::super::host::{Part, put};
use super::{ELEMENTS_PER_TASK, ThreadedBackend};
use crate::kernels::Kernels;
use crate::kernels::attention::PAGE_LEN;
use crate::threads::{DisjointMut, ThreadPool};

/// See [`crate::backend::Backend::kv_append`]. A task takes the keys or the values of one head in some of the pages.
pub(super) fn append(kernels: &Kernels, pool: &mut ThreadPool, args: KvAppend<'_, ThreadedBackend>) {
    let KvAppend { kv, layer, k, v, slots } = args;
    let shape = kv.shape;
    let (n_head, dim) = (shape.n_head_kv, shape.head_dim);
    let enough = 2 * slots.len() * n_head * dim / ELEMENTS_PER_TASK;
    if enough < 2 || pool.n_threads() == 1 {
        return kv.append(kernels, layer, slots, (k, v));
    }
    let n_sets = enough.div_ceil(2 * n_head);
    let bytes = DisjointMut::new(kv.bytes_mut());
    pool.run(2 * n_head * n_sets, &|_, task| {
        let (head, set) = (task / 2 % n_head, task / 2 / n_head);
        let (part, x): (_, &[f32]) = if task % 2 == 0 { (Part::K, k) } else { (Part::V, v) };
        for (row, &slot) in slots.iter().enumerate() {
            let page = slot as usize / PAGE_LEN;
            if page % n_sets == set {
                let block = shape.block(page, layer, part, head);
                // SAFETY: blocks do not overlap, and each belongs to one task by its part, head and page.
                let block = unsafe { bytes.slice(block) };
                put(kernels, &shape, part, slot, &x[(row * n_head + head) * dim..][..dim], block);
            }
        }
    });
}
