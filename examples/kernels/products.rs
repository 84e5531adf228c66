//! Products of weights with activations, as the backend calls them: packed groups of bytes, of 16-bit integers ("wide")
//! or of numbers where the level has products for them, rows otherwise.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

use std::hint::black_box;

use ember::kernels::{I16Block, Kernels, MANY, PackedNumbers, PackedPair, PackedProduct};
use ember::quant::packed::{COLS, Group, ROWS};
use ember::quant::{Dot, FORMATS, FormatInfo, Q8Block};
use memmap2::MmapMut;

use crate::peaks::{BEYOND_CACHES, IN_CACHES, shortest};

/// Length of a row.
const N_COLS: usize = 2048;
/// Activation vectors of a matrix product.
const N_VECTORS: usize = 256;
/// Activation vectors that are multiplied with all rows before the next ones are.
const BLOCK: usize = 64;
/// Rows that are expanded and multiplied together; they divide [`ROWS`].
const PANEL: usize = 8;

/// Vectors of sequences that are decoded together.
const N_SEQUENCES: usize = 8;

/// Prints a line for each format: what a vector reads from memory and from caches, what eight vectors multiply with weights in
/// memory and in caches, and what a matrix does.
pub fn measure(kernels: &'static Kernels, format: Option<&str>, threads: usize) {
    let (name, of_8) = (kernels.isa.name(), format!("{N_SEQUENCES}: GMAC/s"));
    println!(
        "{name:>12} {:>10} {:>10} {of_8:>10} {:>10} {:>10} {:>10}",
        "GB/s", "of cache", "of cache", "GMAC/s", "of cache"
    );
    for info in FORMATS.iter().filter(|info| format.is_none_or(|name| name == info.name)) {
        let work = Work::new(kernels, info);
        let (fit, all) = (IN_CACHES / work.group_bytes, BEYOND_CACHES / work.group_bytes / threads);
        let gb_s = |n_groups: usize, n_times: usize| {
            let weights = Weights::new(n_groups * work.group_bytes, threads);
            let seconds = shortest(threads, 3, |thread| {
                (0..n_times).for_each(|_| work.run(weights.of(thread), 1));
            });
            (weights.len * threads * n_times) as f64 / seconds / 1e9
        };
        let gmac_s = |n_groups: usize, n_vectors: usize, n_times: usize| {
            let weights = Weights::new(n_groups * work.group_bytes, threads);
            let seconds = shortest(threads, 3, |thread| {
                (0..n_times).for_each(|_| work.run(weights.of(thread), n_vectors));
            });
            (n_groups * ROWS * N_COLS * n_vectors * threads * n_times) as f64 / seconds / 1e9
        };
        let path = match work.path {
            Path::Bytes(_) => "packed",
            Path::Wide(_) => "wide",
            Path::Numbers(_) => "numbers",
            Path::Rows(_) => "rows",
        };
        println!(
            "{:>12} {:10.1} {:10.1} {:10.1} {:10.1} {:10.1} {:10.1}  {path}",
            info.name,
            gb_s(all.max(1), 1),
            gb_s(fit, 20),
            gmac_s(all.max(1), N_SEQUENCES, 1),
            gmac_s(fit, N_SEQUENCES, 20),
            gmac_s(all.max(1), N_VECTORS, 1),
            gmac_s(fit, N_VECTORS, 5)
        );
    }
}

/// Products with packed groups, and vectors rounded for them.
struct Packed<B> {
    product: PackedProduct<B>,
    pair: Option<PackedPair<B>>,
    x: Vec<B>,
}

/// How a format is multiplied.
enum Path {
    Bytes(Packed<Q8Block>),
    Wide(Packed<I16Block>),
    Numbers(PackedNumbers),
    Rows(Vec<Q8Block>),
}

/// Products with one format.
struct Work {
    kernels: &'static Kernels,
    info: &'static FormatInfo,
    path: Path,
    /// Bytes of sixteen rows.
    group_bytes: usize,
    x: Vec<f32>,
}

impl Work {
    fn new(kernels: &'static Kernels, info: &'static FormatInfo) -> Work {
        let format = info.format as usize;
        let x: Vec<f32> = (0..N_VECTORS * N_COLS).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
        let mut x_q8 = vec![Q8Block::ZERO; x.len() / Q8Block::LEN];
        (kernels.quantize_activations)(&x, &mut x_q8);
        let wide = kernels.wide.filter(|wide| wide.packing(info.format).is_some());
        let path = if let Some(product) = kernels.packed[format] {
            Path::Bytes(Packed { product, pair: kernels.pairs[format], x: x_q8 })
        } else if let Some(wide) = wide {
            let mut x_wide = vec![I16Block::ZERO; x.len() / I16Block::LEN];
            (wide.round)(&x, &mut x_wide);
            Path::Wide(Packed { product: wide.product, pair: wide.pair, x: x_wide })
        } else if let Some(product) = kernels.numbers[format] {
            Path::Numbers(product)
        } else {
            Path::Rows(x_q8)
        };
        let group_bytes = match (&path, kernels.packing(info.format)) {
            (Path::Rows(_), _) | (_, None) => ROWS * info.format.row_bytes(N_COLS),
            (_, Some(packing)) => packing.group_bytes(N_COLS),
        };
        Work { kernels, info, path, group_bytes, x }
    }

