//! Products of vectors.
#![forbid(unsafe_code)]

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Partial sums of a dot product.
const LANES: usize = 16;
/// Values expanded at a time, through a buffer on the stack; a multiple of [`LANES`], so that expanding in chunks keeps the order
/// of a sum.
const CHUNK: usize = 256;

/// The order of every sum of products: element `i` goes to partial sum `i % 16`, in ascending order; then the upper
/// half of the partial sums is added to the lower half until one is left.
struct Lanes([f32; LANES]);

impl Lanes {
    fn add_products(&mut self, a: &[f32], b: &[f32]) {
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        let mut lanes = self.0;
        for (a, b) in a.iter().zip(b) {
            for i in 0..LANES {
                lanes[i] += a[i] * b[i];
            }
        }
        for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
            *lane += a * b;
        }
        self.0 = lanes;
    }

    fn sum(mut self) -> f32 {
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                self.0[i] += self.0[i + width];
            }
            width /= 2;
        }
        self.0[0]
    }
}

pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len(), "the vectors differ in length");
    let n = a.len().min(b.len());
    let mut lanes = Lanes([0.0; LANES]);
    lanes.add_products(&a[..n], &b[..n]);
    lanes.sum()
}

pub(super) fn dot_f16(a: &[f16], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len(), "the vectors differ in length");
    let mut lanes = Lanes([0.0; LANES]);
    let mut buffer = [0.0; CHUNK];
    for (a, b) in a.chunks(CHUNK).zip(b.chunks(CHUNK)) {
        let n = a.len().min(b.len());
        a[..n].convert_to_f32_slice(&mut buffer[..n]);
        lanes.add_products(&buffer[..n], &b[..n]);
    }
    lanes.sum()
}

pub(super) fn dots_f32(rows: &[f32], x: &[f32], n_cols: usize, out: &mut [f32]) {
    dots(rows, x, n_cols, out, dot_f32);
}

pub(super) fn dots_f16(rows: &[f16], x: &[f32], n_cols: usize, out: &mut [f32]) {
    dots(rows, x, n_cols, out, dot_f16);
}

fn dots<T>(rows: &[T], x: &[f32], n_cols: usize, out: &mut [f32], dot: impl Fn(&[T], &[f32]) -> f32) {
    if n_cols == 0 {
        return out.fill(0.0);
    }
    for (x, out) in x.chunks_exact(n_cols).zip(out.chunks_exact_mut((rows.len() / n_cols).max(1))) {
        for (row, out) in rows.chunks_exact(n_cols).zip(out) {
            *out = dot(row, x);
        }
    }
}

pub(super) fn narrow_f16(x: &[f32], out: &mut [f16]) {
    debug_assert_eq!(x.len(), out.len(), "the vectors differ in length");
    for (x, out) in x.iter().zip(out) {
        *out = f16::from_f32(*x);
    }
}

pub(super) fn axpy(y: &mut [f32], a: f32, x: &[f32]) {
    debug_assert_eq!(y.len(), x.len(), "the vectors differ in length");
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

pub(super) fn axpy_f16(y: &mut [f32], a: f32, x: &[f16]) {
    debug_assert_eq!(y.len(), x.len(), "the vectors differ in length");
    let mut buffer = [0.0; CHUNK];
    for (y, x) in y.chunks_mut(CHUNK).zip(x.chunks(CHUNK)) {
        let n = y.len().min(x.len());
        x[..n].convert_to_f32_slice(&mut buffer[..n]);
        axpy(&mut y[..n], a, &buffer[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_rows_are_as_if_expanded_first() {
        for n in [0, 1, 31, 33, CHUNK, CHUNK + 1, 1000] {
            let a: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
            let b: Vec<f16> = (0..n).map(|i| f16::from_f32((i as f32 * 1.3).cos())).collect();
            let expanded: Vec<f32> = b.iter().map(|b| b.to_f32()).collect();
            assert_eq!(dot_f16(&b, &a).to_bits(), dot_f32(&expanded, &a).to_bits());
            let (mut short, mut long) = (a.clone(), a.clone());
            axpy_f16(&mut short, 0.3, &b);
            axpy(&mut long, 0.3, &expanded);
            assert_eq!(short, long);
            assert!((0..n).all(|i| (long[i] - (a[i] + 0.3 * expanded[i])).abs() <= 1e-6));
        }
    }
}
