//! Rotary positions, attention, and how keys and values are stored and moved, compared with the definition.

use super::*;
use crate::backend::host::{Part, take};

#[test]
fn rotary_positions() {
    for style in [RopeStyle::Interleaved, RopeStyle::Halved] {
        check!("rope", F32, |b| {
            let (mut q, mut k) = (buffer(b, &noise(4 * 3 * 16, 1)), buffer(b, &noise(4 * 16, 2)));
            let inv_freq: Vec<f32> = (0..6).map(|i| 1.0 / (i + 1) as f32).collect();
            let (positions, n_head, head_dim) = (&[0, 1, 90, 4000][..], 3, 16);
            b.begin(&Pass { positions, ..Pass::default() }).expect("a pass");
            b.rope(Rope {
                q: &mut q,
                k: &mut k,
                n_head,
                n_head_kv: 1,
                head_dim,
                inv_freq: &inv_freq,
                magnitude: 1.25,
                style,
            });
            [&q[..], &k[..]].concat()
        });
    }
}

/// What keys and what values are rounded to.
const KV_TYPES: &[(KvType, KvType)] = match cfg!(miri) {
    true => &[(KvType::Q8_0, KvType::F16)],
    false => &[
        (KvType::F16, KvType::F16),
        (KvType::F32, KvType::F32),
        (KvType::Q8_0, KvType::Q8_0),
        (KvType::Q8_0, KvType::F16),
        (KvType::I16, KvType::I16),
    ],
};

/// A layer of other heads, and one of `n` heads.
fn layers(n: usize, dims: HeadDims) -> Vec<KvHeads> {
    vec![KvHeads { n: 1, dims: HeadDims::new(96, 32) }, KvHeads { n, dims }]
}

/// Stores keys and values of layer 1, which is of group 1, in `slots`.
fn store<B: Host>(b: &mut B, kv: &mut B::Kv, slots: &[u32], (k, v): (&B::Buffer, &B::Buffer)) {
    let tables = PageTables { slots: slots.to_vec(), pages: vec![] };
    let groups = &[PageTables::default(), tables];
    b.begin(&Pass { groups, ..Pass::default() }).expect("a pass");
    b.kv_append(KvAppend { kv, layer: 1, rows: KvRows::New { group: 1, k, v } });
}

#[test]
fn attention_over_scattered_pages() {
    let dims = [
        HeadDims::all(32),
        HeadDims::new(96, 64),
        HeadDims::new(32, 64),
        HeadDims { v_at: Some(32), ..HeadDims::new(96, 64) },
    ];
    for (&(k_type, v_type), dims) in KV_TYPES.iter().flat_map(|types| dims.map(|dims| (types, dims))) {
        if dims.v_at.is_some() && k_type != v_type {
            continue;
        }
        let growth = Some(Growth { len: 4, factor: 0.5, ahead: 1 });
        for (window, chunked, softcap, causal, growth, has_sinks) in [
            (None, false, None, true, None, false),
            (Some(5), false, Some(2.0), true, growth, true),
            (Some(5), true, None, true, None, true),
            (None, false, None, false, None, true),
            (Some(3), false, None, false, None, false),
        ] {
            check!("attention", F32, |b| {
                let shape = KvShape { layers: layers(2, dims), n_pages: 4, k_type, v_type };
                let mut kv = b.alloc_kv(&shape).expect("memory");
                // Sequence A has 36 tokens on pages 3 and 1, sequence B 3 tokens on page 0.
                let slots: Vec<u32> = (96..128).chain(32..36).chain(0..3).collect();
                let (k, v) = (buffer(b, &noise(39 * 2 * dims.k, 1)), buffer(b, &noise(39 * 2 * dims.v, 2)));
                store(b, &mut kv, &slots, (&k, &v));
                let q = buffer(b, &noise(6 * 4 * dims.k, 3));
                let sinks = weight(b, Format::F32, 1, 4, 4, WeightRole::Vector);
                let bias = match (causal, has_sinks) {
                    (false, _) => {
                        Some(DistanceBias::Table(weight(b, Format::F32, 4, 9, 5, WeightRole::Vector)))
                    }
                    (true, true) => {
                        Some(DistanceBias::Slopes(weight(b, Format::F32, 1, 4, 6, WeightRole::Vector)))
                    }
                    (true, false) => None,
                };
                // The last four tokens of A and two of B are the queries.
                let runs = [
                    Run { first: 0, len: 4, position: 32, encoded: 0, pages: 0 },
                    Run { first: 4, len: 2, position: 1, encoded: 0, pages: 2 },
                ];
                let mut out = b.alloc(6 * 4 * dims.v).expect("memory");
                let tables = PageTables { slots: vec![], pages: vec![3, 1, 0] };
                let groups = &[PageTables::default(), tables];
                b.begin(&Pass { runs: &runs, groups, ..Pass::default() }).expect("a pass");
                let args = Attention {
                    kv: &kv,
                    group: 1,
                    layer: 1,
                    q: &q,
                    n_head: 4,
                    scale: 0.25,
                    sees: Sees::All,
                    causal,
                    window,
                    chunked,
                    growth,
                    softcap,
                    bias: bias.as_ref(),
                    sinks: has_sinks.then_some(&sinks),
                };
                b.attention(&args, &mut out);
                out.to_vec()
            });
        }
    }
}

