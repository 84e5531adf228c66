//! Mixtures of experts.

use super::*;

#[test]
fn experts_are_chosen_by_their_share() {
    let logits = [0.5, f32::NAN, 2.0, 2.0, -1.0, 1.0, 7.0, 7.0, 7.0, 0.0];
    for normalize in [false, true] {
        check!("moe_route", 0.0, |b| {
            let logits = buffer(b, &logits);
            let mut route = b.alloc(2 * 3 * 2).expect("memory");
            let (n, n_expert, n_used, scale) = (2, 5, 3, 1.0);
            let (gating, bias, normalize) = (Gating::Softmax, None, normalize.then_some(0.0));
            let args = MoeRoute {
                logits: &logits,
                n,
                n_expert,
                n_used,
                gating,
                bias,
                normalize,
                scale,
                scales: None,
                groups: None,
                route: &mut route,
            };
            b.moe_route(args);
            // Equal logits in the order of their numbers, NaN last; the second row has shares near a third each.
            let experts: Vec<f32> = route.iter().step_by(2).copied().collect();
            assert_eq!(experts, [2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
            let shares = &route[6..];
            let total = 3.0 + f64::exp(-6.0) + f64::exp(-7.0);
            let expected = if normalize.is_some() { 1.0 / 3.0 } else { 1.0 / total };
            assert!(shares.iter().skip(1).step_by(2).all(|&s| (f64::from(s) - expected).abs() < 1e-6));
            shares.to_vec()
        });
    }
}

/// Sigmoids, of which a bias chooses others than the largest; the shares themselves know nothing of it.
#[test]
fn experts_are_chosen_by_their_sigmoid_and_a_bias() {
    let logits = [0.5, -1.0, 2.0, 0.1];
    let share = |x: f64| 1.0 / (1.0 + (-x).exp());
    for (gating, normalize) in [
        (Gating::Sigmoid, None),
        (Gating::Sigmoid, Some(1e-6)),
        (Gating::Softmax, None),
        (Gating::Softmax, Some(0.0)),
    ] {
        check!("moe_route with a bias", 0.0, |b| {
            let file = Arc::new(
                FileBytes::copy(bytemuck::cast_slice(&[0.0f32, 0.9, -0.9, 0.3]), &Memory::default())
                    .expect("memory"),
            );
            let (format, role) = (Format::F32, WeightRole::Vector);
            let source =
                WeightSource { name: "b", file: &file, offset: 0, format, n_rows: 1, n_cols: 4, role };
            let bias = b.upload(&source).expect("memory");
            b.finish().expect("memory");
            let x = buffer(b, &logits);
            let mut route = b.alloc(4).expect("memory");
            let (logits, bias) = (&x, Some(&bias));
            let (n, n_expert, n_used, scale) = (1, 4, 2, 2.5);
            b.moe_route(MoeRoute {
                logits,
                n,
                n_expert,
                n_used,
                gating,
                bias,
                normalize,
                scale,
                scales: bias,
                groups: None,
                route: &mut route,
            });
            assert_eq!([route[0], route[2]], [1.0, 3.0], "{gating:?}");
            let of = |expert: f32| match gating {
                Gating::Sigmoid | Gating::SparseMixer => share(f64::from(x[expert as usize])),
                Gating::Softmax => {
                    f64::from(x[expert as usize]).exp() / x.iter().map(|&x| f64::from(x).exp()).sum::<f64>()
                }
            };
            let total = normalize.map_or(1.0, |epsilon| of(1.0) + of(3.0) + f64::from(epsilon));
            for (expert, found) in [(1.0, route[1]), (3.0, route[3])] {
                let own = if expert == 1.0 { 0.9 } else { 0.3 };
                let expected = 2.5 * own * of(expert) / total;
                assert!((f64::from(found) - expected).abs() < 1e-6, "{gating:?} {found}");
            }
            route.to_vec()
        });
    }
}

/// The second expert's share is among those that are left, and none is as near to another as a fiftieth where the share is 1.
#[test]
fn a_sparse_mixer_shares_among_those_that_are_near() {
    let logits = [1.0f32, 0.99, 2.0, 1.97, -3.0, 0.5];
    let near = |x: f64, others: &[f64]| 1.0 / (1.0 + others.iter().map(|y| (y - x).exp()).sum::<f64>());
    let (one, other) = (f64::from(logits[2]), f64::from(logits[3]));
    // Of the first 1.97 is as near as 0.015; of the second no other is.
    check!("moe_route by a sparse mixer", 0.0, |b| {
        let x = buffer(b, &logits);
        let mut route = b.alloc(4).expect("memory");
        b.moe_route(MoeRoute {
            logits: &x,
            n: 1,
            n_expert: 6,
            n_used: 2,
            gating: Gating::SparseMixer,
            bias: None,
            normalize: None,
            scale: 1.0,
            scales: None,
            groups: None,
            route: &mut route,
        });
        assert_eq!([route[0], route[2]], [2.0, 3.0]);
        assert!((f64::from(route[1]) - near(one, &[other])).abs() < 1e-6, "{}", route[1]);
        assert!((f64::from(route[3]) - 1.0).abs() < 1e-6, "{}", route[3]);
        route.to_vec()
    });
}

#[test]
fn however_many_experts_are_chosen_in_their_order() {
    let sizes = (1..40usize).flat_map(|n| [(n, 1), (n, n.div_ceil(3)), (n, n)]);
    for (n_expert, n_used) in sizes.chain([(50_000, 50_000), (50_000, 25_000)]) {
        // Many are equal, 0 and -0 too.
        let logits: Vec<f32> = noise(n_expert, n_used as u32).iter().map(|x| (x * 8.0).trunc()).collect();
        let mut expected: Vec<usize> = (0..n_expert).collect();
        expected.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).expect("numbers"));
        check!("moe_route", 0.0, |b| {
            let logits = buffer(b, &logits);
            let mut route = b.alloc(2 * n_used).expect("memory");
            b.moe_route(MoeRoute {
                logits: &logits,
                n: 1,
                n_expert,
                n_used,
                gating: Gating::Softmax,
                bias: None,
                normalize: None,
                scale: 1.0,
                scales: None,
                groups: None,
                route: &mut route,
            });
            let chosen = route.iter().step_by(2).map(|&expert| expert as usize);
            assert!(chosen.eq(expected[..n_used].iter().copied()), "{n_used} of {n_expert}");
            route.to_vec()
        });
    }
}

