//! The exponential function, several numbers at a time. It adds and multiplies in a fixed order and has no branches: results are
//! the same everywhere, and compilers vectorize it.
#![forbid(unsafe_code)]

use std::array;
use std::f64::consts;

/// Numbers that are computed side by side.
pub(crate) const LANES: usize = 8;

/// Added to a number below 2⁵¹ and subtracted again, it leaves the nearest integer; the sum's lowest bits are those of the
/// integer.
pub(super) const TO_WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
/// ln 2 as a sum: a part whose product with a small integer is exact, and the rest (Cody & Waite 1980).
const LN_2: [f64; 2] = [
    f64::from_bits(consts::LN_2.to_bits() & !0xFFFF_FFFF),
    consts::LN_2 - f64::from_bits(consts::LN_2.to_bits() & !0xFFFF_FFFF),
];
/// `1 / n!`: enough terms to make the series of exp(r) exact to 2⁻⁴⁵ where |r| is at most half of ln 2.
const RECIPROCALS: [f64; 12] = {
    let (mut all, mut n, mut factorial) = ([1.0; 12], 1, 1.0);
    while n < all.len() {
        factorial *= n as f64;
        all[n] = 1.0 / factorial;
        n += 1;
    }
    all
};

/// `exp(x)` of each, to 2⁻⁴⁴, for numbers from -700 to 700; NaN of NaN, 1 of 0.
#[inline(always)]
pub(crate) fn exp<const N: usize>(x: [f64; N]) -> [f64; N] {
    // exp(x) = 2ⁿ exp(r), where |r| is at most half of ln 2.
    let shifted: [f64; N] = array::from_fn(|i| x[i] * consts::LOG2_E + TO_WHOLE);
    let r: [f64; N] = array::from_fn(|i| {
        let n = shifted[i] - TO_WHOLE;
        x[i] - n * LN_2[0] - n * LN_2[1]
    });
    // Two terms, four terms, all: few operations wait for the one before (Estrin 1960).
    let series: [f64; N] = array::from_fn(|i| {
        let r = r[i];
        let (r2, r4) = (r * r, r * r * (r * r));
        let two = |i: usize| RECIPROCALS[i] + RECIPROCALS[i + 1] * r;
        let four = |i: usize| two(i) + two(i + 2) * r2;
        four(0) + four(4) * r4 + four(8) * (r4 * r4)
    });
    array::from_fn(|i| {
        series[i] * f64::from_bits((shifted[i].to_bits() << 52).wrapping_add(1.0f64.to_bits()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_function() {
        for i in -70_000..=70_000 {
            let x = f64::from(i) * 0.01;
            let (got, want) = (exp([x])[0], libm::exp(x));
            assert!((got - want).abs() <= want * 2f64.powi(-44), "{x}: {got}, not {want}");
        }
        assert_eq!(exp([0.0, -0.0]), [1.0; 2]);
        assert!(exp([f64::NAN])[0].is_nan());
    }
}
