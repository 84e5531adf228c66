use super::*;
use crate::kernels::attention::{CHUNK_LEN, Growth, HALF, KvLayout, PAGE_LEN};

const KV_HEADS: usize = 3;
const PAGES: usize = 40;

/// A store of `PAGES` pages of one layer's keys or values, with exactly the values listed beside it.
struct Store {
    kv_type: KvType,
    /// Its memory.
    words: Vec<f32>,
    values: Vec<f32>,
    /// From one token's vector to the next one's, and from one component to the next.
    strides: (usize, usize),
    dim: usize,
}

impl Store {
    fn keys(kv_type: KvType, dim: usize) -> Store {
        Store::new(kv_type, dim, 1, (1, PAGE_LEN))
    }

    fn values(kv_type: KvType, dim: usize) -> Store {
        Store::new(kv_type, dim, 2, (dim, 1))
    }

    fn new(kv_type: KvType, dim: usize, seed: u32, strides: (usize, usize)) -> Store {
        let block = PAGE_LEN * dim;
        let mut values = noise(PAGES * KV_HEADS * block, seed);
        let mut words = vec![0.0f32; PAGES * KV_HEADS * kv_type.block_bytes(dim) / 4];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let blocks = values.chunks_exact_mut(block).zip(bytes.chunks_exact_mut(kv_type.block_bytes(dim)));
        for (values, bytes) in blocks {
            match kv_type {
                KvType::F32 => bytes.copy_from_slice(bytemuck::cast_slice(values)),
                KvType::F16 => {
                    let halves = halves(values);
                    bytes.copy_from_slice(bytemuck::cast_slice(&halves));
                    values.iter_mut().zip(&halves).for_each(|(x, half)| *x = half.to_f32());
                }
                KvType::Q8_0 => {
                    let (codes, scales) = bytes.split_at_mut(block);
                    let scales: &mut [f16] = bytemuck::cast_slice_mut(scales);
                    let some = values.iter().map(|x| f16::from_f32((x + 1.1) / 200.0));
                    scales.iter_mut().zip(some).for_each(|(scale, x)| *scale = x);
                    for (i, (x, code)) in values.iter_mut().zip(codes).enumerate() {
                        let (token, d) = match strides.0 {
                            1 => (i % PAGE_LEN, i / PAGE_LEN),
                            _ => (i / dim, i % dim),
                        };
                        let q = (*x * 127.0) as i8;
                        *code = q.cast_unsigned();
                        *x = f32::from(q) * scales[d / 32 * PAGE_LEN + token].to_f32();
                    }
                }
                KvType::I16 => {
                    let (codes, units) = bytes.split_at_mut(2 * block);
                    let codes: &mut [i16] = bytemuck::cast_slice_mut(codes);
                    let units: &mut [f32] = bytemuck::cast_slice_mut(units);
                    for (token, unit) in units.iter_mut().enumerate() {
                        let at = |d: usize| token * strides.0 + d * strides.1;
                        // No two tokens in a row have the same unit.
                        let part = 0.5f32.powi(token as i32 * 5 % 13);
                        let vector: Vec<f32> = (0..dim).map(|d| values[at(d)] * part).collect();
                        let mut whole = vec![0; dim];
                        *unit = (scalar::SCALAR.unit_i16)(&vector);
                        (scalar::SCALAR.narrow_i16)(&vector, *unit, &mut whole);
                        for (d, &code) in whole.iter().enumerate() {
                            values[at(d)] = f32::from(code) * *unit;
                            let pair = match strides.0 {
                                1 => (d / 2 * PAGE_LEN + token) * 2 + d % 2,
                                _ => (token % HALF * dim + d) * 2 + token / HALF,
                            };
                            codes[pair] = code;
                        }
                    }
                }
            }
        }
        Store { kv_type, words, values, strides, dim }
    }

