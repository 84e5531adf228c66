#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;

/// Repeatable logits in -8..8, with many equal ones.
fn logits(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    (0..n).map(|_| rng.below(256) as f32 / 16.0 - 8.0).collect()
}

fn sampler(seed: u64, stages: &[Stage]) -> Sampler {
    let mut sampler = Sampler::new(seed);
    stages.iter().for_each(|stage| sampler.push(stage.clone()).unwrap());
    sampler
}

fn message(result: Result<impl std::fmt::Debug>) -> String {
    result.unwrap_err().message().to_owned()
}

/// The ids that a chain leaves, by ascending id.
fn kept(logits: &[f32], stage: Stage) -> Vec<u32> {
    let mut sampler = sampler(0, &[stage]);
    sampler.candidates.fill(logits, 0).unwrap();
    sampler.apply(0).unwrap();
    sampler.candidates.iter().map(|c| c.id).collect()
}

/// Ids by descending logit, equal ones by ascending id: a full, stable sort.
fn sorted(logits: &[f32]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap());
    ids
}

fn ascending(ids: &[u32]) -> Vec<u32> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

#[test]
fn top_k_is_the_head_of_a_sort() {
    for seed in 0..20 {
        let logits = logits(500, seed);
        let order = sorted(&logits);
        for k in [1, 2, 7, 40, 499, 500, 501, usize::MAX] {
            let best = ascending(&order[..k.min(500)]);
            assert_eq!(kept(&logits, Stage::TopK(k)), best, "k = {k}");
            let mut candidates = Candidates::default();
            candidates.fill(&logits, k).unwrap();
            assert!(candidates.iter().map(|c| c.id).eq(best), "k = {k}");
        }
        assert_eq!(kept(&logits, Stage::TopK(0)).len(), 500);
    }
}

/// Penalties divide logits, so they need the original numbers, and not their distances from the largest.
#[test]
fn temperatures_divide_and_do_no_more() {
    let logits = [2.0f32, 1.9, -5.0];
    let flat = Stage::DynamicTemperature { temperature: 1.0, range: 0.0, exponent: 1.0 };
    let warm = Stage::DynamicTemperature { temperature: 2.0, range: 0.5, exponent: 1.0 };
    for heat in [Stage::Temperature(1.0), Stage::Temperature(0.5), flat, warm] {
        let penalties = Penalties { last_n: 8, repeat: 2.0, frequency: 0.0, presence: 0.0 };
        let mut sampler = sampler(0, &[heat.clone(), Stage::Penalties(penalties), Stage::Greedy]);
        assert_eq!(sampler.sample(&logits), Ok(0), "{heat:?}");
        sampler.accept(0);
        assert_eq!(sampler.sample(&logits), Ok(1), "{heat:?}");
    }
    // Where that would leave only infinities, the largest is subtracted first.
    let mut tiny = sampler(0, &[Stage::Temperature(1e-40)]);
    assert_eq!(tiny.sample(&logits), Ok(0));
}

#[test]
fn top_p_is_the_shortest_head_of_a_sort_that_reaches_p() {
    for seed in 0..20 {
        for n in [1, 2, 3, 65, 500, 5000, 30_000] {
            if n > 5000 && seed > 0 {
                continue;
            }
            let logits = logits(n, seed);
            let order = sorted(&logits);
            let probability = |id: &u32| f64::from(logits[*id as usize]).exp();
            let total: f64 = order.iter().map(probability).sum();
            for p in [1e-9, 0.1, 0.5, 0.9, 0.95, 0.999] {
                let mut sum = 0.0;
                let head = order.iter().position(|id| {
                    sum += probability(id) / total;
                    sum >= f64::from(p)
                });
                let expected = ascending(&order[..head.unwrap() + 1]);
                assert_eq!(kept(&logits, Stage::TopP(p)), expected, "n = {n}, p = {p}");
            }
            assert_eq!(kept(&logits, Stage::TopP(1.0)).len(), n);
        }
    }
}

