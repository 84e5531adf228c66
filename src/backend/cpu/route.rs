//! The definition of how experts are chosen.
#![forbid(unsafe_code)]

use super::sigmoid;
use crate::backend::host::HostWeight;
use crate::backend::{Backend, Gating, Groups, MoeRoute};

/// The inputs of [`route_row`] beside the logits.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Routing<'a> {
    gating: Gating,
    bias: Option<&'a [f32]>,
    normalize: Option<f32>,
    scale: f32,
    scales: Option<&'a [f32]>,
    groups: Option<Groups>,
}

impl<'a> Routing<'a> {
    pub(in crate::backend) fn of<B: Backend<Weight = HostWeight>>(args: &MoeRoute<'a, B>) -> Routing<'a> {
        let MoeRoute { gating, bias, normalize, scale, scales, groups, .. } = *args;
        let [bias, scales] = [bias, scales].map(|weight| weight.map(HostWeight::f32s));
        Routing { gating, bias, normalize, scale, scales, groups }
    }
}

/// One row of [`MoeRoute`]: `route` is `[n_used, 2]`.
pub(in crate::backend) fn route_row(logits: &[f32], routing: Routing<'_>, route: &mut [f32]) {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    let total: f32 = match routing.gating {
        Gating::Softmax => logits.iter().map(|&x| libm::expf(x - max)).sum(),
        Gating::Sigmoid | Gating::SparseMixer => 1.0,
    };
    let share = |logit: f32| match routing.gating {
        Gating::Softmax => libm::expf(logit - max) / total,
        // Experts are chosen in the order of logits; their shares are computed below.
        Gating::SparseMixer => logit,
        Gating::Sigmoid => sigmoid(logit),
    };
    let (route, _) = route.as_chunks_mut::<2>();
    let of_groups = routing.groups.map(|groups| {
        let score = |expert: usize| share(logits[expert]) + routing.bias.map_or(0.0, |bias| bias[expert]);
        (logits.len() / groups.n, best_groups(groups, logits.len() / groups.n, score))
    });
    // Experts outside the chosen groups come last.
    let in_group = |expert: usize| of_groups.is_none_or(|(len, groups)| groups >> (expert / len) & 1 == 1);
    let among = |(expert, score): (usize, f32)| if in_group(expert) { score } else { f32::NEG_INFINITY };
    match routing.bias {
        Some(bias) => {
            let scores = logits.iter().zip(bias).map(|(&x, bias)| share(x) + bias);
            choose(scores.enumerate().map(among), route);
        }
        // Shares are in the order of logits.
        None => choose(logits.iter().copied().enumerate().map(among), route),
    }
    if routing.gating == Gating::SparseMixer {
        return sparse_mixer(logits, route);
    }
    let mut chosen = 0.0;
    for [expert, weight] in route.iter_mut() {
        *weight = share(logits[*expert as usize]);
        chosen += *weight;
    }
    let factor = routing.normalize.map_or(routing.scale, |epsilon| routing.scale / (chosen + epsilon));
    for [expert, share] in route.iter_mut() {
        *share *= factor * routing.scales.map_or(1.0, |scales| scales[*expert as usize]);
    }
}

/// The shares of experts that were chosen one after the other.
fn sparse_mixer(logits: &[f32], route: &mut [[f32; 2]]) {
    for i in 0..route.len() {
        let (before, rest) = route.split_at_mut(i);
        let best = logits[rest[0][0] as usize];
        let is_left = |j: &usize| before.iter().all(|[expert, _]| *expert as usize != *j);
        let is_far = |x: f32| (best - x) / x.abs().max(best) > Gating::NEAR;
        let near = (0..logits.len()).filter(is_left).map(|j| logits[j]).filter(|&x| !is_far(x));
        rest[0][1] = 1.0 / near.map(|x| libm::expf(x - best)).sum::<f32>();
    }
}

/// A bit for each group of `len` experts that is among those with the largest scores, of equal ones the first.
fn best_groups(groups: Groups, len: usize, score: impl Fn(usize) -> f32) -> u64 {
    let mut scores = [f32::NEG_INFINITY; Groups::MOST];
    for (group, of_group) in scores[..groups.n].iter_mut().enumerate() {
        let [mut first, mut second] = [f32::NEG_INFINITY; 2];
        for score in (group * len..(group + 1) * len).map(&score) {
            (first, second) = if score > first { (score, first) } else { (first, second.max(score)) };
        }
        *of_group = if groups.two && len > 1 { first + second } else { first };
    }
    let mut chosen = 0;
    for _ in 0..groups.n_used {
        let free = (0..groups.n).filter(|group| chosen >> group & 1 == 0);
        let best = free.reduce(|a, b| if scores[b] > scores[a] { b } else { a });
        chosen |= best.map_or(0, |group| 1 << group);
    }
    chosen
}

/// Writes the largest of `values` and their numbers to `chosen`, as many as it holds, the largest first; of equal ones the lower
/// number. NaN counts as `-inf`.
fn choose(values: impl Iterator<Item = f32>, chosen: &mut [[f32; 2]]) {
    let order = |a: &[f32; 2], b: &[f32; 2]| b[1].total_cmp(&a[1]).then(a[0].total_cmp(&b[0]));
    // -0 is as large as 0.
    let entry =
        |(expert, x): (usize, f32)| [expert as f32, if x.is_nan() { f32::NEG_INFINITY } else { x + 0.0 }];
    let mut entries = values.enumerate().map(entry);
    chosen.iter_mut().zip(&mut entries).for_each(|(chosen, entry)| *chosen = entry);
    // A heap, whose root is the one to be replaced next.
    let sink = |heap: &mut [[f32; 2]], mut at: usize| {
        while let Some(child) = heap.get(2 * at + 1) {
            let last_child = match heap.get(2 * at + 2) {
                Some(other) if order(other, child).is_gt() => 2 * at + 2,
                _ => 2 * at + 1,
            };
            if order(&heap[last_child], &heap[at]).is_lt() {
                break;
            }
            heap.swap(at, last_child);
            at = last_child;
        }
    };
    (0..chosen.len() / 2).rev().for_each(|at| sink(chosen, at));
    for entry in entries {
        if chosen.first().is_some_and(|root| order(&entry, root).is_lt()) {
            chosen[0] = entry;
            sink(chosen, 0);
        }
    }
    chosen.sort_unstable_by(order);
}
