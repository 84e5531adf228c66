use super::*;
use crate::kernels::attention::{CHUNK_LEN, PAGE_LEN};

const KV_HEADS: usize = 3;
const PAGES: usize = 40;

/// A store of `PAGES` pages in both element types, of values that a binary16 holds exactly.
struct Store {
    values: Vec<f32>,
    halves: Vec<f16>,
    /// From one token's vector to the next one's, and from one component to the next.
    strides: (usize, usize),
    dim: usize,
}

impl Store {
    fn keys(dim: usize) -> Store {
        Store::new(dim, 1, (1, PAGE_LEN))
    }

    fn values(dim: usize) -> Store {
        Store::new(dim, 2, (dim, 1))
    }

    fn new(dim: usize, seed: u32, strides: (usize, usize)) -> Store {
        let halves = halves(&noise(PAGES * KV_HEADS * PAGE_LEN * dim, seed));
        Store { values: halves.iter().map(|h| h.to_f32()).collect(), halves, strides, dim }
    }

    fn f32(&self) -> KvStore<'_> {
        store(KvData::F32(&self.values), self.dim)
    }

    fn f16(&self) -> KvStore<'_> {
        store(KvData::F16(&self.halves), self.dim)
    }

    /// Where component `d` of position `p` is.
    fn at(&self, pages: &[u32], kv_head: usize, p: usize, d: usize) -> usize {
        let head = (pages[p / PAGE_LEN] as usize * KV_HEADS + kv_head) * PAGE_LEN * self.dim;
        head + p % PAGE_LEN * self.strides.0 + d * self.strides.1
    }

    fn row(&self, pages: &[u32], kv_head: usize, p: usize) -> Vec<f64> {
        (0..self.dim).map(|d| f64::from(self.values[self.at(pages, kv_head, p, d)])).collect()
    }
}