    fn store(&self) -> KvStore<'_> {
        store(self.kv_type, &self.words, self.dim)
    }

    /// Where component `d` of position `p` is.
    fn at(&self, pages: &[u32], kv_head: usize, p: usize, d: usize) -> usize {
        let len = self.kv_type.block_bytes(self.dim);
        let start = self.store().layout.start(pages[p / PAGE_LEN] as usize, kv_head * len, len);
        start / len * PAGE_LEN * self.dim + p % PAGE_LEN * self.strides.0 + d * self.strides.1
    }

    fn row(&self, pages: &[u32], kv_head: usize, p: usize) -> Vec<f64> {
        (0..self.dim).map(|d| f64::from(self.values[self.at(pages, kv_head, p, d)])).collect()
    }
}

/// A cache of one layer's keys or values alone.
fn store(kv_type: KvType, words: &[f32], dim: usize) -> KvStore<'_> {
    let (bytes, block_bytes) = (bytemuck::cast_slice(words), kv_type.block_bytes(dim));
    let page_bytes = KV_HEADS * block_bytes;
    // Runs of three pages, and a shorter one at the end.
    let layout =
        KvLayout { run: 3, gap: 0, ..KvLayout::new(bytes.len() / page_bytes, page_bytes, block_bytes) };
    KvStore { bytes, kv_type, layout, offset: 0 }
}

fn naive(tile: &AttnTile<'_>, i: usize, k: &Store, v: &Store) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f64]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * b).sum::<f64>();
    let seen = tile.seen_by(i);
    let position = (tile.position + i / tile.group) as f64;
    let grown = |g: Growth| {
        1.0 + f64::from(g.factor) * (1.0 + ((position + g.ahead as f64) / g.len as f64).floor()).ln()
    };
    let scale = f64::from(tile.scale) * tile.growth.map_or(1.0, grown);
    let scores: Vec<f64> = seen
        .clone()
        .map(|p| scale * dot(tile.query(i), &k.row(tile.pages, tile.kv_head, p)))
        .map(|s| tile.softcap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh()))
        .collect();
    let query = (tile.position + i / tile.group) as f64;
    let head = tile.head + i % tile.group;
    let added = |p: usize| match tile.bias {
        None => 0.0,
        Some(DistanceBias::Slopes(slopes)) => -f64::from(slopes[head]) * (p as f64 - query).abs(),
        Some(DistanceBias::Table(table, len)) => {
            let far = (len / 2) as f64;
            f64::from(table[head * len + ((p as f64 - query).clamp(-far, far) + far) as usize])
        }
    };
    let scores: Vec<f64> = seen.clone().zip(scores).map(|(p, score)| score + added(p)).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
    let value = |p| match tile.dims.v_at {
        Some(at) => k.row(tile.pages, tile.kv_head, p)[at..at + tile.dims.v].to_vec(),
        None => v.row(tile.pages, tile.kv_head, p),
    };
    let mut out = vec![0.0; tile.dims.v];
    for (p, score) in seen.zip(&scores) {
        for (out, v) in out.iter_mut().zip(value(p)) {
            *out += (score - max).exp() / sum * v;
        }
    }
    out
}

/// A shuffled page table.
fn table() -> Vec<u32> {
    (0..PAGES as u32).map(|i| i * 7 % PAGES as u32).collect()
}

/// The finished attention of all queries.
fn attend(kernels: &Kernels, tile: &AttnTile<'_>) -> Vec<f32> {
    let (n, dims) = (tile.n_queries(), tile.dims);
    let mut buffers = [(); 2].map(|()| vec![f32::NAN; AttnState::len(n, dims)]);
    let [state, part] = &mut buffers;
    let (mut state, mut part) = (AttnState::of(state, n, dims), AttnState::of(part, n, dims));
    state.clear();
    for chunk in tile.chunks() {
        (kernels.attention)(tile, tile.positions(chunk), &mut part);
        state.merge(&part);
    }
    let mut out = vec![f32::NAN; n * dims.v];
    out.chunks_exact_mut(dims.v).enumerate().for_each(|(i, out)| state.finish(i, None, out));
    out
}

