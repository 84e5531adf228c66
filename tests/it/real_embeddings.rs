//! all-MiniLM-L6-v2 against transformers: 50 pairs of sentences from the safetensors folder and from its conversion to
//! GGUF in F16. `tests/oracle/minilm_golden.py` recorded tokens, cosines and a vector by sentence-transformers' formula;
//! `make models` fetches the model.
#![cfg(feature = "hf")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

#[allow(dead_code, reason = "its main function is for the command line")]
#[path = "../../examples/bert_to_gguf.rs"]
mod bert_to_gguf;

use std::sync::Arc;

use common::{context, fixture, ids, load, read_json, real_model, relative_rms};
use ember::backend::KvType;
use ember::context::{ContextOptions, EmbedOptions};
use ember::model::LoadedModel;
use serde_json::Value;

/// Largest difference of a cosine.
const TOLERANCE: f64 = 1e-4;
/// Largest relative RMS difference of a vector, for float32 weights.
const VECTOR_TOLERANCE: f64 = 1e-5;

/// The texts of all pairs, `[a, b, a, b, …]`.
fn sides<'a, T>(pairs: &'a [Value], names: [&str; 2], read: impl Fn(&'a Value) -> T) -> Vec<T> {
    pairs.iter().flat_map(|pair| names.map(|name| read(&pair[name]))).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Embeds all texts in one call, holds the cosine of each pair to the golden's `expected`, and returns the first vector.
fn check(name: &str, model: &Arc<LoadedModel>, golden: &Value, expected: &str, kv_type: KvType) -> Vec<f32> {
    let pairs = golden["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 50);
    let mut context = context(
        model,
        &ContextOptions { k_type: Some(kv_type), v_type: Some(kv_type), ..ContextOptions::default() },
    );
    let texts = sides(pairs, ["a", "b"], |text| text.as_str().expect("a text"));
    let tokens = context.tokenize_texts(&texts, &EmbedOptions::default()).expect("tokens");
    for ((text, found), expected) in texts.iter().zip(&tokens).zip(sides(pairs, ["a_ids", "b_ids"], ids)) {
        assert_eq!(*found, expected, "{name}: {text:?}");
    }
    let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    let mut vectors = context.embed(&tokens, &EmbedOptions::default()).expect("embeddings");
    let n_embd = model.info().n_embd;
    let (mut worst, mut from_float32) = (0.0f64, 0.0f64);
    for (two, pair) in vectors.chunks_exact(2 * n_embd).zip(pairs) {
        let cosine = dot(&two[..n_embd], &two[n_embd..]);
        let difference = (cosine - number(&pair[expected])).abs();
        assert!(difference <= TOLERANCE, "{name}, {kv_type:?}, {}: {difference:.2e}", pair["a"]);
        worst = worst.max(difference);
        from_float32 = from_float32.max((cosine - number(&pair["cosine"])).abs());
    }
    println!(
        "{name}, {kv_type:?}: cosines within {worst:.2e} of transformers' on the same weights, {from_float32:.2e} on float32"
    );
    vectors.truncate(n_embd);
    vectors
}

#[test]
fn minilm_from_safetensors_gives_the_cosines_of_transformers() {
    let golden = read_json(&fixture("embeddings/minilm.json"));
    let expected: Vec<f32> =
        golden["first_vector"].as_array().expect("a vector").iter().map(|x| number(x) as f32).collect();
    let model = load(&real_model("all-MiniLM-L6-v2"));
    for kv_type in [KvType::F16, KvType::F32] {
        let first = check("safetensors", &model, &golden, "cosine", kv_type);
        assert!(relative_rms(&first, &expected) <= VECTOR_TOLERANCE);
    }
}

#[test]
fn minilm_as_gguf_in_f16_gives_the_cosines_of_transformers() {
    let golden = read_json(&fixture("embeddings/minilm.json"));
    let file = bert_to_gguf::convert(&real_model("all-MiniLM-L6-v2")).expect("a conversion");
    let bytes = file.to_bytes().expect("a well-formed file");
    let model = Arc::new(LoadedModel::from_bytes(&bytes, "minilm.gguf").expect("a model"));
    check("GGUF in F16", &model, &golden, "cosine_f16", KvType::F16);
}

/// A text that is cut keeps the token that ends every text.
#[test]
fn a_text_that_is_cut_keeps_its_frame() {
    let model = load(&real_model("all-MiniLM-L6-v2"));
    let c = context(&model, &ContextOptions { n_ctx: 6, ..ContextOptions::default() });
    let text = ["How do I reset my password?"];
    let truncate = EmbedOptions { truncate: true, ..EmbedOptions::default() };
    assert_eq!(c.tokenize_texts(&text, &truncate).expect("tokens"), [[101, 2129, 2079, 1045, 25141, 102]]);
}