/// A cache of one layer's keys or values alone.
fn store(data: KvData<'_>, dim: usize) -> KvStore<'_> {
    KvStore { data, page_stride: KV_HEADS * PAGE_LEN * dim, offset: 0 }
}

fn naive(tile: &AttnTile<'_>, i: usize, k: &Store, v: &Store) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f64]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * b).sum::<f64>();
    let seen = tile.seen_by(i);
    let scores: Vec<f64> = seen
        .clone()
        .map(|p| f64::from(tile.scale) * dot(tile.query(i), &k.row(tile.pages, tile.kv_head, p)))
        .map(|s| tile.softcap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh()))
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
    let mut out = vec![0.0; v.dim];
    for (p, score) in seen.zip(&scores) {
        for (out, v) in out.iter_mut().zip(v.row(tile.pages, tile.kv_head, p)) {
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
    let (n, dim) = (tile.n_queries(), tile.head_dim);
    let mut buffers = [(); 2].map(|()| vec![f32::NAN; AttnState::len(n, dim)]);
    let [state, part] = &mut buffers;
    let (mut state, mut part) = (AttnState::of(state, n, dim), AttnState::of(part, n, dim));
    state.clear();
    for chunk in tile.chunks() {
        (kernels.attention)(tile, tile.positions(chunk), &mut part);
        state.merge(&part, dim);
    }
    let mut out = vec![f32::NAN; n * dim];
    out.chunks_exact_mut(dim).enumerate().for_each(|(i, out)| state.finish(i, out));
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
        head_dim,
        k,
        v,
        pages,
        kv_head: 1,
        position,
        causal: true,
        end: position + n_tokens,
        window: None,
        scale: 1.0 / (head_dim as f32).sqrt(),
        softcap: None,
    }
}

#[test]
fn tiles_agree_with_the_formula() {
    let pages = table();
    for dim in [8, 24, 40, 64, 80, 256] {
        let (k, v) = (Store::keys(dim), Store::values(dim));
        let q = noise(64 * dim, 3);
        let shapes = [(1, 1, 0), (3, 1, 31), (3, 5, 30), (4, 1, 1000), (1, 48, 20), (8, 7, CHUNK_LEN - 3)];
        for (kernels, (group, n_tokens, position)) in tables().flat_map(|t| shapes.map(|s| (t, s))) {
            for (window, softcap, causal, scale) in [
                (None, None, true, 0.3),
                (Some(1), None, true, 0.3),
                (Some(33), Some(5.0), true, 0.3),
                (None, Some(2.0), false, 4.0),
            ] {
                for stores in [(k.f32(), v.f32()), (k.f16(), v.f16())] {
                    let shape = (group, n_tokens, position, dim);
                    let tile = AttnTile { window, softcap, causal, scale, ..tile(&q, &pages, stores, shape) };
                    let out = attend(kernels, &tile);
                    for (i, out) in out.chunks_exact(dim).enumerate() {
                        for (got, expected) in out.iter().zip(naive(&tile, i, &k, &v)) {
                            let what = format!("{} dim {dim}, query {i} of {shape:?}", kernels.isa.name());
                            assert_close(*got, expected, 3e-6, &what);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_query_has_the_same_bits_in_every_tile() {
    let (pages, dim) = (table(), 64);
    let (k, v) = (Store::keys(dim), Store::values(dim));
    let stores = (k.f16(), v.f16());
    let q = noise(60 * dim, 3);
    for (kernels, window) in tables().flat_map(|t| [None, Some(40)].map(|w| (t, w))) {
        let whole = AttnTile { window, ..tile(&q, &pages, stores, (3, 20, CHUNK_LEN - 10, dim)) };
        let expected = attend(kernels, &whole);
        for (t, n_tokens) in [(0, 1), (7, 1), (19, 1), (3, 5), (13, 7)] {
            let position = whole.position + t;
            let part =
                AttnTile { q: &q[t * whole.stride..], n_tokens, position, end: position + n_tokens, ..whole };
            assert_eq!(attend(kernels, &part), expected[t * 3 * dim..(t + n_tokens) * 3 * dim]);
        }
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
            ..tile(&q, &[0], (store(KvData::F32(&k), dim), store(KvData::F32(&v), dim)), (1, 1, 0, dim))
        };
        let mut buffer = vec![f32::NAN; AttnState::len(1, dim)];
        let mut state = AttnState::of(&mut buffer, 1, dim);
        (kernels.attention)(&none, 0..0, &mut state);
        let mut out = vec![f32::NAN; dim];
        state.finish(0, &mut out);
        assert_eq!(out, vec![0.0; dim], "nothing to see");
        // Token 1 has an infinite key of weight 0 and token 2 is NaN, which token 3 sees, but tokens 0 and 1 do not.
        let q = vec![1.0; 4 * dim];
        k[head + 1] = f32::NEG_INFINITY;
        v[head + 2 * dim] = f32::NAN;
        v[head + 3 * dim..head + 4 * dim].fill(f32::INFINITY);
        let stores = (store(KvData::F32(&k), dim), store(KvData::F32(&v), dim));
        let out = attend(kernels, &tile(&q, &[0], stores, (1, 4, 0, dim)));
        assert_eq!(out[..2 * dim], [0.25; 2 * 16], "{}", kernels.isa.name());
        assert!(out[2 * dim].is_nan() && out[2 * dim + 1] == 0.25);
        assert!(out[3 * dim].is_nan() && out[3 * dim + 1] == f32::INFINITY);
        k[head + 1] = f32::NAN;
        let out = attend(
            kernels,
            &tile(&q, &[0], (store(KvData::F32(&k), dim), store(KvData::F32(&v), dim)), (1, 4, 0, dim)),
        );
        assert!(out[0] == 0.25 && out[dim..].iter().all(|x| x.is_nan()), "a key that is no number");
    }
}

#[test]
fn pages_that_nobody_sees_are_not_looked_at() {
    let dim = 8;
    let (k, v) = (Store::keys(dim), Store::values(dim));
    let q = noise(2 * dim, 1);
    for kernels in tables() {
        let stores = (k.f32(), v.f32());
        let pages = [u32::MAX, 5, u32::MAX];
        let seen = AttnTile { window: Some(3), ..tile(&q, &pages, stores, (1, 2, PAGE_LEN + 2, dim)) };
        let out = attend(kernels, &seen);
        for (got, expected) in out.iter().zip(naive(&seen, 0, &k, &v)) {
            assert_close(*got, expected, 3e-6, "a window");
        }
    }
}
