use super::*;

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn rms_norms() {
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))) {
        let (x, weight) = (noise(n, 1), noise(n, 2));
        let mut out = vec![0.0; n];
        (kernels.rms_norm)(&x, &weight, 1e-5, &mut out);
        let mean_square = wide(&x).iter().map(|x| x * x).sum::<f64>() / n as f64;
        for i in 0..n {
            let expected = f64::from(x[i]) * f64::from(weight[i]) / (mean_square + f64::from(1e-5f32)).sqrt();
            assert_close(out[i], expected, 4e-7 * expected.abs(), "rms_norm");
        }
    }
}

#[test]
fn rms_norms_of_numbers_whose_squares_f32_does_not_have() {
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))).filter(|(_, n)| *n > 0) {
        let weight = noise(n, 2);
        for scale in [1e18, 1e19, 3e19, 1e30, 3e38] {
            // All of them, or the last alone.
            for from in [0, n - 1] {
                let mut x = noise(n, 1);
                x[from..].iter_mut().for_each(|x| *x = x.signum() * (0.5 + x.abs() / 2.0) * scale);
                let (mut out, mut expected) = (vec![0.0; n], vec![0.0; n]);
                (kernels.rms_norm)(&x, &weight, 1e-5, &mut out);
                (scalar::SCALAR.rms_norm)(&x, &weight, 1e-5, &mut expected);
                for i in 0..n {
                    let expected = f64::from(expected[i]);
                    assert_close(out[i], expected, 4e-7 * expected.abs(), "rms_norm of large numbers");
                }
                assert!(out.iter().any(|&x| x != 0.0), "{:?}, {n} numbers of {scale}", kernels.isa);
            }
        }
    }
    // What is infinite in f64 too stays as the definition has it, and NaN is NaN.
    for kernels in tables() {
        let mut out = [1.0; 3];
        (kernels.rms_norm)(&[1.0, f32::INFINITY, -2.0], &[1.0; 3], 1e-5, &mut out);
        assert!(out[0] == 0.0 && out[1].is_nan() && out[2] == 0.0, "{out:?}");
        (kernels.rms_norm)(&[1.0, f32::NAN, f32::INFINITY], &[1.0; 3], 1e-5, &mut out);
        assert!(out.iter().all(|x| x.is_nan()), "{out:?}");
    }
}

#[test]
fn layer_norms() {
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))) {
        // A large mean: the variance must not suffer from cancellation.
        let x: Vec<f32> = noise(n, 1).iter().map(|x| x + 100.0).collect();
        let (weight, bias) = (noise(n, 2), noise(n, 3));
        let mean = wide(&x).iter().sum::<f64>() / n as f64;
        let variance = wide(&x).iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        for bias in [Some(&bias[..]), None] {
            let mut out = vec![0.0; n];
            (kernels.layer_norm)(&x, &weight, bias, 1e-5, &mut out);
            for i in 0..n {
                let factor = f64::from(weight[i]) / (variance + f64::from(1e-5f32)).sqrt();
                let expected = (f64::from(x[i]) - mean) * factor + bias.map_or(0.0, |b| f64::from(b[i]));
                assert_close(out[i], expected, 5e-7 * (1.0 + expected.abs()), "layer_norm");
            }
        }
    }
}

