//! How numbers of the KV cache are rounded.

use super::*;

#[test]
fn rounding_to_bytes_is_that_of_the_format() {
    for (kernels, n) in tables().flat_map(|k| [0, 32, 64, 96, 256].map(|n| (k, n))) {
        let mut x = noise(n, 7);
        x.iter_mut().enumerate().for_each(|(i, x)| *x *= 2f32.powi((i / 32) as i32 * 9 - 24));
        let odd = [f32::NAN, -0.0, 0.0, f32::MIN_POSITIVE];
        x.iter_mut().zip(odd).for_each(|(x, odd)| *x = odd);
        if let Some(x) = x.get_mut(70) {
            *x = f32::NEG_INFINITY;
        }
        let (mut codes, mut scales) = (vec![1; n], vec![f16::ONE; n / 32]);
        (kernels.narrow_q8_0)(&x, &mut codes, &mut scales);
        let mut row = vec![0; n / 32 * 34];
        crate::quant::q8_0::quantize(&x, &mut row);
        for (i, block) in row.chunks_exact(34).enumerate() {
            assert_eq!(scales[i].to_le_bytes(), block[..2], "{}, block {i}", kernels.isa.name());
            assert_eq!(bytemuck::cast_slice::<i8, u8>(&codes[i * 32..(i + 1) * 32]), &block[2..]);
        }
    }
}

/// The unit and the integers of `x`.
fn whole(kernels: &Kernels, x: &[f32]) -> (f32, Vec<i16>) {
    let (unit, mut codes) = ((kernels.unit_i16)(x), vec![7; x.len()]);
    (kernels.narrow_i16)(x, unit, &mut codes);
    (unit, codes)
}

#[test]
fn whole_numbers_are_near_fit_and_stay_what_they_are() {
    let squares = |codes: &[i16]| codes.iter().map(|&c| i64::from(c) * i64::from(c)).sum::<i64>();
    for (kernels, n) in tables().flat_map(|k| [16, 64, 80, 256, 1024].map(|n| (k, n))) {
        let what = format!("{}, {n} numbers", kernels.isa.name());
        for seed in 0..if cfg!(miri) { 2 } else { 200 } {
            let mut x = noise(n, seed);
            x.iter_mut().for_each(|x| *x *= 1.013f32.powi(seed as i32 * 41 % 3000 - 1500));
            if seed % 3 == 0 {
                // Most of it is one number.
                x[seed as usize % n] *= 40.0;
            }
            let (unit, codes) = whole(kernels, &x);
            assert!(
                (unit, codes.clone()) == whole(&scalar::SCALAR, &x),
                "{what}: the bits of the definition"
            );
            let exact: Vec<f32> = codes.iter().map(|&code| f32::from(code) * unit).collect();
            let far = exact.iter().zip(&x).find(|(a, b)| (*a - *b).abs() > unit / 2.0);
            assert!(far.is_none(), "{what}: {far:?} in units of {unit:e}");
            assert!(squares(&codes) < 1 << 31, "{what}: {}", squares(&codes));
            // No coarser than needed.
            let finer = |&code: &i16| code.unsigned_abs() > 16_383;
            assert!(
                codes.iter().any(finer) || squares(&codes) * 4 > (1 << 31) / 1001 * 1000,
                "{what}: {unit:e}"
            );
            // Written again, numbers are the same.
            let (unit, codes) = whole(kernels, &exact);
            assert!(codes.iter().map(|&code| f32::from(code) * unit).eq(exact), "{what}: again");
        }
        let (unit, codes) = whole(kernels, &vec![1e-31; n]);
        assert!(unit == 0.0 && codes == vec![0; n], "{what}: what is next to nothing");
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = noise(n, 1);
            x[n - 3] = odd;
            let (unit, codes) = whole(kernels, &x);
            assert!(unit.is_nan() && codes == vec![0; n], "{what}: {odd}");
        }
        let (unit, _) = whole(kernels, &vec![f32::MAX; n]);
        assert!(unit.is_finite(), "{what}: the largest numbers");
    }
}