/// `group` heads of `n_tokens` tokens from `position` on.
fn tile<'a>(
    q: &'a [f32],
    pages: &'a [u32],
    (k, v): (KvStore<'a>, KvStore<'a>),
    (group, n_tokens, position, head_dim): (usize, usize, usize, usize),
) -> AttnTile<'a> {
    AttnTile {
        q,
        stride: group * head_dim,
        group,
        n_tokens,
        dims: HeadDims::all(head_dim),
        k,
        v,
        pages,
        kv_head: 1,
        position,
        causal: true,
        from: 0,
        end: position + n_tokens,
        window: None,
        chunked: false,
        scale: 1.0 / (head_dim as f32).sqrt(),
        growth: None,
        softcap: None,
        bias: None,
        head: 0,
    }
}

/// Every type of keys and every type of values.
const TYPES: [(KvType, KvType); 8] = [
    (KvType::F32, KvType::F32),
    (KvType::F16, KvType::F16),
    (KvType::Q8_0, KvType::Q8_0),
    (KvType::Q8_0, KvType::F16),
    (KvType::F32, KvType::Q8_0),
    (KvType::I16, KvType::I16),
    (KvType::I16, KvType::F32),
    (KvType::F16, KvType::I16),
];

/// Those that heads of this length can have.
fn types(dim: usize) -> impl Iterator<Item = (KvType, KvType)> {
    let fits = move |t: KvType| match t {
        KvType::F16 | KvType::F32 => true,
        KvType::Q8_0 => dim.is_multiple_of(32),
        KvType::I16 => dim.is_multiple_of(16),
    };
    TYPES.into_iter().filter(move |&(k, v)| fits(k) && fits(v))
}

#[test]
fn tiles_agree_with_the_formula() {
    let pages = table();
    for (dim, types) in [8, 24, 32, 40, 64, 80, 96, 256].map(|dim| (dim, types(dim))) {
        let q = noise(64 * dim, 3);
        for (k, v) in types.map(|(k, v)| (Store::keys(k, dim), Store::values(v, dim))) {
            for kernels in tables() {
                check_shapes(kernels, &q, &pages, (&k, &v), dim);
            }
        }
    }
}

fn check_shapes(kernels: &Kernels, q: &[f32], pages: &[u32], (k, v): (&Store, &Store), dim: usize) {
    // Operands of integer products are rounded to integers.
    let rounded = kernels.isa != Isa::Scalar && [k, v].iter().any(|store| store.kv_type == KvType::I16);
    let shapes = [(1, 1, 0), (3, 1, 31), (3, 5, 30), (4, 1, 1000), (1, 48, 20), (8, 7, CHUNK_LEN - 3)];
    for (group, n_tokens, position) in shapes {
        for (window, chunked, softcap, causal, scale, growth) in [
            (None, false, None, true, 0.3, None),
            (Some(1), false, None, true, 0.3, None),
            (Some(33), false, Some(5.0), true, 0.3, Some(Growth { len: 7, factor: 0.2, ahead: 0 })),
            (Some(33), true, None, true, 0.3, Some(Growth { len: 7, factor: 0.2, ahead: 1 })),
            (None, false, Some(2.0), false, 4.0, None),
            (Some(33), false, None, false, 0.3, None),
        ] {
            let tolerance = if rounded { 3e-4 + 5e-4 * f64::from(scale) } else { 3e-6 };
            let shape = (group, n_tokens, position, dim);
            let stores = (k.store(), v.store());
            let tile =
                AttnTile { window, chunked, softcap, causal, scale, growth, ..tile(q, pages, stores, shape) };
            // Other entries of the table may be invalid.
            let seen = tile.seen().start / PAGE_LEN..tile.seen().end.div_ceil(PAGE_LEN);
            let mut own = vec![u32::MAX; pages.len()];
            own[seen.clone()].copy_from_slice(&pages[seen]);
            let out = attend(kernels, &AttnTile { pages: &own, ..tile });
            check_tile(kernels, &tile, (k, v), &out, tolerance);
            let (slopes, table) = ([0.5, 0.25, 0.1, 0.03, 0.7, 0.0, 0.2, 0.4, 1.5], noise(9 * 41, 9));
            // Long sequences take long: once is enough.
            let biases = if position < 40 || (!causal && window.is_some()) { 2 } else { 0 };
            for bias in
                [DistanceBias::Slopes(&slopes), DistanceBias::Table(&table, 41)].into_iter().take(biases)
            {
                let tile = AttnTile { bias: Some(bias), head: 1, ..tile };
                check_tile(kernels, &tile, (k, v), &attend(kernels, &tile), tolerance);
            }
        }
    }
}

