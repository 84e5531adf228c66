//! A binary of its own: it is built without features.
//!
//! The smallest build runs models, and refuses options that need a feature with a sentence that names it. `make test-minimal`
//! runs it; a build with all features has no tests here.
#![cfg(not(any(feature = "hf", feature = "tokenizers")))]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::sync::Arc;

use ember::context::{Context, ContextOptions};
use ember::error::Error;
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, StringArray};
use ember::model::{LoadOptions, LoadedModel};
use ember::tokenizer::Tokenizer;

fn path(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// The sentence that refuses a made-up vocabulary of the kind `model` with the words of `pre`.
fn refusal(model: &str, pre: &str) -> String {
    let mut file = Writer::new();
    file.set("tokenizer.ggml.model", model).set("tokenizer.ggml.pre", pre);
    file.set("tokenizer.ggml.tokens", StringArray::copy(&["[UNK]", "[CLS]", "[SEP]", "a"]).unwrap());
    file.set("tokenizer.ggml.merges", StringArray::copy(&[] as &[&str]).unwrap());
    for (id, role) in (0u32..).zip(["unknown", "bos", "seperator"]) {
        file.set(&format!("tokenizer.ggml.{role}_token_id"), id);
    }
    let file = Gguf::from_bytes(&file.to_bytes().unwrap(), "made").unwrap();
    match Tokenizer::from_gguf(file.metadata()) {
        Err(Error::Unsupported(sentence)) => sentence,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn a_model_runs() {
    let model =
        LoadedModel::open(&path("examples/models/ember-tales.gguf"), &LoadOptions::default()).unwrap();
    let ids = model.tokenizer().unwrap().encode("Once upon a time", true, true).unwrap();
    assert!(ids.len() > 2);
    let _ = Context::new(&Arc::new(model), &ContextOptions::default()).unwrap();
}

#[test]
fn what_needs_a_feature_names_it() {
    let Err(Error::Unsupported(folder)) = LoadedModel::open(&path("tests"), &LoadOptions::default()) else {
        panic!("a folder is refused")
    };
    assert!(folder.contains("tests: ") && folder.contains("the feature \"hf\""), "{folder}");
    for (model, pre) in [("bert", "default"), ("gpt2", "qwen2")] {
        let sentence = refusal(model, pre);
        assert!(sentence.contains("the feature \"tokenizers\""), "{sentence}");
    }
}
