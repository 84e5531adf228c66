//! The column of a row's largest element, which is the token that a greedy sampler takes. `sampler::scan` has a loop of its own,
//! since it knows no backend.
#![forbid(unsafe_code)]

/// The answer for a row that has none: an element is NaN, or all are `-inf`.
pub const NO_COLUMN: u32 = u32::MAX;

/// Elements that are looked at together.
const PART: usize = 256;
/// Columns of a chunk that are compared together.
const LANES: usize = 16;

/// The key of a row with a NaN, above all others.
const UNORDERED: u64 = u64::MAX;

/// The key of `x`, a row's elements from column `first` on. A row's key is the largest key of its chunks. Of equal elements the
/// first has the largest key.
pub(super) fn key(x: &[f32], first: usize) -> u64 {
    let (mut largest, mut column) = (f32::NEG_INFINITY, None);
    for (part, begin) in x.chunks(PART).zip((first..).step_by(PART)) {
        let (max, unordered) = largest_of(part);
        if unordered {
            return UNORDERED;
        }
        if max > largest {
            (largest, column) = (max, part.iter().position(|&x| x == max).map(|i| begin + i));
        }
    }
    // Adding zero makes one of the two zeros, which are equal. The bits of numbers ascend once those of negative ones are
    // inverted. `-inf` has no column, so no key is 0.
    let bits = (largest + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    column.map_or(0, |column| u64::from(ordered) << 32 | u64::from(!(column as u32)))
}

/// The largest of some elements, and whether one is NaN. Written so that compilers vectorize it: many maxima side by side, and
/// integers to count the NaNs.
fn largest_of(part: &[f32]) -> (f32, bool) {
    /// The bits of infinity: those of a NaN, without its sign, are larger.
    const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
    let (mut maxima, mut unordered) = ([f32::NEG_INFINITY; LANES], [0; LANES]);
    let (whole, rest) = part.as_chunks::<LANES>();
    for some in whole {
        for (max, &x) in maxima.iter_mut().zip(some) {
            *max = if x > *max { x } else { *max };
        }
        for (unordered, x) in unordered.iter_mut().zip(some) {
            *unordered |= i32::from(x.abs().to_bits().cast_signed() > INFINITY);
        }
    }
    let all = maxima.iter().chain(rest);
    let max = all.fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
    (max, unordered.contains(&1) || rest.iter().any(|x| x.is_nan()))
}

/// The column that a row's key stands for, or [`NO_COLUMN`].
pub(super) fn column(key: u64) -> u32 {
    if key == 0 || key == UNORDERED { NO_COLUMN } else { !(key as u32) }
}

#[cfg(test)]
mod tests {
    use super::super::Backend;
    use super::super::cpu::CpuBackend;
    use super::super::tests::{buffer, noise};
    use super::super::threaded::{F32Products, ThreadedBackend};
    use super::super::{Limits, arg_max::NO_COLUMN};
    use crate::kernels::Kernels;
    use crate::memory::Memory;
    use crate::threads::ThreadPool;

    /// The definition: the first of the largest.
    fn plain(row: &[f32]) -> u32 {
        let mut best = 0;
        for (i, x) in row.iter().enumerate() {
            if x.is_nan() {
                return NO_COLUMN;
            }
            best = if *x > row[best] { i } else { best };
        }
        if row[best] == f32::NEG_INFINITY { NO_COLUMN } else { best as u32 }
    }

    #[test]
    fn the_first_of_the_largest_is_found_by_any_number_of_threads() {
        for n_cols in [1, 5, 255, 256, 257, 700, 1025, 5000] {
            let mut rows: Vec<Vec<f32>> = (1..4).map(|seed| noise(n_cols, seed)).collect();
            let same = |x: f32| vec![x; n_cols];
            rows.extend([0.0, -0.0, -1.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN].map(same));
            for (at, x) in [(0, 9.0), (n_cols / 2, 9.0), (n_cols - 1, 9.0), (n_cols / 2, f32::NAN)] {
                let mut row = noise(n_cols, 7);
                row[at] = x;
                rows.extend([row.clone(), row.iter().map(|x| x - 20.0).collect()]);
                // The largest twice, and zeros of both signs.
                row[n_cols - 1] = x;
                rows.push(row);
                rows.push((0..n_cols).map(|i| if i >= at { 0.0 } else { -0.0 }).collect());
            }
            let n = rows.len();
            let want: Vec<_> = rows.iter().map(|row| plain(row)).collect();
            let mut cpu = CpuBackend::new(Memory::default());
            let x = buffer(&mut cpu, &rows.concat());
            let mut got = vec![0; n];
            cpu.arg_max(&x, n_cols, &mut got);
            assert_eq!(got, want, "{n_cols} columns");
            for n_threads in [1, 2, 7] {
                let pool = ThreadPool::new(n_threads, None).expect("threads");
                let (kernels, memory) = (Kernels::select(None), Memory::default());
                let mut b = ThreadedBackend::new(kernels, pool, F32Products::Dots, memory).expect("memory");
                b.reserve(&Limits { n_out: n, ..Limits::default() }).expect("memory");
                let x = buffer(&mut b, &rows.concat());
                got.fill(0);
                b.arg_max(&x, n_cols, &mut got);
                assert_eq!(got, want, "{n_cols} columns, {n_threads} threads");
            }
        }
    }
}
