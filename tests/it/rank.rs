//! Classifiers and rerankers with tiny heads, folders and GGUF files: the scores of `transformers` (`tests/oracle/rank_golden.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{TempFolder, bundled_model, context, fixture, load};
use ember::backend::KvType;
use ember::cancel::CancelToken;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, ScoreOptions};
use ember::error::Error;
use ember::gguf::{ScoreActivation, Value};
use ember::model::{LoadOptions, LoadedModel};
use ember::nn::pooling::Pooling;

const TOLERANCE: f32 = 1e-4;

#[derive(serde::Deserialize, Default)]
struct Scores {
    #[serde(default)]
    texts: Vec<Vec<f32>>,
    #[serde(default)]
    logits: Vec<Vec<f32>>,
    #[serde(default)]
    pairs: Vec<f32>,
    #[serde(default)]
    pairs_of_one_type: Vec<f32>,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Golden {
    query: String,
    texts: Vec<String>,
    scores: BTreeMap<String, Scores>,
}

fn golden() -> Golden {
    serde_json::from_slice(&std::fs::read(fixture("rank/scores.json")).unwrap()).unwrap()
}

/// A context that computes in f32, so that the numbers are PyTorch's.
fn exact(model: &Arc<LoadedModel>) -> Context {
    let options = ContextOptions {
        n_ctx: model.info().n_ctx_train.min(512),
        n_batch: 512,
        n_threads: 1,
        k_type: Some(KvType::F32),
        v_type: Some(KvType::F32),
        backend: BackendKind::Scalar,
        ..ContextOptions::default()
    };
    context(model, &options)
}

fn far(found: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(found.len(), wanted.len());
    found.iter().zip(wanted).fold(0.0, |far, (a, b)| far.max((a - b).abs()))
}

fn close(what: &str, found: &[f32], wanted: &[f32]) {
    let far = far(found, wanted);
    println!("{what}: {far:.1e} from transformers");
    assert!(far <= TOLERANCE, "{what}: {found:?}, not {wanted:?}");
}

/// The models that are there: with a folder, or as a file.
fn sources() -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        ("bert-rerank", "bert-rerank.gguf"),
        ("bert-labels", "bert-labels.gguf"),
        ("qwen3-reranker", "qwen3-reranker.gguf"),
    ];
    if cfg!(feature = "hf") {
        all.extend(
            ["bert-rerank", "bert-labels", "bert-several", "bert-number", "qwen3-labels", "qwen3-reranker"]
                .map(|n| (n, n)),
        );
    }
    all
}

#[test]
fn scores_are_those_of_transformers() {
    let golden = golden();
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    let options = ScoreOptions::default();
    for (name, file) in sources() {
        let wanted = &golden.scores[name];
        let model = load(&fixture(&format!("rank/{file}")));
        let mut context = exact(&model);
        if !wanted.texts.is_empty() {
            let found = context.classify(&texts, &options).unwrap();
            close(&format!("{file}, texts"), &found, &wanted.texts.concat());
            let raw = ScoreOptions { activation: Some(ScoreActivation::None), ..options.clone() };
            close(
                &format!("{file}, logits"),
                &context.classify(&texts, &raw).unwrap(),
                &wanted.logits.concat(),
            );
            let named = wanted.labels.iter().map(String::as_str);
            assert!(model.require_head().unwrap().labels().iter().map(String::as_str).eq(named), "{file}");
            // Alone as together.
            for (i, text) in texts.iter().enumerate() {
                let alone = context.classify(&[text], &options).unwrap();
                assert_eq!(alone, found[i * alone.len()..][..alone.len()], "{file}");
            }
        }
        match wanted.pairs.is_empty() {
            false => {
                let found = context.rerank(&golden.query, &texts, &options).unwrap();
                close(&format!("{file}, pairs"), &found, &wanted.pairs);
            }
            true => {
                let error = context.rerank(&golden.query, &texts, &options).unwrap_err();
                assert!(
                    matches!(&error, Error::Unsupported(s) if s.contains("none of them \"yes\"")),
                    "{error}"
                );
            }
        }
    }
}

/// With the default types and threads, as users run it.
#[test]
fn the_default_context_scores_alike() {
    let golden = golden();
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    for (name, n_ctx) in [("bert-rerank", 64), ("qwen3-reranker", 384)] {
        let model = load(&fixture(&format!("rank/{name}.gguf")));
        let mut context = context(&model, &ContextOptions { n_ctx, ..ContextOptions::default() });
        let found = context.rerank(&golden.query, &texts, &ScoreOptions::default()).unwrap();
        assert!(far(&found, &golden.scores[name].pairs) < 0.02, "{found:?}");
    }
}

#[cfg(feature = "hf")]
#[test]
fn yes_and_no_are_asked_for_by_option_where_the_name_does_not_say_it() {
    let golden = golden();
    let folder = copy("rank/qwen3-reranker", "some-model", "config.json", |_| {});
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    let model = load(&folder.0);
    let mut context = exact(&model);
    let error = context.rerank(&golden.query, &texts, &ScoreOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(s) if s.contains("no head")), "{error}");
    let options = ScoreOptions { yes_no: true, ..ScoreOptions::default() };
    let found = context.rerank(&golden.query, &texts, &options).unwrap();
    close("by option", &found, &golden.scores["qwen3-reranker"].pairs);
    // A query that spells control tokens is text.
    let sly = context.rerank("<|im_end|>", &texts, &options).unwrap();
    assert!(sly.iter().all(|score| score.is_finite()));
    let prompt = |template: &str| ScoreOptions { template: template.into(), ..options.clone() };
    for template in ["{query}", "{document}{query}{query}", "x"] {
        let error = context.rerank("q", &["d"], &prompt(template)).unwrap_err();
        assert!(error.message().contains("once"), "{error}");
    }
    assert!(context.rerank("q", &["d"], &prompt("{document}|{query}")).is_ok());
}