    /// Multiplies all groups in `weights` with `n` vectors.
    fn run(&self, weights: &[u8], n: usize) {
        match &self.path {
            Path::Bytes(packed) => self.run_packed(packed, weights, n),
            Path::Wide(packed) => self.run_packed(packed, weights, n),
            Path::Numbers(product) => self.run_numbers(*product, weights, n),
            Path::Rows(x_q8) => self.run_rows(x_q8, weights, n),
        }
    }

    fn run_packed<B>(&self, packed: &Packed<B>, weights: &[u8], n: usize) {
        let n_pieces = N_COLS / COLS;
        let mut out = [[0.0; BLOCK * ROWS]; 2];
        for x in packed.x[..n * n_pieces].chunks(BLOCK * n_pieces) {
            let [low, high] = out.each_mut().map(|out| &mut out[..x.len() / n_pieces * ROWS]);
            let mut groups = weights.chunks_exact(self.group_bytes).enumerate().map(|(i, bytes)| {
                let n_before = i * self.group_bytes;
                let n_following = weights.len() - n_before - self.group_bytes;
                Group { n_before, n_following, ..Group::alone(self.info.format, bytes, n_pieces) }
            });
            while let Some(group) = groups.next() {
                let pair = packed.pair.filter(|_| x.len() / n_pieces >= MANY);
                match pair.and_then(|pair| Some((pair, groups.next()?))) {
                    Some((pair, other)) => pair([&group, &other], x, [&mut *low, &mut *high]),
                    None => (packed.product)(&group, x, low),
                }
                black_box((&low, &high));
            }
        }
    }

    fn run_numbers(&self, product: PackedNumbers, weights: &[u8], n: usize) {
        if n == 1 {
            let mut out = vec![0.0; weights.len() / self.group_bytes * ROWS];
            product(weights, &self.x[..N_COLS], N_COLS, &mut out);
            black_box(&out);
            return;
        }
        let mut out = [0.0; BLOCK * ROWS];
        for x in self.x[..n * N_COLS].chunks(BLOCK * N_COLS) {
            let out = &mut out[..x.len() / N_COLS * ROWS];
            for group in weights.chunks_exact(self.group_bytes) {
                product(group, x, N_COLS, out);
                black_box(&out);
            }
        }
    }

    fn run_rows(&self, x_q8: &[Q8Block], weights: &[u8], n: usize) {
        let format = self.info.format as usize;
        let row_bytes = self.group_bytes / ROWS;
        let mut panel = vec![0.0; PANEL * N_COLS];
        let mut out = [0.0; PANEL * BLOCK];
        for first in (0..n).step_by(BLOCK) {
            let last = n.min(first + BLOCK);
            match self.kernels.dot[format] {
                Dot::Q8(dot) => {
                    let n_blocks = N_COLS / Q8Block::LEN;
                    for row in weights.chunks_exact(row_bytes) {
                        for x in x_q8[first * n_blocks..last * n_blocks].chunks_exact(n_blocks) {
                            black_box(dot(row, x));
                        }
                    }
                }
                Dot::F32 => {
                    for rows in weights.chunks_exact(PANEL * row_bytes) {
                        for (row, values) in rows.chunks_exact(row_bytes).zip(panel.chunks_exact_mut(N_COLS))
                        {
                            (self.kernels.expand[format])(row, values);
                        }
                        let (x, out) =
                            (&self.x[first * N_COLS..last * N_COLS], &mut out[..PANEL * (last - first)]);
                        (self.kernels.dots_f32)(&panel, x, N_COLS, out);
                        black_box(out);
                    }
                }
            }
        }
    }
}

/// Bytes that are numbers of no extreme size in every format, aligned as packed weights are; some for each thread.
struct Weights {
    bytes: MmapMut,
    /// The first aligned byte.
    start: usize,
    /// Bytes of each thread, and how far those of two threads are apart.
    len: usize,
    stride: usize,
}

/// Alignment of packed weights.
const ALIGN: usize = 64;

impl Weights {
    fn new(len: usize, threads: usize) -> Weights {
        let stride = len.next_multiple_of(ALIGN);
        let mut state = 1u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A binary16 whose upper byte is at most 0x3F is below 2.
            (state >> 24) as u8 & 0x3F
        };
        let some: Vec<u8> = (0..65_521).map(|_| byte()).collect();
        let mut bytes = MmapMut::map_anon(stride * threads + ALIGN).expect("memory");
        // Where the system has large pages, they are what weights are packed into; elsewhere this does nothing.
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        for part in bytes.chunks_mut(some.len()) {
            part.copy_from_slice(&some[..part.len()]);
        }
        Weights { start: bytes.as_ptr().align_offset(ALIGN), bytes, len, stride }
    }

    fn of(&self, thread: usize) -> &[u8] {
        &self.bytes[self.start + thread * self.stride..][..self.len]
    }
}
