//! A real embedder against `sentence-transformers`: the cosine of each vector with that of `tests/oracle/embedding_vectors.py`, which
//! says how to run it. A command of its own, since it wants a model of hundreds of megabytes.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::path::PathBuf;

use common::{context, load, read_f32s, read_json};
use ember::context::{ContextOptions, EmbedOptions};

/// The smallest cosine that is allowed.
const LEAST: f64 = 0.9999;

#[test]
#[ignore = "needs a model and its reference: see tests/oracle/embedding_vectors.py"]
fn vectors_point_where_the_reference_points() {
    let path = |name: &str| PathBuf::from(std::env::var(name).unwrap());
    let reference = path("EMBER_REFERENCE");
    let texts = read_json(&reference.with_extension("json"));
    let expected = read_f32s(&reference.with_extension("f32"));
    let model = load(&path("EMBER_FOLDER"));
    let mut context = context(&model, &ContextOptions::default());
    let options = EmbedOptions { normalize: Some(true), ..EmbedOptions::default() };
    let texts = texts.as_array().unwrap();
    let width = expected.len() / texts.len();
    assert_eq!((width, texts.len()), (model.n_embd_out(), 100));
    let mut least = 1.0f64;
    for (text, expected) in texts.iter().zip(expected.chunks_exact(width)) {
        let string = text["text"].as_str().unwrap();
        let tokens = context.tokenize_prompted(&[string], &options, text["prompt"].as_str()).unwrap();
        let found = context.embed(&[&tokens[0]], &options).unwrap();
        let cosine: f64 = found.iter().zip(expected).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        assert!(cosine >= LEAST, "{cosine}: {string}");
        least = least.min(cosine);
    }
    println!("{} vectors, cosines of {least:.7} at least", texts.len());
}