/// A copy of a folder with another file.
#[cfg(feature = "hf")]
fn copy(from: &str, to: &str, file: &str, change: impl Fn(&mut serde_json::Value)) -> TempFolder {
    let folder = TempFolder::new(to);
    for entry in std::fs::read_dir(fixture(from)).unwrap() {
        let entry = entry.unwrap();
        folder.write(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    let mut json = common::read_json(&folder.0.join(file));
    change(&mut json);
    folder.write(file, json.to_string());
    folder
}

#[cfg(feature = "hf")]
#[test]
fn files_beside_the_weights_say_what_scores_mean() {
    let golden = golden();
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    let options = ScoreOptions::default();
    // A tokenizer that tells the model no types of tokens.
    let plain = copy("rank/bert-rerank", "no-types", "tokenizer_config.json", |config| {
        config["model_input_names"] = serde_json::json!(["input_ids", "attention_mask"]);
    });
    let found = exact(&load(&plain.0)).rerank(&golden.query, &texts, &options).unwrap();
    close("one type", &found, &golden.scores["bert-rerank"].pairs_of_one_type);
    assert!(far(&found, &golden.scores["bert-rerank"].pairs) > 1e-3, "types matter");
    let wrong = copy("rank/bert-rerank", "wrong-type", "config.json", |c| c["problem_type"] = "guess".into());
    let error = LoadedModel::open(&wrong.0, &LoadOptions::default()).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(s) if s.contains("problem_type")), "{error}");
    let fewer = copy("rank/bert-labels", "fewer-labels", "config.json", |config| {
        config["id2label"] = serde_json::json!({"0": "bad", "1": "good"});
    });
    let error = LoadedModel::open(&fewer.0, &LoadOptions::default()).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Format(s) if s.contains("2 labels") && s.contains("3 rows")), "{error}");
    // The same weights as those of another class are an encoder's, whose heads are left alone.
    let encoder = copy("rank/bert-rerank", "encoder", "config.json", |config| {
        config["architectures"] = serde_json::json!(["BertModel"]);
    });
    let error = LoadedModel::open(&encoder.0, &LoadOptions::default()).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(s) if s.contains("classifier")), "{error}");
}

#[test]
fn texts_that_are_too_long_are_refused_or_cut() {
    let model = load(&fixture("rank/bert-rerank.gguf"));
    let mut context =
        context(&model, &ContextOptions { n_ctx: 24, n_batch: 24, ..ContextOptions::default() });
    let long = "fish ".repeat(40);
    let error = context.rerank("cat", &["fish", &long], &ScoreOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::ContextFull(s) if s.contains("text 1")), "{error}");
    let cut = ScoreOptions { truncate: true, ..ScoreOptions::default() };
    let short = "fish ".repeat(24 - 4);
    let both = context.rerank("cat", &[&long, &short], &cut).unwrap();
    assert_eq!(both[0], both[1], "as many as fit");
    assert!(context.classify(&[&long], &cut).is_ok());
    // The query is never cut.
    let error = context.rerank(&long, &["fish"], &cut).unwrap_err();
    assert!(matches!(error, Error::ContextFull(_)), "{error}");
    assert!(context.rerank("cat", &[], &cut).unwrap().is_empty());
    let token = CancelToken::new();
    context.set_cancel_token(Some(token.clone()));
    token.cancel();
    assert!(matches!(context.rerank("cat", &["fish"], &cut), Err(Error::Cancelled(_))));
}

#[test]
fn a_model_that_scores_gives_neither_embeddings_nor_logits_unasked() {
    for file in ["bert-rerank.gguf", "qwen3-reranker.gguf"] {
        let model = load(&fixture(&format!("rank/{file}")));
        let mut context = context(&model, &ContextOptions { n_ctx: 64, ..ContextOptions::default() });
        let error = context.embed(&[&[5, 6, 7]], &EmbedOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Unsupported(s) if s.contains("scores texts")), "{error}");
        let chosen = EmbedOptions { pooling: Some(Pooling::Mean), ..EmbedOptions::default() };
        assert_eq!(context.embed(&[&[5, 6, 7]], &chosen).unwrap().len(), model.info().n_embd);
        let error = model.require_logits().unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
    }
}

#[test]
fn heads_that_do_not_fit_are_refused_by_name() {
    let with = |file: &str, key: &str, value: Value| {
        let options = LoadOptions { metadata: vec![(key.into(), value)], ..LoadOptions::default() };
        LoadedModel::open(&fixture(file), &options).map(drop).unwrap_err()
    };
    let error = with("rank/bert-labels.gguf", "bert.classifier.pooling_type", Value::U32(1));
    assert!(error.message().contains("bert.classifier.pooling_type"), "{error}");
    let error = with("models/bert.gguf", "bert.pooling_type", Value::U32(4));
    assert!(
        error.message().contains("cls.output.weight") && error.message().contains("bert.pooling_type"),
        "{error}"
    );
    for file in [bundled_model(), fixture("models/bert.gguf")] {
        let mut context = context(&load(&file), &ContextOptions { n_ctx: 32, ..ContextOptions::default() });
        let options = ScoreOptions::default();
        for error in [
            context.classify(&["a"], &options).unwrap_err(),
            context.rerank("a", &["b"], &options).unwrap_err(),
        ] {
            assert!(matches!(&error, Error::Unsupported(s) if s.contains("no head")), "{error}");
        }
    }
}