#[test]
fn many_keys_and_values_go_where_few_do() {
    let (n, n_head_kv, head_dim) = (if cfg!(miri) { 50 } else { 300 }, 3, 64);
    for &(k_type, v_type) in KV_TYPES {
        check!("kv_append", 0.0, |b| {
            let shape =
                KvShape { layers: layers(n_head_kv, HeadDims::all(head_dim)), n_pages: 12, k_type, v_type };
            let mut kv = b.alloc_kv(&shape).expect("memory");
            let len = n * n_head_kv * head_dim;
            let (k, v) = (buffer(b, &noise(len, 1)), buffer(b, &noise(len, 2)));
            // Pages in an order of their own, the first one from its seventh slot on.
            let slots: Vec<u32> = (7..7 + n as u32).map(|p| p / 32 * 5 % 12 * 32 + p % 32).collect();
            store(b, &mut kv, &slots, (&k, &v));
            kv.bytes_mut().iter().map(|&byte| f32::from(byte)).collect()
        });
    }
}

#[test]
fn rows_move_within_pages_that_are_read_later() {
    let (n, n_head_kv, head_dim, by) = (if cfg!(miri) { 60 } else { 150 }, 3, 64, 45);
    let angles = |i: usize| (0.37 * (i + 1) as f32).sin_cos();
    let (sin, cos): (Vec<f32>, Vec<f32>) = (0..24).map(angles).unzip();
    let slot = |p: usize| (p / 32 * 5 % 12 * 32 + p % 32) as u32;
    for &(k_type, v_type) in KV_TYPES {
        for style in [RopeStyle::Interleaved, RopeStyle::Halved] {
            let shape =
                KvShape { layers: layers(n_head_kv, HeadDims::all(head_dim)), n_pages: 12, k_type, v_type };
            let (from, to): (Vec<u32>, Vec<u32>) = (by + 7..n).map(|p| (slot(p), slot(p - by))).unzip();
            check!("kv_append of moved rows", F32, |b| {
                let mut kv = b.alloc_kv(&shape).expect("memory");
                let len = n * n_head_kv * head_dim;
                let (k, v) = (buffer(b, &noise(len, 1)), buffer(b, &noise(len, 2)));
                let slots: Vec<u32> = (0..n).map(slot).collect();
                store(b, &mut kv, &slots, (&k, &v));
                let rotation = Some(Rotation { cos: &cos, sin: &sin, style });
                let rows = KvRows::Moved { from: &from, to: &to, rotation };
                b.kv_append(KvAppend { kv: &mut kv, layer: 1, rows });
                // What the cache holds at each place, as numbers, and what it should: rows rotated before they were
                // stored the first time differ by one rounding more only.
                let (mut got, mut expected) = (Vec::new(), Vec::new());
                let mut x = vec![0.0; head_dim];
                for (p, head) in (0..n - by).flat_map(|p| (0..n_head_kv).map(move |head| (p, head))) {
                    for (part, rows) in [(Part::K, &k), (Part::V, &v)] {
                        let layer = kv.layer(1);
                        let block = layer.block(slot(p) as usize / 32, part, head);
                        take(&layer, part, slot(p), &kv.bytes_mut()[block], &mut x);
                        got.extend_from_slice(&x);
                        let row = if p < 7 { p } else { p + by };
                        x.copy_from_slice(&rows[(row * n_head_kv + head) * head_dim..][..head_dim]);
                        if p >= 7 && matches!(part, Part::K) {
                            (crate::kernels::scalar::SCALAR.rope)(&mut x, &cos, &sin, style);
                        }
                        expected.extend_from_slice(&x);
                    }
                }
                let rounding = if k_type == KvType::Q8_0 { 1e-3 } else { 1e-6 };
                assert!(nmse(&got, &expected) < rounding, "{k_type:?} {v_type:?} {style:?}");
                got
            });
        }
    }
}

#[test]
fn heads_that_cannot_be_cut_into_blocks_are_refused() {
    let layers = vec![KvHeads { n: 1, dims: HeadDims::all(80) }];
    let mut shape = KvShape { layers, n_pages: 1, k_type: KvType::Q8_0, v_type: KvType::F16 };
    for name in ["k_type", "v_type"] {
        let error =
            CpuBackend::new(Memory::default()).alloc_kv(&shape).err().expect("80 is no multiple of 32");
        let sentence = format!(
            "{name} is q8_0, which has a scale for each 32 components, but the model's head_dim is 80"
        );
        assert!(matches!(&error, Error::InvalidArgument(m) if m.starts_with(&sentence)), "{error}");
        (shape.k_type, shape.v_type) = (shape.v_type, shape.k_type);
    }
    let huge = KvShape { n_pages: usize::MAX / 2, k_type: KvType::F16, v_type: KvType::F16, ..shape };
    assert!(matches!(CpuBackend::new(Memory::default()).alloc_kv(&huge), Err(Error::NoMemory(_))));
}
