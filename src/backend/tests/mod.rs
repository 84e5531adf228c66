//! Every operation of the threaded backend against the scalar definition (second oracle of the crate: NMSE at most
//! 1e-7 for f32 operations, 5e-4 for quantized products), for every instruction set of this machine and
//! 1, 2 and 7 threads, which must agree bit for bit.
#![forbid(unsafe_code)]

use std::ops::DerefMut;

use super::cpu::CpuBackend;
use super::host::{HostKv, HostStates, HostWeight};
use super::threaded::{F32Products, Pack, ThreadedBackend};
use super::*;
use crate::error::Error;
use crate::kernels::{Isa, Kernels};
use crate::memory::Memory;
use crate::quant::FORMATS;
use crate::quant::tests::sample_row;
use crate::threads::ThreadPool;

/// Backends of these tests share their memory types, so one helper can run an operation on each.
pub trait Host:
    Backend<Buffer: DerefMut<Target = [f32]>, Weight = HostWeight, Kv = HostKv, States = HostStates>
{
}
impl Host for CpuBackend {}
impl Host for ThreadedBackend {}

/// Numbers between -1 and 1 that look random and are the same everywhere.
pub(super) fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state) / f64::from(u32::MAX) * 2.0 - 1.0
    };
    (0..n).map(|_| next() as f32).collect()
}

pub(super) fn buffer<B: Host>(b: &mut B, data: &[f32]) -> B::Buffer {
    let mut out = b.alloc(data.len()).expect("memory");
    b.write(&mut out, 0, data);
    out
}

pub(super) fn weight<B: Host>(
    b: &mut B,
    format: Format,
    n_rows: usize,
    n_cols: usize,
    seed: u32,
    role: WeightRole,
) -> HostWeight {
    // Eleven different rows over and over: searching for good K blocks takes time.
    let rows = sample_row(format.info(), n_rows.min(11) * n_cols, seed);
    let row_bytes = format.row_bytes(n_cols);
    let bytes: Vec<u8> = rows.iter().copied().cycle().take(n_rows * row_bytes).collect();
    let file = Arc::new(FileBytes::copy(&bytes, &Memory::default()).expect("memory"));
    let source = WeightSource { name: "w", file: &file, offset: 0, format, n_rows, n_cols, role };
    let weight = b.upload(&source).expect("memory");
    b.finish().expect("memory");
    weight
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(&g, &w)| square(f64::from(g) - f64::from(w))).sum();
    error / want.iter().map(|&w| square(f64::from(w))).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Numbers of threads; fewer under Miri, which is slow.
const N_THREADS: &[usize] = if cfg!(miri) { &[1, 2] } else { &[1, 2, 7] };