#[test]
fn a_temperature_that_leaves_nothing_but_the_largest_logits_leaves_them_to_every_stage() {
    // All others become -inf.
    let logits: Vec<f32> = (0..100).map(|i| if i % 40 == 7 { 3.0 } else { -(i as f32) }).collect();
    let dynamic = Stage::DynamicTemperature { temperature: 3e38, range: 3e38, exponent: 1.0 };
    for (stage, all_three) in [
        (Stage::TopK(3), true),
        (Stage::TopP(0.99), true),
        (Stage::MinP(0.5), true),
        (Stage::TypicalP(0.99), true),
        (Stage::Deny(vec![8]), true),
        (Stage::Mirostat { tau: 9.0, eta: 0.1 }, true),
        (Stage::Mirostat1 { tau: 9.0, eta: 0.1, m: 100 }, true),
        (Stage::TopNSigma(1.0), true),
        (Stage::AdaptiveP { target: 0.5, decay: 0.5 }, true),
        (dynamic, true),
        // Leaves the last of those above the threshold.
        (Stage::Xtc { probability: 1.0, threshold: 0.0 }, false),
    ] {
        for then in [Stage::TopP(0.9), Stage::MinP(0.5), Stage::TypicalP(0.9)] {
            let mut chain = sampler(1, &[Stage::Temperature(1e-45), stage.clone(), then.clone()]);
            let tokens: Vec<_> = (0..50).map(|_| chain.sample(&logits).unwrap()).collect();
            let best: Vec<_> = [7, 47, 87].into_iter().filter(|best| tokens.contains(best)).collect();
            assert!(!all_three || best.len() > 1, "{stage:?}, {then:?}: {tokens:?}");
            assert!(tokens.iter().all(|token| token % 40 == 7), "{stage:?}, {then:?}: {tokens:?}");
        }
    }
}

#[test]
fn parameters_that_are_huge_leave_numbers() {
    let penalties = Penalties { last_n: 8, repeat: 3e38, frequency: -3e38, presence: -3e38 };
    let heat = Stage::DynamicTemperature { temperature: 3e38, range: 3e38, exponent: 1.0 };
    for stage in [Stage::Penalties(penalties), heat] {
        for then in [Stage::TopP(0.5), Stage::MinP(0.5), Stage::TypicalP(0.5), Stage::Greedy] {
            let mut chain = sampler(1, &[Stage::TopK(1), stage.clone(), then.clone()]);
            (0..3).for_each(|_| chain.accept(1));
            assert_eq!(chain.sample(&[-20.0, -10.0]).unwrap(), 1, "{stage:?}, {then:?}");
        }
    }
    let mut heated = sampler(
        1,
        &[Stage::DynamicTemperature { temperature: 3e38, range: 3e38, exponent: 1.0 }, Stage::Greedy],
    );
    assert_eq!(heated.sample(&[100.0, 0.0]).unwrap(), 0);
}

#[test]
fn of_many_equal_logits_the_first_count() {
    // One that is likelier than each, while they together are likelier than that one.
    for (n, logit) in [(5000, -1.5), (50_000, 0.0), (300, 1.0)] {
        let mut logits = vec![logit; n];
        logits[n / 2] = logit + 1.5;
        let weight = f64::exp(1.5);
        let reach = (0.9 * (n as f64 - 1.0 + weight) - weight).ceil() as u32;
        let mut expected: Vec<u32> =
            (0..n as u32).filter(|&id| id != n as u32 / 2).take(reach as usize).collect();
        expected.push(n as u32 / 2);
        assert_eq!(kept(&logits, Stage::TopP(0.9)), ascending(&expected), "{n}");
    }
    // In several of the chunks that are compared together.
    let mut logits = logits(1000, 1);
    [990, 700, 300].into_iter().for_each(|at| logits[at] = 20.0);
    assert_eq!(sampler(0, &[Stage::Greedy]).sample(&logits).unwrap(), 300);
}