fn check_tile(kernels: &Kernels, tile: &AttnTile<'_>, (k, v): (&Store, &Store), out: &[f32], tolerance: f64) {
    let (isa, group, dim) = (kernels.isa.name(), tile.group, tile.dims.v);
    for (i, out) in out.chunks_exact(dim).enumerate() {
        for (got, expected) in out.iter().zip(naive(tile, i, k, v)) {
            let what = format!("{isa}, {:?}, {:?}, query {i} of {group} heads", k.kv_type, v.kv_type);
            assert_close(*got, expected, tolerance, &what);
        }
    }
}

#[test]
fn values_that_are_parts_of_keys_agree_with_the_formula() {
    let (pages, none) = (table(), KvStore { bytes: &[], offset: usize::MAX, ..store(KvType::F32, &[], 32) });
    for (k, v, at) in [(32usize, 16usize, 16), (96, 64, 32), (80, 64, 0), (40, 30, 6), (24, 7, 2)] {
        let q = noise(60 * k, 3);
        let fits = types(k).filter(|(kv, _)| *kv != KvType::I16 || v.is_multiple_of(16));
        for (kv_type, kernels) in fits.flat_map(|(kv, _)| tables().map(move |t| (kv, t))) {
            let keys = Store::keys(kv_type, k);
            for (group, n_tokens, position) in
                [(1, 1, 70), (4, 1, 1000), (20, 3, 30), (3, 20, CHUNK_LEN - 10)]
            {
                let plain = tile(&q, &pages, (keys.store(), none), (group, n_tokens, position, k));
                let tile = AttnTile { dims: HeadDims { k, v, v_at: Some(at) }, window: Some(500), ..plain };
                for (i, out) in attend(kernels, &tile).chunks_exact(v).enumerate() {
                    for (got, expected) in out.iter().zip(naive(&tile, i, &keys, &keys)) {
                        let what = format!("{}, {kv_type:?}, query {i}, {k}, {v}", kernels.isa.name());
                        assert_close(*got, expected, if kv_type == KvType::I16 { 5e-4 } else { 3e-6 }, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_query_has_the_same_bits_in_every_tile() {
    let (pages, dim) = (table(), 64);
    let q = noise(60 * dim, 3);
    for (k, v) in types(dim).map(|(k, v)| (Store::keys(k, dim), Store::values(v, dim))) {
        let stores = (k.store(), v.store());
        for (kernels, window) in tables().flat_map(|t| [None, Some(40)].map(|w| (t, w))) {
            let whole = AttnTile { window, ..tile(&q, &pages, stores, (3, 20, CHUNK_LEN - 10, dim)) };
            let expected = attend(kernels, &whole);
            for (t, n_tokens) in [(0, 1), (7, 1), (19, 1), (3, 5), (13, 7)] {
                let position = whole.position + t;
                let q = &q[t * whole.stride..];
                let part = AttnTile { q, n_tokens, position, end: position + n_tokens, ..whole };
                assert_eq!(attend(kernels, &part), expected[t * 3 * dim..(t + n_tokens) * 3 * dim]);
            }
        }
    }
}

/// A position that a query does not see has no part in its sum, even if it is infinite, on either side of the window.
#[test]
fn infinite_values_beyond_a_window_are_hidden() {
    let dim = 32;
    let pages: Vec<u32> = (0..3).collect();
    let q = noise(90 * dim, 1);
    for (kernels, kv_type) in
        tables().flat_map(|t| [KvType::F32, KvType::Q8_0, KvType::I16].map(|kv| (t, kv)))
    {
        let (k, mut v) = (Store::keys(kv_type, dim), Store::values(kv_type, dim));
        let expected = attend(
            kernels,
            &AttnTile { window: Some(3), ..tile(&q, &pages, (k.store(), v.store()), (1, 60, 20, dim)) },
        );
        // Position 31 becomes infinite: its first component, or the scale or unit of all of them.
        let len = KvType::block_bytes(kv_type, dim);
        let block = v.store().layout.start(0, len, len);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut v.words);
        let (at, infinity) = match kv_type {
            KvType::Q8_0 => (block + PAGE_LEN * dim + 31 * 2, &f16::INFINITY.to_ne_bytes()[..]),
            KvType::I16 => (block + PAGE_LEN * dim * 2 + 31 * 4, &f32::INFINITY.to_ne_bytes()[..]),
            _ => (block + 31 * dim * 4, &f32::INFINITY.to_ne_bytes()[..]),
        };
        bytes[at..at + infinity.len()].copy_from_slice(infinity);
        let tile = tile(&q, &pages, (k.store(), v.store()), (1, 60, 20, dim));
        let out = attend(kernels, &AttnTile { window: Some(3), ..tile });
        for (i, (out, expected)) in out.chunks(dim).zip(expected.chunks(dim)).enumerate() {
            match (31..34).contains(&(20 + i)) {
                true => assert!(!out[0].is_finite(), "query {i}"),
                false => assert_eq!(out, expected, "{}, {kv_type:?}, query {i}", kernels.isa.name()),
            }
        }
    }
}

/// A key or a value that is NaN has no part in what earlier queries see, with integers too.
#[test]
fn keys_without_a_unit_are_seen_by_later_queries_only() {
    let (dim, pages) = (48, [0, 1]);
    let q = noise(40 * dim, 3);
    for (kernels, of_keys) in tables().flat_map(|t| [true, false].map(|of_keys| (t, of_keys))) {
        let (mut k, mut v) = (Store::keys(KvType::I16, dim), Store::values(KvType::I16, dim));
        let expected = attend(kernels, &tile(&q, &pages, (k.store(), v.store()), (1, 40, 0, dim)));
        let len = KvType::I16.block_bytes(dim);
        let unit = (k.store().layout.start(0, len, len) + PAGE_LEN * dim * 2) / 4 + 20;
        (if of_keys { &mut k } else { &mut v }).words[unit] = f32::NAN;
        let out = attend(kernels, &tile(&q, &pages, (k.store(), v.store()), (1, 40, 0, dim)));
        let what = format!("{}, keys: {of_keys}", kernels.isa.name());
        assert!(out[..20 * dim] == expected[..20 * dim], "{what}");
        assert!(out[20 * dim..].iter().all(|x| x.is_nan()), "{what}");
    }
}

#[test]
fn no_positions_and_odd_numbers() {
    let dim = 16;
    for kernels in tables() {
        let (mut k, mut v) = (vec![0.5; KV_HEADS * PAGE_LEN * dim], vec![0.25; KV_HEADS * PAGE_LEN * dim]);
        let head = PAGE_LEN * dim;
        let q = noise(4 * dim, 1);
        let none = AttnTile {
            end: 0,
            causal: false,
            ..tile(&q, &[0], (store(KvType::F32, &k, dim), store(KvType::F32, &v, dim)), (1, 1, 0, dim))
        };
        let mut buffer = vec![f32::NAN; AttnState::len(1, HeadDims::all(dim))];
        let mut state = AttnState::of(&mut buffer, 1, HeadDims::all(dim));
        (kernels.attention)(&none, 0..0, &mut state);
        let mut out = vec![f32::NAN; dim];
        state.finish(0, None, &mut out);
        assert_eq!(out, vec![0.0; dim], "nothing to see");
        // Token 1 has an infinite key of weight 0 and token 2 is NaN, which token 3 sees, but tokens 0 and 1 do not.
        let q = vec![1.0; 4 * dim];
        k[head + 1] = f32::NEG_INFINITY;
        v[head + 2 * dim] = f32::NAN;
        v[head + 3 * dim..head + 4 * dim].fill(f32::INFINITY);
        let stores = (store(KvType::F32, &k, dim), store(KvType::F32, &v, dim));
        let out = attend(kernels, &tile(&q, &[0], stores, (1, 4, 0, dim)));
        assert_eq!(out[..2 * dim], [0.25; 2 * 16], "{}", kernels.isa.name());
        assert!(out[2 * dim].is_nan() && out[2 * dim + 1] == 0.25);
        assert!(out[3 * dim].is_nan() && out[3 * dim + 1] == f32::INFINITY);
        k[head + 1] = f32::NAN;
        let out = attend(
            kernels,
            &tile(&q, &[0], (store(KvType::F32, &k, dim), store(KvType::F32, &v, dim)), (1, 4, 0, dim)),
        );
        assert!(out[0] == 0.25 && out[dim..].iter().all(|x| x.is_nan()), "a key that is no number");
    }
}

#[test]
fn pages_that_nobody_sees_are_not_looked_at() {
    let dim = 8;
    let (k, v) = (Store::keys(KvType::F32, dim), Store::values(KvType::F32, dim));
    let q = noise(2 * dim, 1);
    for kernels in tables() {
        let stores = (k.store(), v.store());
        let pages = [u32::MAX, 5, u32::MAX];
        let seen = AttnTile { window: Some(3), ..tile(&q, &pages, stores, (1, 2, PAGE_LEN + 2, dim)) };
        let out = attend(kernels, &seen);
        for (got, expected) in out.iter().zip(naive(&seen, 0, &k, &v)) {
            assert_close(*got, expected, 3e-6, "a window");
        }
    }
}

#[test]
fn blocks_of_pages_do_not_overlap() {
    // Short runs; runs of a megabyte, between which there are gaps; blocks larger than a run is; of two lengths.
    for (n_pages, lens) in
        [(21, vec![64; 6]), (19, vec![4096; 40]), (5, vec![40_000; 2]), (17, vec![4096, 2176])]
    {
        let page_bytes: usize = lens.iter().sum();
        let longest = lens.iter().copied().max().unwrap_or(0);
        let layout = KvLayout::new(n_pages, page_bytes, longest);
        assert_eq!(layout.gap > 0, page_bytes * layout.run >= 1 << 20, "{layout:?}");
        let mut blocks = Vec::new();
        for page in 0..n_pages {
            let mut offset = 0;
            for len in &lens {
                let start = layout.start(page, offset, *len);
                blocks.push(start..start + len);
                offset += len;
            }
        }
        blocks.sort_by_key(|block| block.start);
        assert!(blocks.windows(2).all(|two| two[0].end <= two[1].start), "{layout:?}");
        let last = blocks.last().map(|block| block.end);
        assert!(
            last.is_some_and(|end| Some(end) == layout.total_bytes()),
            "{layout:?}, the last ends at {last:?}"
        );
    }
    assert_eq!(KvLayout::new(usize::MAX / 2, 8192, 64).total_bytes(), None);
    assert_eq!(KvLayout::new(0, 8192, 64).total_bytes(), Some(0));
}
