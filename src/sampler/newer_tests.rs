#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use super::*;

fn sampler(stages: &[Stage]) -> Sampler {
    let mut sampler = Sampler::new(1);
    stages.iter().for_each(|stage| sampler.push(stage.clone()).unwrap());
    sampler
}

/// [index of the logits, chosen token, [[token, probability], …]].
type Step = (usize, u32, Vec<(u32, f64)>);

#[test]
fn adaptive_p_learns_as_llama_cpps_does() {
    #[derive(serde::Deserialize)]
    struct Run {
        target: f32,
        decay: f32,
        steps: Vec<Step>,
    }
    #[derive(serde::Deserialize)]
    struct Golden {
        logits: Vec<Vec<f32>>,
        adaptive_p: Vec<Run>,
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sampler.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(golden.adaptive_p.len() >= 6);
    for run in &golden.adaptive_p {
        let mut sampler = sampler(&[Stage::AdaptiveP { target: run.target, decay: run.decay }]);
        for (i, (logits, chosen, wanted)) in run.steps.iter().enumerate() {
            sampler.candidates.fill(&golden.logits[*logits], 0).unwrap();
            sampler.apply(0).unwrap();
            let total = sampler.candidates.weigh() as f64;
            for (found, (id, wanted)) in sampler.candidates.iter().zip(wanted) {
                let found = (found.id, found.weight as f64 / total);
                assert!(found.0 == *id && (found.1 - wanted).abs() < 1e-5, "step {i}: {found:?} {wanted}");
            }
            sampler.average.choose(*chosen, sampler.before.probability(*chosen));
            // As the fixture's maker does.
            sampler.accept(if i % 3 < 2 { *chosen } else { (chosen + 1) % 48 });
        }
    }
}

#[test]
fn adaptive_p_is_copied_and_starts_over_with_what_it_learnt() {
    let logits: Vec<f32> = (0..40).map(|i| -(i as f32) / 4.0).collect();
    let mut chain = sampler(&[Stage::AdaptiveP { target: 0.1, decay: 0.9 }]);
    let draw = |chain: &mut Sampler| {
        let token = chain.sample(&logits).unwrap();
        chain.accept(token);
        token
    };
    let first: Vec<u32> = (0..50).map(|_| draw(&mut chain)).collect();
    let mut copy = chain.try_clone().unwrap();
    let next: Vec<u32> = (0..50).map(|_| draw(&mut chain)).collect();
    assert_eq!((0..50).map(|_| draw(&mut copy)).collect::<Vec<_>>(), next);
    chain.reset();
    assert_eq!((0..50).map(|_| draw(&mut chain)).collect::<Vec<_>>(), first);
    let twice = chain.push(Stage::AdaptiveP { target: 0.1, decay: 0.9 }).unwrap_err();
    assert!(twice.message().contains("adaptive-p"), "{twice}");
}

/// Tokens by their texts; that of number 0 is an end.
struct Words(Vec<&'static str>);

impl Vocabulary for Words {
    fn is_end(&self, token: u32) -> bool {
        token == 0
    }
    fn text(&self, token: u32) -> &[u8] {
        self.0[token as usize].as_bytes()
    }
    fn end(&self) -> Option<u32> {
        (!self.0.is_empty()).then_some(0)
    }
}

/// The candidates and their probabilities that llama.cpp's loops, written down plainly, leave.
fn plain_infill(words: &Words, logits: &[f32]) -> Vec<(u32, f64)> {
    let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
    let mut all: Vec<(u32, f64, bool)> =
        (0..).zip(logits).map(|(id, &x)| (id, f64::from(x).exp() / total, true)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let ends: f64 = all.iter().filter(|c| words.is_end(c.0)).map(|c| c.1).sum();
    if 3.0 * ends * all.len() as f64 > 1.0 - ends {
        return vec![(0, 1.0)];
    }
    for a in 0..all.len() {
        for b in 0..all.len() {
            if !all[a].2 {
                break;
            }
            let (text, other) = (words.text(all[a].0), words.text(all[b].0));
            if a == b || !all[b].2 || text.is_empty() || !other.starts_with(text) {
                continue;
            }
            let (to, gone) = if all[b].1 > all[a].1 { (b, a) } else { (a, b) };
            all[to].1 += all[gone].1;
            (all[gone].1, all[gone].2) = (0.0, false);
        }
    }
    all.retain(|c| c.2 && (words.is_end(c.0) || c.1 >= 0.2));
    let n = all.iter().filter(|c| !words.is_end(c.0)).count();
    if n == 0 {
        return vec![(0, 1.0)];
    }
    let sum: f64 = all.iter().map(|c| c.1).sum();
    all.retain(|c| words.is_end(c.0) || c.1 / sum >= 1.0 / (n + 1) as f64);
    let sum: f64 = all.iter().map(|c| c.1).sum();
    let mut left: Vec<(u32, f64)> = all.iter().map(|c| (c.0, c.1 / sum)).collect();
    left.sort_by_key(|c| c.0);
    left
}

#[test]
fn infill_merges_as_the_plain_loops_do() {
    let mut rng = Rng::new(9);
    let mut several = 0;
    for case in 0..600 {
        let n = 2 + rng.below(40) as usize;
        let texts = ["", "a", "b", "ab", "aba", "abb", "ba", "bab", "a", "abab", "c", "ca"];
        let words = Words((0..n).map(|_| texts[rng.below(texts.len() as u64) as usize]).collect());
        let logits: Vec<f32> =
            (0..n).map(|i| rng.below(4096) as f32 / 800.0 - if i == 0 { 12.0 } else { 2.0 }).collect();
        let wanted = plain_infill(&words, &logits);
        let mut sampler = sampler(&[Stage::Infill(Infill::new(Arc::new(words)).unwrap())]);
        sampler.candidates.fill(&logits, 0).unwrap();
        sampler.apply(0).unwrap();
        let total = sampler.candidates.weigh() as f64;
        let found: Vec<(u32, f64)> =
            sampler.candidates.iter().map(|c| (c.id, c.weight as f64 / total)).collect();
        let near = |(a, b): (&(u32, f64), &(u32, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-5;
        assert!(
            found.len() == wanted.len() && found.iter().zip(&wanted).all(near),
            "{case}: {found:?}, not {wanted:?}"
        );
        several += usize::from(found.len() > 1);
    }
    assert!(several > 100, "{several}");
    assert!(Infill::new(Arc::new(Words(Vec::new()))).is_err());
}

/// Without a look at the clock: the plain loops take a quarter of an hour here.
#[test]
fn infill_of_a_whole_vocabulary_is_quick() {
    let texts = ["a", "ab", "abc", "b", "bc", "c", ""];
    let words = Words((0..200_000).map(|i| texts[i % texts.len()]).collect());
    let logits: Vec<f32> =
        (0..200_000).map(|i| (i % 977) as f32 / 500.0 - if i == 0 { 30.0 } else { 0.0 }).collect();
    let mut sampler = sampler(&[Stage::Infill(Infill::new(Arc::new(words)).unwrap())]);
    assert!(sampler.sample(&logits).is_ok());
}

/// The definition, in double precision.
#[test]
fn top_n_sigma_passes_over_what_is_ruled_out() {
    let logits: Vec<f32> = (0..3000)
        .map(|i| if i % 3 == 0 { f32::NEG_INFINITY } else { ((i * 37) % 101) as f32 / 9.0 })
        .collect();
    let possible: Vec<f64> = logits.iter().filter(|x| x.is_finite()).map(|&x| f64::from(x)).collect();
    let mean = possible.iter().sum::<f64>() / possible.len() as f64;
    let sigma = (possible.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / possible.len() as f64).sqrt();
    let max = possible.iter().copied().fold(f64::MIN, f64::max);
    for n in [0.0, 0.3, 1.0, 2.0, 1e30] {
        let mut sampler = sampler(&[Stage::TopNSigma(n)]);
        sampler.candidates.fill(&logits, 0).unwrap();
        sampler.apply(0).unwrap();
        let wanted = possible.iter().filter(|&&x| n == 0.0 || x >= max - f64::from(n) * sigma).count();
        assert_eq!(sampler.candidates.len(), wanted, "{n}");
    }
    assert!(sampler(&[Stage::TopNSigma(1.0), Stage::Greedy]).is_greedy());
    assert!(!sampler(&[Stage::Greedy, Stage::AdaptiveP { target: 0.1, decay: 0.5 }]).is_greedy());
}

/// Where generated tokens alone count, those of a prompt keep their logits, but for the penalty of repetition.
#[test]
fn penalties_of_generated_tokens_pass_over_the_prompt() {
    let penalties = Penalties { last_n: 8, repeat: 2.0, frequency: 3.0, presence: 1.0 };
    let mut sampler = sampler(&[Stage::Penalties(penalties)]);
    let logits = [10.0, 10.0, 10.0, 10.0];
    let penalized = |sampler: &mut Sampler| {
        sampler.candidates.fill(&logits, 0).unwrap();
        sampler.apply(0).unwrap();
        let mut all: Vec<(u32, f32)> = sampler.candidates.iter().map(|c| (c.id, c.logit)).collect();
        all.sort_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, logit)| logit).collect::<Vec<f32>>()
    };
    sampler.read(&[0, 0, 1]);
    [1, 2, 2].into_iter().for_each(|id| sampler.accept_generated(id));
    assert_eq!(penalized(&mut sampler), [5.0 - 7.0, 5.0 - 7.0, 5.0 - 7.0, 10.0]);
    sampler.set_penalties_generated_only(true);
    assert_eq!(penalized(&mut sampler), [5.0, 5.0 - 4.0, 5.0 - 7.0, 10.0]);
    assert_eq!(penalized(&mut sampler.try_clone().unwrap()), [5.0, 5.0 - 4.0, 5.0 - 7.0, 10.0]);
    // The next prompt has them all.
    sampler.read(&[0, 0, 1, 1, 2, 2]);
    assert_eq!(penalized(&mut sampler), [5.0, 5.0, 5.0, 10.0]);
    sampler.accept_generated(3);
    assert_eq!(penalized(&mut sampler), [5.0, 5.0, 5.0, 5.0 - 4.0]);
    sampler.accept(3);
    assert_eq!(penalized(&mut sampler), [5.0; 4]);
}
