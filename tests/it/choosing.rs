//! Samplers that need a model: the stage for gaps in a text against llama.cpp's (`tests/oracle/infill_golden.py`), and what files
//! propose against `transformers` (`tests/oracle/generation_config.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{TempFolder, bundled_model, fixture, load};
use ember::generate::{infill, proposed_sampler};
use ember::gguf::Value;
use ember::model::{LoadOptions, LoadedModel};
use ember::sampler::{Custom, Sampler, Stage};

/// What `sampler` leaves of `logits`: tokens and probabilities.
fn left(mut sampler: Sampler, logits: &[f32]) -> Vec<(u32, f64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let looking = Arc::clone(&seen);
    let look = Custom::new(move |ids, logits| {
        *looking.lock().unwrap() = ids.iter().copied().zip(logits.iter().copied()).collect::<Vec<_>>();
        Ok(())
    });
    sampler.push(Stage::Custom(look)).unwrap();
    sampler.sample(logits).unwrap();
    let seen = seen.lock().unwrap();
    let max = seen.iter().fold(f64::MIN, |max, c| max.max(f64::from(c.1)));
    let total: f64 = seen.iter().map(|c| (f64::from(c.1) - max).exp()).sum();
    seen.iter().map(|c| (c.0, (f64::from(c.1) - max).exp() / total)).collect()
}

fn assert_same(found: &[(u32, f64)], wanted: &[(u32, f64)], what: &str) {
    let near = |(a, b): (&(u32, f64), &(u32, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-5;
    let same = found.len() == wanted.len() && found.iter().zip(wanted).all(near);
    assert!(same, "{what}: {found:?}, not {wanted:?}");
}

#[test]
fn infill_leaves_what_llama_cpps_leaves() {
    #[derive(serde::Deserialize)]
    struct Case {
        logits: Vec<(u32, f32)>,
        left: Vec<(u32, f64)>,
    }
    let model = load(&bundled_model());
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(fixture("infill.json")).unwrap()).unwrap();
    assert!(cases.len() >= 240);
    for (i, case) in cases.iter().enumerate() {
        let mut logits = vec![f32::NEG_INFINITY; model.info().n_vocab];
        case.logits.iter().for_each(|&(token, logit)| logits[token as usize] = logit);
        let mut sampler = Sampler::new(1);
        sampler.push(infill(Arc::clone(model.shared_tokenizer().unwrap())).unwrap()).unwrap();
        assert_same(&left(sampler, &logits), &case.left, &format!("case {i}"));
    }
}

/// The bundled model with further keys.
fn with_keys(keys: &[(&str, Value)]) -> LoadedModel {
    let metadata = keys.iter().map(|(key, value)| (format!("general.sampling.{key}").into(), value.clone()));
    let options = LoadOptions { metadata: metadata.collect(), ..LoadOptions::default() };
    LoadedModel::open(&bundled_model(), &options).unwrap()
}

#[test]
fn keys_of_a_file_become_stages_in_the_order_of_the_file() {
    let none = proposed_sampler(&with_keys(&[]), 1).unwrap_err();
    assert!(
        matches!(none, ember::error::Error::NotFound(_)) && none.message().contains("general.sampling"),
        "{none}"
    );
    let stages = |keys: &[(&str, Value)]| proposed_sampler(&with_keys(keys), 1).unwrap().stages().to_vec();
    let (top_k, top_p, temp) = (("top_k", 20.into()), ("top_p", 0.9f32.into()), ("temp", 0.6f32.into()));
    let usual = [Stage::TopK(20), Stage::TopP(0.9), Stage::Temperature(0.6)];
    assert_eq!(stages(&[temp.clone(), top_p.clone(), top_k.clone()]), usual);
    let sequence = ("sequence", "temperature;Top-P;nonsense;top_k;infill".into());
    let reordered = stages(&[temp.clone(), top_p, top_k.clone(), sequence]);
    assert_eq!(reordered[..3], [Stage::Temperature(0.6), Stage::TopP(0.9), Stage::TopK(20)]);
    assert!(matches!(reordered[3], Stage::Infill(_)) && reordered.len() == 4);
    let mirostat = stages(&[temp, ("mirostat", 1.into()), ("mirostat_tau", 3.0f32.into()), top_k]);
    assert_eq!(mirostat, [Stage::Temperature(0.6), Stage::Mirostat1 { tau: 3.0, eta: 0.1, m: 100 }]);
    let xtc = stages(&[("xtc_probability", 0.5f32.into()), ("penalty_repeat", 1.1f32.into())]);
    assert!(matches!(&xtc[0], Stage::Penalties(p) if p.last_n == 64 && p.repeat == 1.1), "{xtc:?}");
    assert_eq!(xtc[1..], [Stage::Xtc { probability: 0.5, threshold: 0.1 }]);
    for (key, word) in [
        (("top_p", 1.5f32.into()), "top-p"),
        (("mirostat", 3.into()), "mirostat"),
        (("top_k", "many".into()), "top_k"),
    ] {
        let error = proposed_sampler(&with_keys(&[key]), 1).unwrap_err();
        assert!(matches!(error, ember::error::Error::Format(_)) && error.message().contains(word), "{error}");
    }
}

/// A small model's folder with this `generation_config.json`.
#[cfg(feature = "hf")]
fn with_config(folder: &TempFolder, config: &str) -> Arc<LoadedModel> {
    let from: &Path = &fixture("hf/qwen2-tied");
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        folder.write(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    folder.write("generation_config.json", config);
    load(&folder.0)
}

#[cfg(feature = "hf")]
#[test]
fn a_folder_proposes_what_transformers_does() {
    #[derive(serde::Deserialize)]
    struct Case {
        config: serde_json::Value,
        logits: Vec<f32>,
        accepted: Vec<u32>,
        left: Vec<(u32, f64)>,
    }
    let cases = std::fs::read(fixture("generation_config.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&cases).unwrap();
    assert!(cases.len() >= 18);
    for (i, case) in cases.iter().enumerate() {
        let folder = TempFolder::new(&format!("proposed-{i}"));
        let model = with_config(&folder, &case.config.to_string());
        let mut sampler = proposed_sampler(&model, 1).unwrap();
        // The model's context is shorter than the accepted tokens.
        let short = model.info().n_ctx_train < case.accepted.len();
        assert!(!short, "the fixture needs {} positions", case.accepted.len());
        case.accepted.iter().for_each(|&token| sampler.accept(token));
        assert_same(&left(sampler, &case.logits), &case.left, &format!("case {i}: {}", case.config));
    }
    let folder = TempFolder::new("proposed-wrong");
    let error =
        proposed_sampler(&with_config(&folder, r#"{"do_sample": true, "top_p": "x"}"#), 1).unwrap_err();
    assert!(
        error.message().contains("generation_config.json") && error.message().contains("top_p"),
        "{error}"
    );
}
