use super::*;

const KV_HEADS: usize = 3;
const PAGES: usize = 12;

/// A store of `PAGES` pages and the element of position `p` of a sequence with this page table.
struct Store {
    values: Vec<f32>,
    halves: Vec<f16>,
    page_len: usize,
    dim: usize,
}

impl Store {
    /// Values that a binary16 holds exactly, so that both stores mean the same.
    fn new(page_len: usize, dim: usize, seed: u32) -> Store {
        let halves = halves(&noise(PAGES * KV_HEADS * page_len * dim, seed));
        Store { values: halves.iter().map(|h| h.to_f32()).collect(), halves, page_len, dim }
    }

    fn row(&self, pages: &[u32], kv_head: usize, position: usize) -> &[f32] {
        let page = pages[position / self.page_len] as usize;
        let row = (page * KV_HEADS + kv_head) * self.page_len + position % self.page_len;
        &self.values[row * self.dim..][..self.dim]
    }
}

fn naive(head: &AttnHead<'_>, k: &Store, v: &Store) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let scores: Vec<f64> = (head.begin..head.end)
        .map(|p| f64::from(head.scale) * dot(head.q, k.row(head.pages, head.kv_head, p)))
        .map(|s| head.softcap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh()))
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
    let mut out = vec![0.0; v.dim];
    for (p, score) in (head.begin..head.end).zip(&scores) {
        for (out, &v) in out.iter_mut().zip(v.row(head.pages, head.kv_head, p)) {
            *out += (score - max).exp() / sum * f64::from(v);
        }
    }
    out
}

/// A shuffled page table.
const TABLE: [u32; 5] = [7, 2, 11, 0, 5];

fn check(page_len: usize, dim: usize, v_dim: usize, scale: f32) {
    let (k, v) = (Store::new(page_len, dim, 1), Store::new(page_len, v_dim, 2));
    let q = noise(dim, 3);
    let full = page_len * TABLE.len();
    let ranges = [
        (0, 1),
        (0, page_len),
        (0, page_len + 1),
        (0, full),
        (3, full - 1),
        (page_len, full),
        (full - 1, full),
    ];
    for (kernels, (begin, end)) in tables().flat_map(|t| ranges.map(|r| (t, r))) {
        for (kv_head, softcap) in [(0, None), (2, Some(5.0)), (1, None)] {
            for (k_store, v_store) in [
                (KvStore::F32(&k.values), KvStore::F32(&v.values)),
                (KvStore::F16(&k.halves), KvStore::F16(&v.halves)),
                (KvStore::F32(&k.values), KvStore::F16(&v.halves)),
            ] {
                let (q, pages) = (&q[..], &TABLE[..]);
                let (k_arg, v_arg) = (k_store, v_store);
                let head = AttnHead {
                    q,
                    k: k_arg,
                    v: v_arg,
                    pages,
                    page_len,
                    kv_heads: KV_HEADS,
                    kv_head,
                    begin,
                    end,
                    scale,
                    softcap,
                };
                let mut out = vec![f32::NAN; v_dim];
                (kernels.attention)(&head, &mut out);
                for (got, expected) in out.iter().zip(naive(&head, &k, &v)) {
                    assert_close(
                        *got,
                        expected,
                        2e-6,
                        &format!("page_len {page_len} dim {dim} {begin}..{end}"),
                    );
                }
            }
        }
    }
}

#[test]
fn head_dimensions() {
    for dim in [8, 64, 80, 256] {
        check(16, dim, dim, 1.0 / (dim as f32).sqrt());
    }
    check(16, 24, 40, 0.2);
}

#[test]
fn page_lengths_and_sharp_scores() {
    for page_len in [1, 7, 64, 100, 128] {
        check(page_len, 8, 8, 4.0);
    }
}

fn head<'a>(q: &'a [f32], k: &'a [f32], v: &'a [f32], end: usize) -> AttnHead<'a> {
    AttnHead {
        q,
        k: KvStore::F32(k),
        v: KvStore::F32(v),
        pages: &[0],
        page_len: 4,
        kv_heads: 1,
        kv_head: 0,
        begin: 0,
        end,
        scale: 1.0,
        softcap: None,
    }
}

#[test]
fn empty_range_and_odd_numbers() {
    for kernels in tables() {
        let mut out = [f32::NAN; 2];
        (kernels.attention)(&head(&[1.0, 2.0], &[0.0; 8], &[1.0; 8], 0), &mut out);
        assert_eq!(out, [0.0, 0.0]);
        (kernels.attention)(&head(&[], &[], &[], 4), &mut []);
        let mut k = [0.0; 8];
        k[2] = f32::NEG_INFINITY;
        (kernels.attention)(&head(&[1.0, 2.0], &k, &[1.0, 3.0, 5.0, 7.0, 1.0, 3.0, 1.0, 3.0], 4), &mut out);
        assert_eq!(out, [1.0, 3.0], "a key of -inf has no weight");
        k[2] = f32::NAN;
        (kernels.attention)(&head(&[1.0, 2.0], &k, &[1.0; 8], 4), &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
    }
}

#[test]
fn pages_outside_the_range_are_not_looked_at() {
    for kernels in tables() {
        let (k, v) = ([0.5; 8], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let mut head = head(&[1.0, 1.0], &k, &v, 6);
        head.pages = &[u32::MAX, 0, u32::MAX];
        head.begin = 5;
        let mut out = [0.0; 2];
        (kernels.attention)(&head, &mut out);
        assert_eq!(out, [3.0, 4.0]);
    }
}
