//! JSON schemas of the kinds that people use (`tests/fixtures/schemas.json`, 202 of them) on a model of random weights at
//! temperature 1.5: every text that is complete parses, and is what its schema says as far as this file looks.
//! `tests/oracle/json_schemas.py` has 10,000 of them validated by the Python package `jsonschema`.
#![cfg(feature = "constraints")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::fmt::Write;
use std::io::Write as _;
use std::sync::Arc;

use common::{bundled_model, fixture, read_json, real_model};
use ember::constrain::{Constraint, ConstraintOptions, Grammar, Mask, Progress, Run, Vocabulary};
use ember::context::{Context, ContextOptions};
use ember::error::Error;
use ember::generate::{EventKind, GenerateOptions, Generator};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorType};
use ember::model::LoadedModel;

use ember::sampler::{Sampler, Stage};
use ember::tokenizer::Tokenizer;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// The bundled model's tokens and first layer, with random weights.
fn random_model() -> Arc<LoadedModel> {
    let file = Gguf::open(&bundled_model()).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter() {
        match key.ends_with(".block_count") {
            true => writer.set(key, 1u32),
            false => writer.set(key, value.clone()),
        };
    }
    for t in file.tensors().iter().filter(|t| !t.name.starts_with("blk.") || t.name.starts_with("blk.0.")) {
        let n: usize = t.dims.iter().product();
        let weights = (0..n).map(|_| random.random_range(-0.5f32..0.5)).flat_map(f32::to_le_bytes);
        writer.tensor(&t.name, TensorType::F32, &t.dims, weights.collect());
    }
    Arc::new(LoadedModel::from_bytes(&writer.to_bytes().unwrap(), "random.gguf").unwrap())
}

/// Texts would be long where a quotation mark is one of thousands of tokens, so tokens that end something are made more likely.
fn hot(model: &LoadedModel, seed: u64) -> Sampler {
    let tokenizer = model.tokenizer().unwrap();
    let ends = |id: &u32| {
        let bytes = tokenizer.token_bytes(*id).unwrap();
        tokenizer.is_eog(*id) || matches!(bytes.first(), Some(b'"' | b'}' | b']' | b','))
    };
    let bias = (0..tokenizer.n_vocab() as u32).filter(ends).map(|id| (id, 5.0)).collect();
    let mut sampler = Sampler::new(seed);
    sampler.push(Stage::Bias(bias)).unwrap();
    sampler.push(Stage::Temperature(1.5)).unwrap();
    sampler
}

fn generate(context: &mut Context, sampler: &mut Sampler, constraint: &Constraint) -> (String, Progress) {
    let options = GenerateOptions {
        max_tokens: 400,
        reuse_prefix: true,
        constraint: Some(constraint.clone()),
        ..GenerateOptions::default()
    };
    let mut generator = Generator::new(context, "The sea", &options).unwrap();
    let mut text = String::new();
    loop {
        let event = generator.next(context, sampler).unwrap();
        text.push_str(event.text);
        if let EventKind::End(_) = event.kind {
            return (text, generator.usage().progress.unwrap());
        }
    }
}

/// All schemas, `n` texts of each, one JSON line for each text to `out`. Returns how many were complete.
fn generate_all(n: u64, out: &mut String) -> usize {
    let model = random_model();
    let vocabulary = model.vocabulary().unwrap();
    let options = ContextOptions { n_ctx: 512, n_threads: 1, ..ContextOptions::default() };
    let mut context = Context::new(&model, &options).unwrap();
    let fixture = read_json(&fixture("schemas.json"));
    let mut n_complete = 0;
    for (name, schema) in fixture["schemas"].as_object().unwrap() {
        let made = Constraint::new(
            vocabulary,
            Grammar::JsonSchema(&schema.to_string()),
            &ConstraintOptions::default(),
        );
        let constraint = match made {
            Ok(constraint) => constraint,
            Err(e) => {
                writeln!(out, "{}", serde_json::json!({"schema": name, "refused": e.to_string()})).unwrap();
                continue;
            }
        };
        for seed in 0..n {
            let (text, progress) = generate(&mut context, &mut hot(&model, seed), &constraint);
            let complete = progress == Progress::Complete;
            n_complete += usize::from(complete);
            writeln!(out, "{}", serde_json::json!({"schema": name, "text": text, "complete": complete}))
                .unwrap();
        }
    }
    n_complete
}

