//! The first half of a gated feed-forward block as one job: a task multiplies the same rows of both weights, applies the
//! activation to the products and rounds them. So the numbers stay in the cache of one thread, and no thread waits in between.

use super::products::{Inputs, Target};
use super::shares::Shares;
use super::{Call, PANEL, ThreadedBackend};
use crate::backend::cpu::act_mul;
use crate::backend::{Backend, GatedMatmul, Product};
use crate::quant::{Format, Q8Block, packed};
use crate::threads::DisjointMut;

/// See [`crate::backend::Backend::gated_matmul`].
pub(super) fn run(b: &mut ThreadedBackend, args: GatedMatmul<'_, ThreadedBackend>) {
    let GatedMatmul { x, n, gate, up, n_rows, activation, out, scratch } = args;
    let shapes = [gate, up].map(|w| (w.n_rows, w.n_cols));
    assert!(shapes == [(n_rows, gate.n_cols); 2], "gate and up are {shapes:?} for {n_rows} rows");
    // A task has whole groups of rows and whole blocks of what is rounded.
    const PAIR: usize = 2 * packed::ROWS;
    const { assert!(PAIR.is_multiple_of(Q8Block::LEN)) };
    if !n_rows.is_multiple_of(PAIR) || b.is_blocked(n) && [gate, up].iter().any(|w| w.format == Format::F32) {
        b.matmul_many(
            x,
            n,
            &mut [Product { weight: gate, out: &mut *out }, Product { weight: up, out: &mut *scratch }],
        );
        return b.act_mul(activation, out, scratch, n * n_rows);
    }
    b.prepare([gate, up].into_iter(), x, n);
    let n_threads = b.pool.n_threads();
    let call = Call::side_by_side([gate, up], |n_groups| Shares::new(n_groups / 2, n_threads).in_pairs());
    let next = b.course.take(&call);
    let rounds = b.rounded.takes(n * n_rows, PAIR);
    let (quantize, act_mul) = (b.kernels.quantize_activations, act_mul(b.kernels, activation));
    let (x_q8, x_wide, blocks) = b.rounded.all();
    let blocks = DisjointMut::new(blocks);
    let inputs = Inputs { kernels: b.kernels, stop: &b.pass.stop, blocked: false, x, x_q8, x_wide, n };
    let targets = [(gate, &mut *out), (up, scratch)].map(|(weight, out)| Target {
        weight,
        out: DisjointMut::new(out),
        first_group: 0,
    });
    let scratch_len = PANEL * b.n_cols;
    let scratch = DisjointMut::new(&mut b.rows);
    b.pool.run(call.shares().n_tasks(), &|thread, task| {
        let groups = call.shares().groups(task);
        let rows = groups.start * packed::ROWS..groups.end * packed::ROWS;
        // SAFETY: thread numbers are distinct, and so are their rows of scratch.
        let scratch = unsafe { scratch.slice(thread * scratch_len..(thread + 1) * scratch_len) };
        for vectors in inputs.blocks(&targets.each_ref()) {
            for (i, target) in targets.iter().enumerate() {
                let then = call.after((task, i), next.as_ref(), (thread, n_threads));
                inputs.compute_block(target, rows.clone(), vectors.clone(), then, scratch);
            }
            for t in vectors {
                let columns = t * n_rows + rows.start..t * n_rows + rows.end;
                // SAFETY: each output column belongs to one task, and its products are no longer borrowed.
                let [gate, up] =
                    targets.each_ref().map(|target| unsafe { target.out.slice(columns.clone()) });
                act_mul(gate, up);
                if rounds {
                    let these = columns.start / Q8Block::LEN..columns.end / Q8Block::LEN;
                    // SAFETY: as for the columns, of which a task has whole blocks.
                    quantize(gate, unsafe { blocks.slice(these) });
                }
            }
        }
    });
    if rounds {
        b.rounded.advance(out, n * n_rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Activation;
    use crate::backend::cpu::CpuBackend;
    use crate::backend::tests::{Host, buffer, noise, weight};
    use crate::backend::threaded::{F32Products, Pack};
    use crate::backend::{Limits, WeightRole};
    use crate::kernels::{Isa, Kernels};
    use crate::memory::Memory;
    use crate::threads::ThreadPool;

    /// What is computed: formats of gate and up, vectors, rows, the activation.
    type Case = ([Format; 2], usize, usize, Activation);

    /// The first half of a block, in one call or step by step, and the product of that with a third matrix.
    fn block<B: Host>(b: &mut B, (formats, n, n_rows, activation): Case, fused: bool) -> Vec<f32> {
        let limits = Limits { n_tokens: n, n_cols: n_rows.max(256), ..Limits::default() };
        b.reserve(&limits).expect("memory");
        let [gate, up] = [0, 1].map(|i| weight(b, formats[i], n_rows, 256, i as u32 + 1, WeightRole::Matrix));
        let down = weight(b, Format::Q8_0, 40, n_rows, 3, WeightRole::Matrix);
        let x = &buffer(b, &noise(n * 256, 4));
        let [mut out, mut scratch] = [0, 1].map(|_| b.alloc(n * n_rows).expect("memory"));
        let mut result = b.alloc(n * 40).expect("memory");
        // A backend may round while it computes, once it knows that products need rounded rows.
        b.matmul(&out, 1, Product { weight: &down, out: &mut result });
        if fused {
            let (gate, up, out, scratch) = (&gate, &up, &mut out, &mut scratch);
            b.gated_matmul(GatedMatmul { x, n, gate, up, n_rows, activation, out, scratch });
        } else {
            b.matmul(x, n, Product { weight: &gate, out: &mut out });
            b.matmul(x, n, Product { weight: &up, out: &mut scratch });
            b.act_mul(activation, &mut out, &scratch, n * n_rows);
            out = buffer(b, &out);
        }
        b.matmul(&out, n, Product { weight: &down, out: &mut result });
        out.iter().chain(result.iter()).copied().collect()
    }

    #[test]
    fn one_job_gives_the_bits_of_the_steps_and_what_the_definition_says() {
        let q4 = [Format::Q4_1, Format::Q4_1];
        let mut cases = vec![
            (q4, 1, 96, Activation::Silu),
            (q4, 3, 256, Activation::Gelu),
            ([Format::Q6_K, Format::F16], 9, 128, Activation::Silu),
            ([Format::F32, Format::F32], 9, 96, Activation::Gelu),
        ];
        if !cfg!(miri) {
            cases.push((q4, 65, 288, Activation::Silu));
            // Different kinds: one weight has its rows packed for each product, since they are not packed before.
            cases.push(([Format::Q6_K, Format::F16], 257, 96, Activation::Silu));
            cases.push(([Format::F32, Format::Q4_1], 129, 96, Activation::Gelu));
        }
        for case in cases {
            let want = block(&mut CpuBackend::new(Memory::default()), case, true);
            let largest = want.iter().fold(0.0, |max: f32, y| max.max(y.abs()));
            for (isa, pack) in Isa::supported().flat_map(|isa| [(isa, Pack::Auto), (isa, Pack::Never)]) {
                let mut first = None;
                for n_threads in [1, 2, 7] {
                    for fused in [true, false] {
                        let pool = ThreadPool::new(n_threads, None).expect("threads");
                        let (kernels, memory) = (Kernels::select(Some(isa)), Memory::default());
                        let mut b =
                            ThreadedBackend::new(kernels, pool, F32Products::Dots, memory).expect("memory");
                        b.set_pack(pack);
                        let got = block(&mut b, case, fused);
                        let what = format!("{case:?}, {isa:?}, {pack:?}, {n_threads} threads, {fused}");
                        let far = got.iter().zip(&want).find(|(a, b)| (*a - *b).abs() > 0.02 * largest);
                        assert!(far.is_none() && got.len() == want.len(), "{what}: {far:?}");
                        let bits: Vec<u32> = got.iter().map(|y| y.to_bits()).collect();
                        assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "{what}");
                    }
                }
            }
        }
    }
}