#[test]
fn activation_functions() {
    let gelu = |x: f64| {
        0.5 * x
            * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + f64::from(0.044715f32) * x.powi(3))).tanh())
    };
    let silu = |x: f64| x / (1.0 + (-x).exp());
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))) {
        let x: Vec<f32> = noise(n, 1).iter().map(|x| x * 12.0).collect();
        let up = noise(n, 2);
        let (mut gelus, mut silus) = (x.clone(), x.clone());
        (kernels.gelu_tanh)(&mut gelus);
        (kernels.silu)(&mut silus);
        let (mut exact, mut capped) = (x.clone(), x.clone());
        (kernels.gelu_erf)(&mut exact);
        (kernels.softcap)(&mut capped, 3.0);
        let (mut gelu_up, mut silu_up) = (x.clone(), x.clone());
        (kernels.gelu_mul)(&mut gelu_up, &up);
        (kernels.silu_mul)(&mut silu_up, &up);
        let mut exact_up = x.clone();
        (kernels.gelu_erf_mul)(&mut exact_up, &up);
        let (mut gated, mut clamped) = (x.clone(), x.clone());
        (kernels.sigmoid_mul)(&mut gated, &up);
        let wide_up: Vec<f32> = up.iter().map(|x| x * 9.0).collect();
        (kernels.swiglu_clamped_mul)(&mut clamped, &wide_up);
        for i in 0..n {
            let (x, up) = (f64::from(x[i]), f64::from(up[i]));
            // 1 + tanh cancels for negative x, so gelu's error is absolute.
            assert_close(gelus[i], gelu(x), 4e-7 * (1.0 + x.abs()), "gelu");
            let erf_form = 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()));
            assert_close(exact[i], erf_form, 2e-7 * (1.0 + x.abs()), "gelu_erf");
            assert_close(exact_up[i], erf_form * up, 2e-7 * (1.0 + x.abs()), "gelu_erf_mul");
            let cap = 3.0 * (x / 3.0).tanh();
            assert_close(capped[i], cap, 5e-7 * cap.abs(), "softcap");
            assert_close(silus[i], silu(x), 5e-7 * silu(x).abs(), "silu");
            assert_close(gelu_up[i], gelu(x) * up, 4e-7 * (1.0 + x.abs()), "gelu_mul");
            assert_close(silu_up[i], silu(x) * up, 6e-7 * (silu(x) * up).abs(), "silu_mul");
            let sigmoid = up / (1.0 + (-x).exp());
            assert_close(gated[i], sigmoid, 6e-7 * sigmoid.abs(), "sigmoid_mul");
            let (g, u) = (x.min(7.0), f64::from(wide_up[i]).clamp(-7.0, 7.0));
            let swiglu = g / (1.0 + (-1.702 * g).exp()) * (u + 1.0);
            assert_close(clamped[i], swiglu, 3e-6 * (1.0 + swiglu.abs()), "swiglu_clamped_mul");
        }
    }
    for kernels in tables() {
        let mut x = [1e30, -1e30, 0.0, f32::INFINITY];
        (kernels.gelu_tanh)(&mut x);
        assert_eq!(x, [1e30, 0.0, 0.0, f32::INFINITY]);
        let mut x = [1e30, -1e30, 0.0, f32::INFINITY];
        (kernels.silu)(&mut x);
        assert_eq!(x, [1e30, 0.0, 0.0, f32::INFINITY]);
        let mut x = [1e30, -1e30, 0.0, f32::INFINITY, f32::NAN];
        (kernels.gelu_erf)(&mut x);
        assert_eq!(x[..4], [1e30, 0.0, 0.0, f32::INFINITY]);
        assert!(x[4].is_nan());
        // Every number of some size, and what is near 0.
        let xs: Vec<f32> = (-60_000..60_000).map(|i| i as f32 * 2e-4).chain([1e-30, -1e-30, 1e-42]).collect();
        let mut ys = xs.clone();
        (kernels.gelu_erf)(&mut ys);
        for (x, y) in xs.iter().zip(ys) {
            let expected = f64::from(*x) * 0.5 * libm::erfc(-f64::from(*x) / 2f64.sqrt());
            assert_close(
                y,
                expected,
                1.5e-7 * (1.0 + f64::from(x.abs())) * f64::from(x.abs()).min(1.0),
                "gelu_erf",
            );
        }
    }
}

#[test]
fn rotations() {
    for (kernels, dim) in tables().flat_map(|k| [8, 64, 80, 256].map(|dim| (k, dim))) {
        for (pairs, style) in [dim / 2, dim / 4, 0]
            .into_iter()
            .flat_map(|p| [(p, RopeStyle::Interleaved), (p, RopeStyle::Halved)])
        {
            let x = noise(dim, 1);
            let angles: Vec<f64> =
                (0..pairs).map(|i| 17.0 * 10000f64.powf(-(i as f64) / pairs as f64)).collect();
            let cos: Vec<f32> = angles.iter().map(|a| a.cos() as f32).collect();
            let sin: Vec<f32> = angles.iter().map(|a| a.sin() as f32).collect();
            let mut rotated = x.clone();
            (kernels.rope)(&mut rotated, &cos, &sin, style);
            for (i, angle) in angles.iter().enumerate() {
                let (a, b) = match style {
                    RopeStyle::Interleaved => (2 * i, 2 * i + 1),
                    RopeStyle::Halved => (i, i + pairs),
                };
                let (xa, xb) = (f64::from(x[a]), f64::from(x[b]));
                assert_close(rotated[a], xa * angle.cos() - xb * angle.sin(), 3e-7, "rope");
                assert_close(rotated[b], xa * angle.sin() + xb * angle.cos(), 3e-7, "rope");
            }
            assert_eq!(rotated[2 * pairs..], x[2 * pairs..]);
        }
    }
}