#[test]
fn every_schema_that_people_use_is_followed() {
    let mut out = String::new();
    let n_complete = generate_all(1, &mut out);
    let mut refused = Vec::new();
    for line in out.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(why) = line["refused"].as_str() {
            refused.push(format!("{}: {why}", line["schema"]));
        } else if line["complete"] == true {
            let text = line["text"].as_str().unwrap();
            // JSON has numbers that no float is: 1E400.
            let parsed = serde_json::from_str::<Value>(text).map_err(|e| e.to_string());
            let is_json = parsed.as_ref().map_or_else(|e| e.starts_with("number out of range"), |_| true);
            assert!(is_json, "{}: {text}: {parsed:?}", line["schema"]);
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(n_complete >= 190, "{n_complete} of {}", out.lines().count());
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let file = Gguf::open(&bundled_model()).unwrap();
    let vocabulary =
        Arc::new(Vocabulary::new(&Arc::new(Tokenizer::from_gguf(file.metadata()).unwrap())).unwrap());
    for (name, schema) in read_json(&fixture("schemas.json"))["refused"].as_object().unwrap() {
        let schema = schema.to_string();
        match Constraint::new(&vocabulary, Grammar::JsonSchema(&schema), &ConstraintOptions::default()) {
            Err(Error::Unsupported(why)) => assert!(why.contains(name), "{schema}: {why}"),
            other => panic!("{schema}: {other:?}"),
        }
    }
}

/// Writes `EMBER_SCHEMA_TEXTS` texts of each schema to the file `EMBER_SCHEMA_OUT`: `tests/oracle/json_schemas.py` calls this.
#[test]
#[ignore = "for tests/oracle/json_schemas.py"]
fn texts_for_the_oracle() {
    let n = std::env::var("EMBER_SCHEMA_TEXTS").unwrap().parse().unwrap();
    let mut out = String::new();
    generate_all(n, &mut out);
    std::fs::File::create(std::env::var("EMBER_SCHEMA_OUT").unwrap())
        .unwrap()
        .write_all(out.as_bytes())
        .unwrap();
}

/// The tokens that may be next.
fn allowed(run: &mut Run, n: usize) -> Vec<u32> {
    let Mask::Allow(words) = run.mask().unwrap() else { panic!("it holds from the beginning") };
    (0..n as u32).filter(|&id| words[id as usize / 32] >> (id % 32) & 1 == 1).collect()
}

/// Masks of real vocabularies against the plain meaning of a list of choices: a token may be next if it goes on with one of them.
#[test]
#[cfg(not(target_family = "wasm"))]
fn masks_of_real_vocabularies_are_what_choices_mean() {
    let choices = [
        "straße 7",
        "strand\n  bar",
        "  two spaces",
        "日本語のテキスト",
        "😀😃 ok",
        "the quick brown fox",
        "the quiet",
    ];
    for name in ["qwen2", "llama-spm", "gemma-4"] {
        let file = Gguf::open(&real_model(&format!("vocabs/ggml-vocab-{name}.gguf"))).unwrap();
        let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata()).unwrap());
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
        let constraint =
            Constraint::new(&vocabulary, Grammar::Choices(&choices), &ConstraintOptions::default()).unwrap();
        for seed in 0..4u64 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut run, mut text) = (constraint.start(), Vec::new());
            loop {
                let allowed = allowed(&mut run, tokenizer.n_vocab());
                let open: Vec<&[u8]> =
                    choices.iter().filter_map(|choice| choice.as_bytes().strip_prefix(&text[..])).collect();
                let fits = |id: &u32| match tokenizer.is_eog(*id) {
                    true => open.contains(&&b""[..]),
                    false => {
                        let bytes = tokenizer.token_bytes(*id).unwrap();
                        let is_text = !tokenizer.is_hidden(*id) && !bytes.is_empty();
                        is_text && open.iter().any(|open| open.starts_with(bytes))
                    }
                };
                let meant: Vec<u32> = (0..tokenizer.n_vocab() as u32).filter(fits).collect();
                assert!(
                    !allowed.is_empty() && allowed.iter().all(|id| meant.contains(id)),
                    "{name}: {text:?}"
                );
                // Where only one text is left its tokens are the tokenizer's own.
                if open.len() > 1 && run.forced(1).is_empty() {
                    assert_eq!(allowed, meant, "{name}: {text:?}");
                }
                let id = allowed[random.random_range(0..allowed.len())];
                if tokenizer.is_eog(id) {
                    assert!(choices.iter().any(|choice| choice.as_bytes() == text), "{name}: {text:?}");
                    break;
                }
                text.extend_from_slice(tokenizer.token_bytes(id).unwrap());
                run.accept(id);
            }
        }
    }
}