/// Runs `op` on the scalar backend and at every level on so many threads and compares what it returns.
fn compare(what: &str, tolerance: f64, op: impl Fn(&mut dyn FnMut(Runner<'_>) -> Vec<f32>) -> Vec<f32>) {
    let limits = Limits {
        n_tokens: 64,
        n_out: 64,
        n_cols: 512,
        head_dim: 96,
        n_head: 4,
        n_ctx: 1024,
        n_seq: 2,
        n_groups: 1,
        n_slots: 192,
        n_expert: 16,
    };
    let mut cpu = CpuBackend::new(Memory::default());
    cpu.reserve(&limits).expect("memory");
    let want = op(&mut |run| (run.cpu)(&mut cpu));
    assert!(want.iter().any(|&x| x != 0.0), "{what}: the definition gives only zeros");
    for isa in Isa::supported() {
        use F32Products::{Blocked, Dots};
        for (f32_products, pack) in [(Dots, Pack::Auto), (Dots, Pack::Never), (Blocked, Pack::Auto)] {
            let mut first: Option<Vec<f32>> = None;
            for &n_threads in N_THREADS {
                let kernels = Kernels::select(Some(isa));
                let pool = ThreadPool::new(n_threads, None).expect("threads");
                let mut threaded =
                    ThreadedBackend::new(kernels, pool, f32_products, Memory::default()).expect("memory");
                threaded.set_pack(pack);
                threaded.reserve(&limits).expect("memory");
                let got = op(&mut |run| (run.threaded)(&mut threaded));
                let error = nmse(&got, &want);
                let case = format!("{what}, {isa:?}, {n_threads} threads, {f32_products:?}, {pack:?}");
                assert!(error <= tolerance, "{case}: NMSE {error:.2e}");
                let one = first.get_or_insert_with(|| got.clone());
                assert!(*one == got, "{case}: one thread differs");
            }
        }
    }
}

/// The same operation for both backends.
struct Runner<'a> {
    cpu: &'a dyn Fn(&mut CpuBackend) -> Vec<f32>,
    threaded: &'a dyn Fn(&mut ThreadedBackend) -> Vec<f32>,
}

/// `check!("name", tolerance, |b| …)`: the closure's body is compiled for both backends.
macro_rules! check {
    ($what:expr, $tolerance:expr, |$b:ident| $body:expr) => {
        compare($what, $tolerance, |run| {
            run(Runner { cpu: &|$b: &mut CpuBackend| $body, threaded: &|$b: &mut ThreadedBackend| $body })
        })
    };
}

mod attention;
mod experts;
mod states;

/// `x`, of `n` rows, times `w`.
fn product<B: Host>(b: &mut B, w: &HostWeight, n: usize, x: &B::Buffer) -> Vec<f32> {
    let mut out = b.alloc(n * w.n_rows).expect("memory");
    b.matmul(x, n, Product { weight: w, out: &mut out });
    out.to_vec()
}

/// Largest error of operations in f32.
const F32: f64 = 1e-7;
/// Largest error of products with int8 activations.
const QUANTIZED: f64 = 5e-4;

#[test]
fn products_of_every_format_and_shape() {
    // Under Miri products have few rows and short blocks: it checks how tasks share the result.
    let shapes: &[_] = match cfg!(miri) {
        true => &[(1, 33, 32), (8, 18, 32)],
        false => &[(1, 1, 32), (1, 97, 64), (3, 33, 96), (8, 65, 160), (33, 90, 512)],
    };
    for info in FORMATS.iter().filter(|info| !cfg!(miri) || info.block_len <= 32) {
        for &(n, n_rows, n_cols) in shapes {
            let n_cols = usize::next_multiple_of(n_cols, info.block_len);
            let what = format!("matmul {} {n}x{n_rows}x{n_cols}", info.name);
            let tolerance = if matches!(info.dot, crate::quant::Dot::F32) { F32 } else { QUANTIZED };
            check!(&what, tolerance, |b| {
                let w = weight(b, info.format, n_rows, n_cols, 1, WeightRole::Matrix);
                let x = buffer(b, &noise(n * n_cols, 2));
                product(b, &w, n, &x)
            });
        }
    }
}

#[test]
fn products_share_one_input() {
    check!("matmul_many", QUANTIZED, |b| {
        let q = weight(b, Format::Q4_0, 96, 64, 1, WeightRole::Matrix);
        let k = weight(b, Format::F32, 33, 64, 2, WeightRole::Matrix);
        let x = buffer(b, &noise(5 * 64, 3));
        let (mut q_out, mut k_out) = (b.alloc(5 * 96).expect("memory"), b.alloc(5 * 33).expect("memory"));
        let mut products = [Product { weight: &q, out: &mut q_out }, Product { weight: &k, out: &mut k_out }];
        b.matmul_many(&x, 5, &mut products);
        [&q_out[..], &k_out[..]].concat()
    });
}

#[test]
fn products_of_what_was_just_made_and_of_what_was_changed_since() {
    check!("products of what was made", QUANTIZED, |b| {
        let w = weight(b, Format::Q8_0, 20, 96, 1, WeightRole::Matrix);
        let gain = weight(b, Format::F32, 1, 96, 2, WeightRole::Vector);
        let [mut x, mut y, mut norm] = [3, 4, 5].map(|seed| buffer(b, &noise(40 * 96, seed)));
        let mut all = Vec::new();
        all.extend(product(b, &w, 40, &x));
        b.act_mul(Activation::Silu, &mut x, &y, 40 * 96);
        all.extend(product(b, &w, 40, &x));
        all.extend(product(b, &w, 40, &y));
        all.extend(product(b, &w, 40, &x));
        b.act_mul(Activation::Gelu, &mut y, &x, 40 * 96);
        b.write(&mut y, 96, &[3.0; 96]);
        all.extend(product(b, &w, 40, &y));
        let args = AddNorm { x: &mut x, y: &y, n: 40, n_embd: 96, weight: &gain, eps: 1e-5, out: &mut norm };
        b.add_rms_norm(args);
        all.extend(product(b, &w, 40, &norm));
        all.extend(product(b, &w, 40, &x));
        all
    });
}

#[test]
fn embedding_rows() {
    for info in &FORMATS {
        let n_cols = 64usize.next_multiple_of(info.block_len);
        check!(&format!("embed {}", info.name), 0.0, |b| {
            let table = weight(b, info.format, 40, n_cols, 1, WeightRole::Matrix);
            let mut out = b.alloc(4 * n_cols).expect("memory");
            b.embed(Embed { table: &table, rows: &[39, 0, 7, 7], out: &mut out }).expect("rows in memory");
            out.to_vec()
        });
    }
}

#[test]
fn norms_of_all_rows_and_of_some() {
    for rows in [None, Some(&[4u32, 0, 4][..])] {
        let n = rows.map_or(5, <[u32]>::len);
        check!("rms_norm", F32, |b| {
            let gain = weight(b, Format::F16, 1, 96, 1, WeightRole::Vector);
            let x = buffer(b, &noise(5 * 96, 2));
            let mut out = b.alloc(n * 96).expect("memory");
            b.rms_norm(Norm { x: &x, rows, n: 5, weight: &gain, bias: None, eps: 1e-5, out: &mut out });
            out.to_vec()
        });
        check!("layer_norm", F32, |b| {
            let gain = weight(b, Format::F32, 1, 96, 1, WeightRole::Vector);
            let shift = weight(b, Format::F32, 1, 96, 3, WeightRole::Vector);
            let x = buffer(b, &noise(5 * 96, 2));
            let mut out = b.alloc(n * 96).expect("memory");
            b.layer_norm(Norm {
                x: &x,
                rows,
                n: 5,
                weight: &gain,
                bias: Some(&shift),
                eps: 1e-5,
                out: &mut out,
            });
            out.to_vec()
        });
    }
    check!("add_rms_norm", F32, |b| {
        let gain = weight(b, Format::F32, 1, 96, 1, WeightRole::Vector);
        let (mut x, y) = (buffer(b, &noise(3 * 96, 2)), buffer(b, &noise(3 * 96, 4)));
        let mut out = b.alloc(3 * 96).expect("memory");
        let (n, n_embd, eps) = (3, 96, 1e-5);
        b.add_rms_norm(AddNorm { x: &mut x, y: &y, n, n_embd, weight: &gain, eps, out: &mut out });
        [&x[..], &out[..]].concat()
    });
}

#[test]
fn norms_of_heads_that_have_their_own_gain() {
    check!("layer_norm of heads", F32, |b| {
        let gain = weight(b, Format::F32, 3, 16, 1, WeightRole::Vector);
        let x = buffer(b, &noise(6 * 16, 2));
        let mut out = b.alloc(6 * 16).expect("memory");
        let norm = Norm { x: &x, rows: None, n: 6, weight: &gain, bias: None, eps: 1e-5, out: &mut out };
        b.layer_norm(norm);
        // Row 4 is the second head of the second token.
        let unit = |row: usize, i: usize| out[row * 16 + i] / gain.f32s()[row % 3 * 16 + i];
        let mean: f32 = (0..16).map(|i| unit(4, i)).sum::<f32>() / 16.0;
        assert!(mean.abs() < 1e-5, "{mean}");
        out.to_vec()
    });
}

#[test]
fn element_wise_operations() {
    let (n, n_cols) = (3, 700);
    let len = n * n_cols;
    macro_rules! in_place {
        ($what:expr, |$b:ident, $x:ident, $y:ident| $op:expr) => {
            check!($what, F32, |$b| {
                let (mut $x, $y) = (buffer($b, &noise(len, 1)), buffer($b, &noise(len, 2)));
                $op;
                assert_eq!($y[..], noise(len, 2));
                $x.to_vec()
            })
        };
    }
    in_place!("above_mean", |b, x, _y| {
        b.change_rows(&mut x, &RowChange::AboveMean(0.8), n, n_cols);
        for (row, found) in noise(len, 1).chunks(n_cols).zip(x.chunks(n_cols)) {
            let wide: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            let mean = wide.iter().sum::<f64>() / n_cols as f64;
            let variance = wide.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n_cols as f64;
            for (x, &found) in wide.iter().zip(found) {
                let expected = (x - mean - f64::from(0.8f32) * variance.sqrt()).max(0.0);
                assert!((f64::from(found) - expected).abs() < 1e-6, "{found} instead of {expected}");
            }
        }
    });
    in_place!("as_long_as", |b, x, y| {
        b.change_rows(&mut x, &RowChange::AsLongAs { like: &y, least: 1e-5 }, n, n_cols);
        let square = |x: &[f32]| x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        for (x, y) in x.chunks(n_cols).zip(y.chunks(n_cols)) {
            assert!((square(x) / square(y) - 1.0).abs() < 1e-6);
        }
    });
    in_place!("mix", |b, x, y| {
        // Of each row 7 vectors of 100 become 2 of 350, then the same ones of 50.
        let factors = buffer(b, &noise(n * 14, 3));
        let (of_rows, same) = (Factors::OfRows(&factors), [0.0, 1.0, -2.0, 0.5]);
        b.mix(Mix { x: &y, out: &mut x, factors: of_rows, n, n_parts: (7, 2), len: 100 });
        for (at, &found) in x.iter().enumerate().take(200) {
            let of = |k: usize| factors[at / 100 * 7 + k] * y[k * 100 + at % 100];
            let expected = noise(len, 1)[at] + (0..7).map(of).sum::<f32>();
            assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
        }
        b.mix(Mix { x: &y, out: &mut x, factors: Factors::Same(&same), n, n_parts: (2, 2), len: 350 });
    });
    in_place!("gelu", |b, x, _y| b.activate(&mut x, Pointwise::Gelu(GeluForm::Tanh), len));
    in_place!("gelu_erf", |b, x, _y| b.activate(&mut x, Pointwise::Gelu(GeluForm::Erf), len));
    in_place!("softcap", |b, x, _y| b.softcap(&mut x, 0.7, len));
    in_place!("silu", |b, x, _y| b.activate(&mut x, Pointwise::Silu, len));
    in_place!("sigmoid", |b, x, _y| b.activate(&mut x, Pointwise::Sigmoid, len));
    in_place!("exp", |b, x, _y| {
        b.activate(&mut x, Pointwise::Exp, len);
        assert!(x[..len].iter().zip(noise(len, 1)).all(|(found, x)| *found == libm::expf(x)));
    });
    in_place!("times_sum", |b, x, y| {
        b.change_rows(&mut x, &RowChange::TimesSum(&y), n, n_cols);
        let sum: f64 = y[n_cols..2 * n_cols].iter().map(|&y| f64::from(y)).sum();
        let expected = f64::from(noise(len, 1)[n_cols]) * sum;
        assert!((f64::from(x[n_cols]) - expected).abs() < 1e-4, "{} {expected}", x[n_cols]);
    });
    in_place!("relu", |b, x, _y| {
        b.activate(&mut x, Pointwise::Relu, len);
        assert!(x[..len].iter().copied().eq(noise(len, 1).into_iter().map(|x| x.max(0.0))));
    });
    in_place!("relu_squared", |b, x, _y| {
        b.activate(&mut x, Pointwise::ReluSquared, len);
        let squares = noise(len, 1).into_iter().map(|x| if x > 0.0 { x * x } else { 0.0 });
        assert!(x[..len].iter().copied().eq(squares));
    });
    in_place!("mul", |b, x, y| b.mul(&mut x, &y, len));
    in_place!("add", |b, x, y| b.add(&mut x, &y, len));
    in_place!("scale", |b, x, _y| b.scale(&mut x, -0.5, len));
    in_place!("silu_mul", |b, x, y| b.act_mul(Activation::Silu, &mut x, &y, len));
    in_place!("gelu_mul", |b, x, y| b.act_mul(Activation::Gelu, &mut x, &y, len));
    in_place!("gelu_erf_mul", |b, x, y| b.act_mul(Activation::GeluErf, &mut x, &y, len));
    in_place!("sigmoid_mul", |b, x, y| b.act_mul(Activation::Sigmoid, &mut x, &y, len));
    in_place!("relu_squared_mul", |b, x, y| b.act_mul(Activation::ReluSquared, &mut x, &y, len));
    in_place!("swiglu_clamped_mul", |b, x, y| b.act_mul(Activation::SwigluClamped, &mut x, &y, len));
    in_place!("copy_columns", |b, x, y| {
        let (x, y) = (&mut x, &y);
        b.copy_columns(Columns { x: y, out: x, n, n_cols: (350, 700), first: (17, 600), len: 90 });
        assert_eq!(x[700 + 600..][..90], y[350 + 17..][..90]);
    });
    in_place!("sigmoid_gate", |b, x, y| b.sigmoid_gate(&mut x, &y, n, n_cols));
    check!("gain", F32, |b| {
        let gain = weight(b, Format::F32, 1, n_cols, 3, WeightRole::Vector);
        let mut x = buffer(b, &noise(len, 1));
        b.change_rows(&mut x, &RowChange::Gain(&gain), n - 1, n_cols);
        x.to_vec()
    });
    check!("add_bias", F32, |b| {
        let bias = weight(b, Format::F32, 1, n_cols, 3, WeightRole::Vector);
        let mut x = buffer(b, &noise(len, 1));
        b.add_bias(&mut x, &bias, n - 1);
        x.to_vec()
    });
}
