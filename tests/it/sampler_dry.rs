//! The stage DRY against llama.cpp's (`tests/oracle/dry_golden.py`), breakers included.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use ember::generate::breakers;
use ember::model::{LoadOptions, LoadedModel};
use ember::sampler::{Custom, Dry, Sampler, Stage};

#[derive(serde::Deserialize)]
struct Case {
    /// Multiplier, base, allowed length, last n.
    parameters: (f32, f32, usize, usize),
    breakers: Vec<String>,
    accepted: Vec<u32>,
    penalties: Vec<(u32, f32)>,
}

#[test]
fn penalties_are_those_of_llama_cpp() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model =
        LoadedModel::open(&root.join("examples/models/ember-tales.gguf"), &LoadOptions::default()).unwrap();
    let cases = std::fs::read(root.join("tests/fixtures/dry.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&cases).unwrap();
    assert!(cases.len() >= 200 && cases.iter().filter(|case| case.penalties.len() > 1).count() > 50);
    for case in &cases {
        let texts: Vec<&str> = case.breakers.iter().map(String::as_str).collect();
        let (multiplier, base, allowed_length, last_n) = case.parameters;
        let breakers = breakers(model.tokenizer().unwrap(), &texts).unwrap();
        let mut sampler = Sampler::new(1);
        sampler.push(Stage::Dry(Dry { multiplier, base, allowed_length, last_n, breakers })).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let looking = Arc::clone(&seen);
        let look = Custom::new(move |_, logits| {
            *looking.lock().unwrap() = logits.to_vec();
            Ok(())
        });
        sampler.push(Stage::Custom(look)).unwrap();
        case.accepted.iter().for_each(|&token| sampler.accept(token));
        sampler.sample(&vec![0.0; model.info().n_vocab]).unwrap();
        let seen = seen.lock().unwrap();
        let found = (0..).zip(seen.iter().map(|logit: &f32| -logit));
        let found: Vec<(u32, f32)> = found.filter(|(_, penalty)| *penalty != 0.0).collect();
        let same = found.len() == case.penalties.len()
            && found.iter().zip(&case.penalties).all(|(a, b)| a.0 == b.0 && (a.1 / b.1 - 1.0).abs() < 1e-5);
        assert!(
            same,
            "{:?} {:?} {:?}: {found:?}, not {:?}",
            case.parameters, texts, case.accepted, case.penalties
        );
    }
}

#[test]
fn refused_breakers_are_named_by_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model =
        LoadedModel::open(&root.join("examples/models/ember-tales.gguf"), &LoadOptions::default()).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let refused = |texts: &[&str]| breakers(tokenizer, texts).unwrap_err().to_string();
    let error = refused(&["a", "b", ""]);
    assert!(error.contains("breaker 2") && error.contains("1 to 40 bytes, got 0"), "{error}");
    let long = "x".repeat(100_000);
    let error = refused(&["a", &long]);
    assert!(error.contains("breaker 1") && error.contains("got 100000") && error.len() < 300, "{error}");
    let many: Vec<String> = (0..129).map(|i| i.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(breakers(tokenizer, &[&many[..128], &many[..128]].concat()).is_ok(), "128 different ones");
    assert!(refused(&many).contains("128"));
}