#[test]
fn greedy_takes_the_lowest_id_of_equal_logits() {
    let logits = [1.0, 3.0, -2.0, 3.0, f32::NEG_INFINITY];
    for stages in [
        &[Stage::Greedy][..],
        &[Stage::Temperature(0.0)],
        &[Stage::Temperature(-0.0)],
        &[Stage::TopK(40), Stage::TopP(0.9), Stage::Temperature(0.0)],
        &[Stage::Temperature(1.5), Stage::Greedy],
        &[Stage::TopK(1)],
        &[Stage::TopP(1e-6)],
    ] {
        assert_eq!(sampler(5, stages).sample(&logits).unwrap(), 1, "{stages:?}");
    }
    assert_eq!(sampler(5, &[Stage::TopK(1)]).sample(&[-0.0, 0.0]).unwrap(), 0);
    assert_eq!(sampler(5, &[Stage::Greedy]).sample(&[-0.0, 0.0]).unwrap(), 0);
}

/// Pearson's statistic of 100,000 draws against the expected shares; the bound is the 99.99 % quantile for 7 degrees of
/// freedom.
fn assert_distribution(stages: &[Stage], logits: &[f32; 8], expected: [f64; 8]) {
    const DRAWS: f64 = 100_000.0;
    let mut sampler = sampler(7, stages);
    let mut counts = [0.0; 8];
    for _ in 0..DRAWS as usize {
        counts[sampler.sample(logits).unwrap() as usize] += 1.0;
    }
    let total: f64 = expected.iter().sum();
    let mut statistic = 0.0;
    for (count, expected) in counts.iter().zip(expected) {
        if expected == 0.0 {
            assert_eq!(*count, 0.0, "{stages:?}: {counts:?}");
        } else {
            let expected = expected / total * DRAWS;
            statistic += (count - expected) * (count - expected) / expected;
        }
    }
    assert!(statistic < 29.9, "{stages:?}: {statistic}, {counts:?}");
}

#[test]
fn draws_follow_the_probabilities() {
    let logits = [0.5, -1.0, 2.0, 0.0, 1.5, -3.0, 1.0, 0.5];
    let share = logits.map(|x: f32| f64::from(x).exp());
    assert_distribution(&[], &logits, share);
    assert_distribution(&[Stage::Temperature(0.5)], &logits, share.map(|p| p * p));
    assert_distribution(&[Stage::Temperature(2.0)], &logits, share.map(f64::sqrt));
    let among = |ids: &[usize]| std::array::from_fn(|i| if ids.contains(&i) { share[i] } else { 0.0 });
    assert_distribution(&[Stage::TopK(4)], &logits, among(&[0, 2, 4, 6]));
    assert_distribution(&[Stage::TopP(0.7)], &logits, among(&[2, 4, 6]));
    let both = [Stage::TopK(3), Stage::TopP(0.7), Stage::Temperature(2.0)];
    assert_distribution(&both, &logits, among(&[2, 4]).map(f64::sqrt));
}

#[test]
fn a_seed_gives_the_same_tokens() {
    let logits = logits(1000, 3);
    let stages = [Stage::TopK(40), Stage::TopP(0.95), Stage::Temperature(0.8)];
    let run =
        |sampler: &mut Sampler| -> Vec<u32> { (0..12).map(|_| sampler.sample(&logits).unwrap()).collect() };
    let mut a = sampler(42, &stages);
    let tokens = run(&mut a);
    // Computed with an independent implementation of the chain and the generator.
    assert_eq!(tokens, [729, 500, 882, 703, 723, 590, 195, 608, 278, 821, 585, 751]);
    assert_ne!(run(&mut a), tokens, "the state moves on");
    a.reset();
    assert_eq!(run(&mut a), tokens);
    assert_eq!(a.seed(), 42);
    assert_ne!(run(&mut sampler(43, &stages)), tokens);
}

