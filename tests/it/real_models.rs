//! Real files against independent engines: SmolLM2-135M and Gemma 3 270M against llama.cpp, stories15M against
//! PyTorch. The expected tokens and logits were recorded by the scripts in `tests/oracle`. `make models` fetches the
//! files.
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::sync::Arc;

use common::{argmax, context, fixture, ids, load, read_json, real_model};
use ember::backend::KvType;
use ember::context::{Context, ContextOptions, Tokens};
use ember::model::LoadedModel;
use serde_json::Value;

fn decode(context: &mut Context, ids: &[u32]) -> usize {
    context.decode(Tokens::next(ids)).unwrap_or_else(|e| panic!("{e}"));
    argmax(context.end_logits(0).expect("asked for"))
}

/// How far `token` is below the best of a recorded step, `[[id, llama.cpp's logit, float32 logit], …]`, best first.
/// A token that is not in the list counts as being below its last.
fn gap(step: &Value, token: usize) -> f64 {
    let entries = step.as_array().expect("entries");
    let logit = |entry: &Value| entry[1].as_f64().expect("a logit");
    let found = entries.iter().find(|e| e[0].as_u64() == Some(token as u64));
    logit(&entries[0]) - found.map_or(f64::NEG_INFINITY, logit)
}

/// What came of feeding recorded texts: steps taken otherwise than llama.cpp did, and squared errors of the recorded
/// logits to float32, Ember's and llama.cpp's.
#[derive(Default)]
struct Outcome {
    steps: usize,
    ties: usize,
    ours: f64,
    theirs: f64,
    logits: f64,
}

impl Outcome {
    /// Follows one recorded continuation of `text`. Every step must be llama.cpp's, or less than `near_tie` below it in
    /// its own logits. The recorded token goes on, so that every step counts, also those after a near-tie.
    fn follow(&mut self, model: &Arc<LoadedModel>, text: &str, entry: &Value, near_tie: f64) {
        let (prompt, expected) = (ids(&entry["prompt_ids"]), ids(&entry["ids"]));
        let tokenizer = model.tokenizer().expect("a tokenizer");
        assert_eq!(tokenizer.encode(text, true, false).expect("tokens"), prompt, "{text}");
        let n_ctx = prompt.len() + expected.len();
        let mut context = context(model, &ContextOptions { n_ctx, ..ContextOptions::default() });
        let mut choice = decode(&mut context, &prompt);
        let mut same = None;
        let name: String = text.chars().take(60).collect();
        for (i, &want) in expected.iter().enumerate() {
            let step = &entry["steps"][i];
            if choice != want as usize {
                let gap = gap(step, choice);
                println!("{name:?}, token {i}: {choice} instead of {want}, a near-tie: gap {gap:.3}");
                assert!(gap < near_tie, "{name:?}, token {i}: {choice} instead of {want}, {gap:.3} below it");
                self.ties += 1;
                same.get_or_insert(i);
            }
            let logits = context.end_logits(0).expect("asked for");
            for recorded in step.as_array().expect("entries") {
                let number = |i: usize| recorded[i].as_f64().expect("a number");
                self.ours += (f64::from(logits[number(0) as usize]) - number(2)).powi(2);
                self.theirs += (number(1) - number(2)).powi(2);
                self.logits += 1.0;
            }
            choice = decode(&mut context, &[want]);
        }
        self.steps += expected.len();
        println!("{name:?}: equal for {} of {} tokens", same.unwrap_or(expected.len()), expected.len());
    }
}

/// Holds a quantized model to ten recorded texts of 128 tokens each, and to the one with a long prompt where there is
/// one. How near a near-tie is, and how many there may be, is what llama.cpp's own settings and float32 on the same
/// weights have among themselves: `tests/oracle/llamacpp_greedy.py` recorded it.
fn continues_as_llama_cpp_does(golden: &str) {
    let golden = read_json(&fixture(golden));
    let model = load(&real_model(golden["model"].as_str().expect("a file name")));
    let near_tie = 1.5 * golden["widest_tie"].as_f64().expect("a distance");
    let prompts = golden["prompts"].as_array().expect("prompts");
    assert_eq!(prompts.len(), 10);
    let mut all = Outcome::default();
    for entry in prompts {
        assert_eq!(entry["ids"].as_array().map(Vec::len), Some(128));
        all.follow(&model, entry["prompt"].as_str().expect("prompt"), entry, near_tie);
    }
    let most = golden["near_ties"].as_object().expect("counts").values().filter_map(Value::as_u64).max();
    println!(
        "{} near-ties in {} steps; llama.cpp and float32 have {}",
        all.ties, all.steps, golden["near_ties"]
    );
    assert!(all.ties as f64 <= 1.25 * most.expect("a count") as f64, "{} near-ties", all.ties);
    if let Some(file) = golden["long"]["prompt_file"].as_str() {
        let text = std::fs::read_to_string(fixture(&format!("greedy/{file}"))).expect("the long prompt");
        all.follow(&model, &text, &golden["long"], near_tie);
    }
    let (ours, theirs) = ((all.ours / all.logits).sqrt(), (all.theirs / all.logits).sqrt());
    println!("RMS error to float32 over {} top logits: Ember {ours:.4}, llama.cpp {theirs:.4}", all.logits);
    assert!(ours <= 1.1 * theirs, "Ember {ours:.4}, llama.cpp {theirs:.4}");
}

