//! Rotary position embedding.
#![forbid(unsafe_code)]

use crate::kernels::RopeStyle;

pub(super) fn rope(x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    debug_assert_eq!(cos.len(), sin.len(), "as many cosines as sines");
    debug_assert!(2 * cos.len() <= x.len(), "the head has {} components for {} pairs", x.len(), cos.len());
    let n = cos.len().min(x.len() / 2);
    let x = &mut x[..2 * n];
    let angles = cos.iter().zip(sin);
    match style {
        RopeStyle::Interleaved => {
            for ([a, b], (&cos, &sin)) in x.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                (*a, *b) = rotate(*a, *b, cos, sin);
            }
        }
        RopeStyle::Halved => {
            let (lower, upper) = x.split_at_mut(n);
            for ((a, b), (&cos, &sin)) in lower.iter_mut().zip(upper).zip(angles) {
                (*a, *b) = rotate(*a, *b, cos, sin);
            }
        }
    }
}

fn rotate(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (a * cos - b * sin, a * sin + b * cos)
}