#[test]
fn infinities_decide_and_nan_is_an_error() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for stages in
        [&[][..], &[Stage::Greedy], &[Stage::Temperature(1e-40)], &[Stage::TopK(2), Stage::TopP(0.5)]]
    {
        let mut s = sampler(1, stages);
        assert_eq!(s.sample(&[0.0, inf, 5.0]).unwrap(), 1, "{stages:?}");

        assert_eq!(s.sample(&[-inf, -3e38, -inf]).unwrap(), 1);
        assert_eq!(message(s.sample(&[0.0, 1.0, nan])), "the logit of token 2 is NaN");
        assert_eq!(message(s.sample(&[inf, nan])), "the logit of token 1 is NaN");
        assert_eq!(message(s.sample(&[-inf; 3])), "every token is ruled out: all logits are -inf");
        assert_eq!(message(s.sample(&[])), "there must be 1 to 16777215 logits to sample from, got 0");
        assert_eq!(s.sample(&[-7.0]).unwrap(), 0);
    }
    let mut s = sampler(1, &[]);
    assert!((0..100).all(|_| s.sample(&[inf, 5.0, inf]).unwrap() != 1));
    let mut extreme = sampler(1, &[Stage::Temperature(f32::MIN_POSITIVE), Stage::TopP(0.9)]);
    assert_eq!(extreme.sample(&[f32::MIN, f32::MAX, 0.0]).unwrap(), 1);
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    let mut s = Sampler::new(0);
    assert_eq!(message(s.push(Stage::Temperature(-1.0))), "temperature must be finite and ≥ 0, got -1");
    assert_eq!(message(s.push(Stage::Temperature(f32::NAN))), "temperature must be finite and ≥ 0, got NaN");
    assert_eq!(
        message(s.push(Stage::Temperature(f32::INFINITY))),
        "temperature must be finite and ≥ 0, got inf"
    );
    for (p, shown) in [(0.0, "0"), (1.5, "1.5"), (-0.1, "-0.1"), (f32::NAN, "NaN")] {
        assert_eq!(
            message(s.push(Stage::TopP(p))),
            format!("top-p must be above 0 and at most 1, got {shown}")
        );
    }
    assert_eq!(s.stages(), []);
}

#[test]
fn as_many_equal_logits_as_are_allowed_do_not_overflow() {
    let most = (1 << 24) - 1;
    let logits = vec![0.0f32; most + 1];
    let mut sampler = Sampler::new(3);
    sampler.push(Stage::TopP(0.5)).unwrap();
    assert!(sampler.sample(&logits[..most]).unwrap() > 0);
    assert!(matches!(sampler.sample(&logits), Err(Error::InvalidArgument(_))));
}

/// The stage of a case of `tests/oracle/sampler_golden.py`.
fn golden_stage(name: &str, p: &[f32]) -> Stage {
    match name {
        "min_p" => Stage::MinP(p[0]),
        "typical_p" => Stage::TypicalP(p[0]),
        "top_p" => Stage::TopP(p[0]),
        "dynamic_temperature" => Stage::DynamicTemperature { temperature: p[0], range: p[1], exponent: p[2] },
        "penalties" => Stage::Penalties(Penalties {
            last_n: p[0] as usize,
            repeat: p[1],
            frequency: p[2],
            presence: p[3],
        }),
        "xtc" => Stage::Xtc { probability: p[0], threshold: p[1] },
        "top_n_sigma" => Stage::TopNSigma(p[0]),
        "mirostat_1" => Stage::Mirostat1 { tau: p[0], eta: p[1], m: p[2] as usize },
        other => panic!("{other}"),
    }
}

