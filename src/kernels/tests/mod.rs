//! The same tests for every level of [`ISAS`] that this machine can run, against formulas in `f64`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod attention;
mod elementwise;
mod products;
mod rounding;
mod scan;
mod seen;
mod wide;

use super::*;
use half::f16;

/// Lengths around the edges of every block and vector width.
const LENGTHS: [usize; 11] = [0, 1, 7, 31, 32, 33, 255, 256, 257, 1536, 4096];

/// Every table of this build that this machine can run.
fn tables() -> impl Iterator<Item = &'static Kernels> {
    ISAS.iter().filter(|row| (row.supported)()).map(|row| row.kernels)
}

/// A repeatable vector of values in -1..1 (a linear congruential generator).
fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn halves(x: &[f32]) -> Vec<f16> {
    x.iter().map(|&x| f16::from_f32(x)).collect()
}

fn assert_close(got: f32, expected: f64, tolerance: f64, what: &str) {
    let error = (f64::from(got) - expected).abs();
    assert!(error <= tolerance, "{what}: {got} is not {expected} within {tolerance:e}");
}

#[test]
fn levels_are_sorted_named_and_only_lowered() {
    assert!(ISAS.is_sorted_by(|a, b| a.isa < b.isa));
    assert_eq!(ISAS[0].isa, Isa::Scalar);
    for row in ISAS {
        assert_eq!(row.kernels.isa, row.isa);
        assert_eq!(Isa::from_name(row.name), Some(row.isa));
        assert_eq!(row.isa.name(), row.name);
        assert!(Kernels::select(Some(row.isa)).isa <= row.isa.min(Isa::detect()));
    }
    assert_eq!(Isa::from_name("z80"), None);
    assert_eq!(Kernels::select(Some(Isa::Scalar)).isa, Isa::Scalar);
}