#[test]
fn smollm2_continues_as_llama_cpp_does() {
    continues_as_llama_cpp_does("greedy/smollm2.json");
}

/// Its local layers see 512 tokens; the long prompt has 2,000.
#[test]
fn gemma3_continues_as_llama_cpp_does() {
    continues_as_llama_cpp_does("greedy/gemma3.json");
}

/// What rounding the cache does to a model: perplexity of recorded texts, and the mean Kullback-Leibler divergence of
/// its predictions from those with an f32 cache, in nats, at every fourth of 1024 positions. Most of the divergence is that of
/// int8 activations, whose last bits flip with any change.
fn with_rounded_caches(golden: &str) {
    let golden = read_json(&fixture(golden));
    let model = load(&real_model(golden["model"].as_str().expect("a file name")));
    let mut text: Vec<u32> = golden["long"].as_object().map_or(Vec::new(), |long| ids(&long["prompt_ids"]));
    for entry in golden["prompts"].as_array().expect("prompts") {
        text.extend([ids(&entry["prompt_ids"]), ids(&entry["ids"])].concat());
    }
    let text = &text[..1024];
    let outputs: Vec<bool> = (0..text.len() - 1).map(|i| i % 4 == 3).collect();
    let log_probabilities = |k_type, v_type| -> Vec<Vec<f32>> {
        let (k_type, v_type) = (Some(k_type), Some(v_type));
        let options = ContextOptions { n_ctx: text.len(), k_type, v_type, ..ContextOptions::default() };
        let mut context = context(&model, &options);
        let tokens = Tokens { outputs: Some(&outputs), ..Tokens::next(&text[..outputs.len()]) };
        context.decode(tokens).unwrap_or_else(|e| panic!("{e}"));
        (3..outputs.len()).step_by(4).map(|i| log_softmax(context.logits(i).expect("asked for"))).collect()
    };
    let exact = log_probabilities(KvType::F32, KvType::F32);
    let perplexity = |all: &[Vec<f32>]| {
        let of_next =
            all.iter().zip(text[4..].iter().step_by(4)).map(|(row, &next)| f64::from(row[next as usize]));
        (-of_next.sum::<f64>() / all.len() as f64).exp()
    };
    println!("{}: perplexity {:.4} with an f32 cache", golden["model"], perplexity(&exact));
    for (k_type, v_type, most) in [
        (KvType::F16, KvType::F16, 5e-3),
        (KvType::I16, KvType::I16, 5e-3),
        (KvType::Q8_0, KvType::F16, 1e-2),
        (KvType::F16, KvType::Q8_0, 1e-2),
        (KvType::Q8_0, KvType::Q8_0, 1e-2),
    ] {
        let all = log_probabilities(k_type, v_type);
        let terms = exact.iter().flatten().zip(all.iter().flatten());
        let divergence =
            terms.map(|(&p, &q)| f64::from(p).exp() * f64::from(p - q)).sum::<f64>() / all.len() as f64;
        let ratio = perplexity(&all) / perplexity(&exact);
        println!("keys {k_type:?}, values {v_type:?}: {ratio:.5} times that, divergence {divergence:.2e}");
        assert!(divergence <= most, "{k_type:?}, {v_type:?}: {divergence:.2e}");
        assert!((ratio - 1.0).abs() <= 2e-2, "{k_type:?}, {v_type:?}: {ratio} times the perplexity");
    }
}

fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    let sum: f64 = logits.iter().map(|&x| f64::from(x - max).exp()).sum();
    logits.iter().map(|&x| x - max - sum.ln() as f32).collect()
}

#[test]
fn smollm2_predicts_alike_with_rounded_caches() {
    with_rounded_caches("greedy/smollm2.json");
}

/// Its heads have 256 components.
#[test]
fn gemma3_predicts_alike_with_rounded_caches() {
    with_rounded_caches("greedy/gemma3.json");
}

#[test]
fn smollm2_says_that_the_capital_of_france_is_paris() {
    let model = load(&real_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let mut context = context(&model, &ContextOptions { n_ctx: 32, ..ContextOptions::default() });
    let prompt = tokenizer.encode("The capital of France is", true, false).expect("tokens");
    let token = decode(&mut context, &prompt);
    assert_eq!(tokenizer.token_bytes(token as u32).expect("bytes"), b" Paris");
}

#[test]
fn stories15m_tells_its_well_known_story() {
    let model = load(&real_model("stories15M.gguf"));
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let golden = read_json(&fixture("greedy/stories15m.json"));
    let (prompt, expected) = (ids(&golden["prompt_ids"]), ids(&golden["ids"]));
    assert_eq!(tokenizer.encode("Once upon a time", true, false).expect("tokens"), prompt);
    let mut context = context(&model, &ContextOptions { n_ctx: 256, ..ContextOptions::default() });
    let mut got = Vec::new();
    let mut token = decode(&mut context, &prompt);
    while got.len() < expected.len() {
        got.push(token as u32);
        token = decode(&mut context, &[token as u32]);
    }
    assert_eq!(got, expected);
    let text = tokenizer.decode(&[prompt, got].concat(), false).expect("bytes");
    assert_eq!(String::from_utf8(text).expect("UTF-8"), golden["text"].as_str().expect("text"));
}