#[test]
fn stages_leave_what_llama_cpps_leave() {
    type Case = (String, Vec<f32>, usize, Vec<(u32, f64)>);
    #[derive(serde::Deserialize)]
    struct Golden {
        accepted: Vec<u32>,
        logits: Vec<Vec<f32>>,
        cases: Vec<Case>,
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sampler.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(golden.cases.len() >= 128);
    for (name, parameters, i, wanted) in &golden.cases {
        let mut sampler = sampler(1, &[golden_stage(name, parameters)]);
        golden.accepted.iter().for_each(|&token| sampler.accept(token));
        sampler.candidates.fill(&golden.logits[*i], 0).unwrap();
        sampler.n_vocab = golden.logits[*i].len();
        sampler.apply(0).unwrap();
        let total = sampler.candidates.weigh() as f64;
        let ids = |list: &[(u32, f64)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let got = sampler.candidates.iter().map(|c| (c.id, c.weight as f64 / total));
        let got: Vec<(u32, f64)> = got.collect();
        assert_eq!(ids(&got), ids(wanted), "{name} {parameters:?} {i}");
        for ((id, got), (_, wanted)) in got.iter().zip(wanted) {
            assert!(
                (got - wanted).abs() <= 2e-6,
                "{name} {parameters:?} {i}: token {id} has {got}, not {wanted}"
            );
        }
    }
}

#[test]
fn huge_logits_keep_their_distribution() {
    for stage in [
        Stage::DynamicTemperature { temperature: 1.0, range: 1.0, exponent: 1.0 },
        Stage::TypicalP(0.9),
        Stage::Mirostat { tau: 10.0, eta: 0.1 },
        Stage::Penalties(Penalties { last_n: 9, repeat: 1.0, frequency: 0.0, presence: 0.0 }),
    ] {
        let mut chain = sampler(5, std::slice::from_ref(&stage));
        chain.accept(1);
        let mut n_drawn = [0; 4];
        (0..400).for_each(|_| n_drawn[chain.sample(&[1e38; 4]).unwrap() as usize] += 1);
        assert!(n_drawn.iter().all(|&n| n > 60), "{stage:?}: {n_drawn:?}");
    }
}

#[test]
fn mirostat_follows_the_surprise_that_is_wanted() {
    let logits: Vec<f32> = (0..2000).map(|i| -((i + 1) as f32).ln()).collect();
    let mut sampler = sampler(3, &[Stage::Mirostat { tau: 3.0, eta: 0.1 }]);
    assert_eq!(sampler.bound, 6.0);
    let mut total = 0.0;
    for _ in 0..2000 {
        let before = sampler.bound;
        sampler.sample(&logits).unwrap();
        total += (before - sampler.bound) / f64::from(0.1f32) + 3.0;
    }
    assert!((total / 2000.0 - 3.0).abs() < 0.05, "{}", total / 2000.0);
    let first = sampler.try_clone().unwrap().sample(&logits);
    sampler.reset();
    assert_eq!(sampler.bound, 6.0);
    assert!(first.is_ok());
    assert!(message(sampler.push(Stage::Mirostat { tau: 1.0, eta: 1.0 })).contains("Mirostat"));
    // However low the bound, the likeliest token is left.
    sampler.bound = -5.0;
    assert_eq!(sampler.sample(&logits).unwrap(), 0);
}

#[test]
fn biases_and_lists_change_single_tokens() {
    let logits = [0.0, 1.0, 2.0, 3.0];
    assert_eq!(kept(&logits, Stage::Allow(vec![2, 0, 2, 77])), [0, 2]);
    assert_eq!(kept(&logits, Stage::Deny(vec![3, 1])), [0, 2]);
    assert_eq!(kept(&logits, Stage::Bias(vec![(1, f32::NEG_INFINITY)])), [0, 2, 3]);
    let mut chain = sampler(0, &[Stage::Bias(vec![(0, 1.0), (0, 9.0), (99, 1.0)]), Stage::Greedy]);
    assert_eq!(chain.sample(&logits).unwrap(), 0);
    let mut sums = sampler(0, &[Stage::Bias(vec![(0, 2.0), (3, f32::MIN), (0, 2.0)]), Stage::Greedy]);
    assert_eq!(sums.sample(&logits).unwrap(), 0, "4 after two times 2");
    let ruled_out = vec![(3, 9.0), (3, f32::NEG_INFINITY), (3, f32::NEG_INFINITY)];
    assert_eq!(kept(&logits, Stage::Bias(ruled_out)), [0, 1, 2]);
    let large = vec![(1, 1.0), (5, f32::MAX), (5, f32::MAX)];
    assert!(message(Sampler::new(0).push(Stage::Bias(large.clone()))).contains("token 5"));
    let together = large.into_iter().chain([(5, -f32::MAX)]).collect();
    assert!(Sampler::new(0).push(Stage::Bias(together)).is_ok());
    let mut none = sampler(0, &[Stage::Allow(vec![9])]);
    assert!(message(none.sample(&logits)).contains("allowed"));
    let mut none = sampler(0, &[Stage::Greedy, Stage::Deny(vec![3])]);
    assert!(message(none.sample(&logits)).contains("denied"));
    assert!(message(Sampler::new(0).push(Stage::Bias(vec![(7, f32::NAN)]))).contains("token 7"));
}

#[test]
fn accepted_tokens_count_from_the_latest_back() {
    let stage = |last_n| Stage::Penalties(Penalties { last_n, repeat: 1.0, frequency: 10.0, presence: 0.0 });
    let logits = [5.0, 4.0, 3.0];
    let mut chain = sampler(0, &[stage(2), Stage::Greedy]);
    for (token, best) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
        chain.accept(token);
        assert_eq!(chain.sample(&logits).unwrap(), best);
    }
    let mut copy = chain.try_clone().unwrap();
    copy.accept(1);
    assert_eq!((copy.sample(&logits).unwrap(), chain.sample(&logits).unwrap()), (2, 1));
    chain.reset();
    assert_eq!(chain.sample(&logits).unwrap(), 0);
}

#[test]
fn parameters_that_are_wrong_are_named() {
    let penalties = Penalties { last_n: 1, repeat: 1.0, frequency: 0.0, presence: 0.0 };
    for (stage, word) in [
        (Stage::MinP(1.5), "min-p"),
        (Stage::MinP(f32::NAN), "min-p"),
        (Stage::TypicalP(0.0), "typical-p"),
        (Stage::DynamicTemperature { temperature: -1.0, range: 0.0, exponent: 1.0 }, "temperature"),
        (Stage::DynamicTemperature { temperature: 1.0, range: f32::INFINITY, exponent: 1.0 }, "range"),
        (Stage::DynamicTemperature { temperature: 1.0, range: 1.0, exponent: -1.0 }, "exponent"),
        (Stage::TopNSigma(-0.1), "top-n-sigma"),
        (Stage::TopNSigma(f32::INFINITY), "top-n-sigma"),
        (Stage::AdaptiveP { target: -0.1, decay: 0.5 }, "target"),
        (Stage::AdaptiveP { target: f32::NAN, decay: 0.5 }, "target"),
        (Stage::AdaptiveP { target: 0.5, decay: 1.0 }, "decay"),
        (Stage::Mirostat1 { tau: f32::NAN, eta: 0.1, m: 100 }, "tau"),
        (Stage::Mirostat1 { tau: 5.0, eta: 0.1, m: 1 }, "m must be 2"),
        (Stage::Xtc { probability: 2.0, threshold: 0.1 }, "probability"),
        (Stage::Xtc { probability: 0.5, threshold: -0.1 }, "threshold"),
        (Stage::Mirostat { tau: f32::NAN, eta: 0.1 }, "tau"),
        (Stage::Mirostat { tau: 5.0, eta: -0.1 }, "eta"),
        (Stage::Penalties(Penalties { last_n: usize::MAX, ..penalties }), "last_n"),
        (Stage::Penalties(Penalties { repeat: 0.0, ..penalties }), "repeat"),
        (Stage::Penalties(Penalties { frequency: f32::INFINITY, ..penalties }), "frequency"),
        (Stage::Penalties(Penalties { presence: f32::NAN, ..penalties }), "presence"),
    ] {
        assert!(message(Sampler::new(0).push(stage)).contains(word), "{word}");
    }
}
