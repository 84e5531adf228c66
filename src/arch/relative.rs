//! Biases of scores by distance, in buckets that grow with it (Raffel et al. 2020).
#![forbid(unsafe_code)]

use super::bind::Binder;
use crate::backend::{Backend, DistanceBias};
use crate::error::Result;

/// How distances fall into buckets. Distances below half of the buckets have one each, larger ones share theirs, and all from
/// `max_distance` on are in the last.
#[derive(Debug, Clone, Copy)]
pub struct Buckets {
    /// All buckets; in encoders half of them are for keys after the query.
    pub n: usize,
    /// See above.
    pub max_distance: usize,
    /// Whether keys after the query have buckets; otherwise no query sees them.
    pub both_ways: bool,
}

impl Buckets {
    /// The bucket of a key `distance` before the query, or after it.
    fn of(self, distance: usize, after: bool) -> usize {
        let n = if self.both_ways { self.n / 2 } else { self.n };
        let first = if self.both_ways && after { n } else { 0 };
        let distance = if !self.both_ways && after { 0 } else { distance };
        let exact = n / 2;
        if distance < exact {
            return first + distance;
        }
        // In f32, as `transformers` does: it decides where a boundary is an integer.
        let share = libm::logf(distance as f32 / exact as f32)
            / libm::log(self.max_distance as f64 / exact as f64) as f32;
        first + (exact + (share * (n - exact) as f32) as usize).min(n - 1)
    }

    /// The numbers of `rows`, `[n, n_head]`, for each head and distance, in the backend's layout.
    fn table(self, rows: &[f32], n_head: usize) -> Vec<f32> {
        let reach = self.max_distance;
        let bucket = |i: usize| self.of(i.abs_diff(reach), i > reach);
        (0..n_head).flat_map(|head| (0..=2 * reach).map(move |i| rows[bucket(i) * n_head + head])).collect()
    }

    /// The bias of the tensor `name`, which has a row of numbers of all heads for each bucket.
    pub fn bind<B: Backend>(
        self,
        file: &mut Binder<'_, B>,
        name: &str,
        n_head: usize,
    ) -> Result<DistanceBias<B::Weight>> {
        let rows = file.f32_rows(name, self.n, n_head)?;
        Ok(DistanceBias::Table(file.computed("distances", n_head, &self.table(&rows, n_head))?))
    }
}

#[cfg(test)]
mod tests {
    use super::Buckets;

    /// Where buckets begin in `transformers` (`T5Attention._relative_position_bucket`).
    #[test]
    fn buckets_begin_where_those_of_the_reference_do() {
        let starts = |n: usize, max_distance: usize, both_ways: bool, after: bool| {
            let buckets = Buckets { n, max_distance, both_ways };
            let mut found = Vec::<(usize, usize)>::new();
            for distance in usize::from(after)..1200 {
                let bucket = buckets.of(distance, after);
                if found.last().is_none_or(|last| last.0 != bucket) {
                    found.push((bucket, distance));
                }
            }
            found
        };
        let zipped = |first: usize, starts: &[usize]| {
            starts.iter().enumerate().map(|(i, &start)| (first + i, start)).collect::<Vec<_>>()
        };
        let both = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
        assert_eq!(starts(32, 128, true, false), zipped(0, &both));
        assert_eq!(starts(32, 128, true, true), zipped(17, &both[1..]));
        let before = [
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59,
            67, 77, 87, 99, 113,
        ];
        assert_eq!(starts(32, 128, false, false), zipped(0, &before));
    }
}