#[test]
fn products_with_chosen_experts() {
    let (n, n_expert, n_used, n_rows, n_cols) = (3, 4, 2, 70, 96);
    let chosen = [3usize, 0, 1, 3, 2, 2];
    let share = |slot: usize| 0.25 + slot as f32 / 10.0;
    let route: Vec<f32> = chosen.iter().enumerate().flat_map(|(slot, &e)| [e as f32, share(slot)]).collect();
    for (format, tolerance) in [(Format::F32, F32), (Format::Q8_0, QUANTIZED)] {
        for (reduce, has_bias) in [(false, false), (true, false), (false, true), (true, true)] {
            let (n_in, n_out) = if reduce { (n * n_used, n) } else { (n, n * n_used) };
            check!("moe_matmul", tolerance, |b| {
                let w = weight(b, format, n_expert * n_rows, n_cols, 1, WeightRole::Matrix);
                let x = buffer(b, &noise(n_in * n_cols, 2));
                let route = buffer(b, &route);
                let mut out = b.alloc(n_out * n_rows).expect("memory");
                let (weight, route, out_ref) = (&w, &route, &mut out);
                let bias =
                    &crate::backend::tests::weight(b, Format::F32, n_expert, n_rows, 9, WeightRole::Vector);
                let bias = has_bias.then_some(bias);
                b.moe_matmul(MoeMatmul {
                    x: &x,
                    n,
                    weight,
                    bias,
                    n_expert,
                    n_used,
                    route,
                    reduce,
                    out: out_ref,
                });
                // The definition in plain numbers, from the product with all experts.
                let mut all = b.alloc(n_in * n_expert * n_rows).expect("memory");
                b.matmul(&x, n_in, Product { weight: &w, out: &mut all });
                let bias = |expert: usize, i: usize| bias.map_or(0.0, |b| b.f32s()[expert * n_rows + i]);
                let y = |input: usize, slot: usize, i: usize| {
                    let expert = chosen[slot];
                    all[(input * n_expert + expert) * n_rows + i] + bias(expert, i)
                };
                for (at, &got) in out.iter().enumerate() {
                    let (row, i) = (at / n_rows, at % n_rows);
                    let want = match reduce {
                        false => y(row / n_used, row, i),
                        true => (0..n_used)
                            .map(|j| row * n_used + j)
                            .map(|slot| share(slot) * y(slot, slot, i))
                            .sum(),
                    };
                    assert!((got - want).abs() <= 1e-4, "{got} instead of {want}");
                }
                out.to_vec()
            });
        }
    }
}
