//! Loops over every logit, written so that compilers vectorize them: fixed numbers of elements side by side, no branches, and
//! integers for the results of comparisons.
#![forbid(unsafe_code)]

/// Logits that are compared side by side.
pub(super) const LANES: usize = 16;
/// Logits of a chunk, of whose largest one the place is searched for afterwards.
const PART: usize = 256;

/// The largest of some logits, of several the first, and its place; `None` when there is none above `-inf`. Also returns whether
/// one is NaN.
pub(super) fn largest(logits: &[f32]) -> (Option<(f32, usize)>, bool) {
    let (mut max, mut its_part, mut unordered) = (f32::NEG_INFINITY, 0, false);
    for (i, part) in logits.chunks(PART).enumerate() {
        let (part_max, part_unordered) = largest_of_part(part);
        (max, its_part) = if part_max > max { (part_max, i) } else { (max, its_part) };
        unordered |= part_unordered;
    }
    let first = its_part * PART;
    let within = || logits[first..].iter().position(|&logit| logit == max);
    ((max > f32::NEG_INFINITY).then(within).flatten().map(|within| (max, first + within)), unordered)
}

/// [`max`], and whether one is NaN, in one pass: half the time.
fn largest_of_part(part: &[f32]) -> (f32, bool) {
    /// The bits of infinity: those of a NaN, without its sign, are larger.
    const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
    let (mut maxima, mut unordered) = ([f32::NEG_INFINITY; LANES], [0; LANES]);
    let (whole, rest) = part.as_chunks::<LANES>();
    for some in whole {
        for (max, &logit) in maxima.iter_mut().zip(some) {
            *max = if logit > *max { logit } else { *max };
        }
        for (unordered, logit) in unordered.iter_mut().zip(some) {
            *unordered |= i32::from(logit.abs().to_bits().cast_signed() > INFINITY);
        }
    }
    let all = maxima.iter().chain(rest);
    let max = all.fold(f32::NEG_INFINITY, |max, &logit| if logit > max { logit } else { max });
    (max, unordered.contains(&1) || rest.iter().any(|logit| logit.is_nan()))
}

/// The sum of the weights whose logits are at least `least`, and their number.
pub(super) fn weight_from(logits: &[f32], weights: &[u64], least: f32) -> (u64, usize) {
    /// Fewer lanes, since sums are twice as wide.
    const LANES: usize = 8;
    let (some_logits, last_logits) = logits.as_chunks::<LANES>();
    let (some_weights, last_weights) = weights.as_chunks::<LANES>();
    let (mut sums, mut counts) = ([0; LANES], [0; LANES]);
    for (logits, weights) in some_logits.iter().zip(some_weights) {
        for i in 0..LANES {
            let counts_now = u64::from(logits[i] >= least);
            sums[i] += weights[i] & counts_now.wrapping_neg();
            counts[i] += counts_now as u32;
        }
    }
    let (mut sum, mut count) = (sums.iter().sum(), counts.iter().sum::<u32>() as usize);
    for (_, weight) in last_logits.iter().zip(last_weights).filter(|(logit, _)| **logit >= least) {
        (sum, count) = (sum + weight, count + 1);
    }
    (sum, count)
}

/// The largest logit, ignoring NaN.
pub(crate) fn max(logits: &[f32]) -> f32 {
    let mut maxima = [f32::NEG_INFINITY; LANES];
    let (whole, rest) = logits.as_chunks::<LANES>();
    for some in whole {
        for (max, &logit) in maxima.iter_mut().zip(some) {
            *max = if logit > *max { logit } else { *max };
        }
    }
    let all = maxima.iter().chain(rest);
    all.fold(f32::NEG_INFINITY, |max, &logit| if logit > max { logit } else { max })
}

/// Whether `is_one` holds for any.
#[inline(always)]
pub(super) fn any(logits: &[f32], is_one: impl Fn(f32) -> bool) -> bool {
    let (whole, rest) = logits.as_chunks::<LANES>();
    let mut found = [0; LANES];
    for some in whole {
        for (found, &logit) in found.iter_mut().zip(some) {
            *found |= i32::from(is_one(logit));
        }
    }
    found.contains(&1) || rest.iter().any(|&logit| is_one(logit))
}
