//! Operations on whole rows that consist of several vectors, or that depend on their own mean or length.
#![forbid(unsafe_code)]

use std::ops::Deref;

use super::Backend;
use super::host::HostWeight;

/// What [`Backend::change_rows`] does to each row.
pub enum RowChange<'a, B: Backend> {
    /// `max(x - mean - factor · deviation, 0)`, where the mean and the standard deviation are the row's.
    AboveMean(f32),
    /// `x · sqrt(mean(like²) / max(mean(x²), least))`: the row becomes as long as the same row of another matrix.
    AsLongAs {
        /// `[n, n_cols]`.
        like: &'a B::Buffer,
        /// The least mean square that is divided by.
        least: f32,
    },
    /// `x · share`: row `i` times the share of slot `i` of what [`Backend::moe_route`] wrote.
    Share(&'a B::Buffer),
    /// `x · Σ y`, where `y` is the same row of another matrix, `[n, n_cols]`.
    TimesSum(&'a B::Buffer),
    /// `x · gain`, element by element; `[n_cols]`.
    Gain(&'a B::Weight),
}

/// What [`Attention`](super::Attention) adds to the scores of each query head, by the distance between key and query.
pub enum DistanceBias<W> {
    /// Each head's factor on the distance, which is subtracted, `[n_head]`: ALiBi (Press et al. 2022).
    Slopes(W),
    /// For each head a number for each distance, `[n_head, len]` with an odd `len`. The middle one is for the query's own
    /// position, those before it for earlier keys. Keys beyond the table get the number of the farthest (Raffel et al. 2020).
    Table(W),
}

/// Arguments of [`Backend::mix`]: `out[i][j] += Σ_k factors[i][j][k] · x[i][k]`. A row `i` has `n_parts` vectors of `len`
/// elements in `x` and in `out`.
pub struct Mix<'a, B: Backend> {
    /// `[n, n_parts.0, len]`.
    pub x: &'a B::Buffer,
    /// `[n, n_parts.1, len]`.
    pub out: &'a mut B::Buffer,
    /// The factors.
    pub factors: Factors<'a, B>,
    /// Rows.
    pub n: usize,
    /// Vectors in a row of `x` and of `out`.
    pub n_parts: (usize, usize),
    /// Elements of a vector.
    pub len: usize,
}

/// The factors of [`Mix`].
pub enum Factors<'a, B: Backend> {
    /// Each row's own, `[n, n_parts.1, n_parts.0]`.
    OfRows(&'a B::Buffer),
    /// The same for all rows, `[n_parts.1, n_parts.0]`.
    Same(&'a [f32]),
}

/// Partial sums, so that the processor has several to add to.
const LANES: usize = 16;

/// The mean of `f` of all elements.
fn mean(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, &x)| *sum += f(x));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, &x)| *sum += f(x));
    sums.iter().sum::<f32>() / x.len() as f32
}

/// Row `i` of [`Backend::change_rows`].
pub(super) fn change_row<B>(x: &mut [f32], change: &RowChange<'_, B>, i: usize)
where
    B: Backend<Weight = HostWeight>,
    B::Buffer: Deref<Target = [f32]>,
{
    match change {
        RowChange::AboveMean(factor) => {
            let middle = mean(x, |x| x);
            let bound = middle + factor * mean(x, |x| (x - middle) * (x - middle)).sqrt();
            x.iter_mut().for_each(|x| *x = (*x - bound).max(0.0));
        }
        RowChange::AsLongAs { like, least } => {
            let like = mean(&like[i * x.len()..][..x.len()], |x| x * x);
            let factor = like.sqrt() / mean(x, |x| x * x).max(*least).sqrt();
            x.iter_mut().for_each(|x| *x *= factor);
        }
        RowChange::Share(route) => x.iter_mut().for_each(|x| *x *= route[2 * i + 1]),
        RowChange::TimesSum(y) => {
            let sum = mean(&y[i * x.len()..][..x.len()], |y| y) * x.len() as f32;
            x.iter_mut().for_each(|x| *x *= sum);
        }
        RowChange::Gain(gain) => x.iter_mut().zip(gain.f32s()).for_each(|(x, gain)| *x *= gain),
    }
}

impl<B: Backend> Factors<'_, B>
where
    B::Buffer: Deref<Target = [f32]>,
{
    /// The factors of row `i`, `len` of them.
    pub(super) fn of_row(&self, i: usize, len: usize) -> &[f32] {
        match self {
            Factors::OfRows(factors) => &factors[i * len..(i + 1) * len],
            Factors::Same(factors) => &factors[..len],
        }
    }
}

/// A row of [`Backend::mix`]: some vectors of `len` elements in `x` and in `out`.
pub(super) fn mix_row(x: &[f32], factors: &[f32], len: usize, out: &mut [f32]) {
    for (out, factors) in out.chunks_exact_mut(len).zip(factors.chunks_exact(x.len() / len)) {
        for (x, factor) in x.chunks_exact(len).zip(factors) {
            out.iter_mut().zip(x).for_each(|(out, x)| *out += factor * x);
        }
    }
}
