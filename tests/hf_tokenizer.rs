//! The tokenizer of a Hugging Face folder is the model's: found, held to the model's vocabulary, and told which tokens
//! end a generation.
#![cfg(feature = "hf")]

mod common;

use common::{TempFolder, fixture};
use ember::context::{Context, ContextOptions, LoadOptions, LoadedModel, Tokens};
use ember::error::{Error, Result};

/// A copy of a small model's folder, whose vocabulary has `N_VOCAB` tokens, with this tokenizer.
const MODEL: &str = "hf/qwen3-tied";
const N_VOCAB: usize = 101;

fn load(name: &str, tokenizer: Option<&str>) -> Result<LoadedModel> {
    let folder = TempFolder::new(name);
    for entry in std::fs::read_dir(fixture(MODEL)).expect("a fixture") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().and_then(|n| n.to_str()).expect("a name");
        folder.write(file, std::fs::read(&path).expect("a file"));
    }
    folder.write("generation_config.json", r#"{"eos_token_id": [3, 100, 9999]}"#);
    if let Some(tokenizer) = tokenizer {
        folder.write("tokenizer.json", tokenizer);
    }
    // Read, not mapped: the folder is gone when this returns.
    LoadedModel::open(&folder.0, &LoadOptions { use_mmap: false, ..LoadOptions::default() })
}

/// A vocabulary of words `t0`, `t1`, ….
fn words(n: usize) -> String {
    let vocab: Vec<String> = (0..n).map(|i| format!(r#""t{i}": {i}"#)).collect();
    format!(
        r###"{{"version": "1.0", "pre_tokenizer": {{"type": "BertPreTokenizer"}}, "model": {{"type": "WordPiece",
            "unk_token": "t0", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {{{}}}}}}}"###,
        vocab.join(", ")
    )
}

#[test]
fn the_folders_tokenizer_is_the_models() {
    for n in [N_VOCAB, N_VOCAB - 7] {
        let model = load("hf-words", Some(&words(n))).expect("a model");
        let tokenizer = model.tokenizer().expect("a tokenizer");
        assert_eq!(tokenizer.encode("t1 t42 t7", false, false), Ok(vec![1, 42, 7]));
        let ends: Vec<u32> = (0..200).filter(|&t| tokenizer.is_eog(t)).collect();
        assert_eq!(ends, if n == N_VOCAB { vec![3, 100] } else { vec![3] });
    }
    let model = load("hf-wordless", None).expect("a model");
    assert!(matches!(model.tokenizer(), Err(Error::Unsupported(m)) if m.contains("no tokenizer")));
}

#[test]
fn a_token_without_an_embedding_is_refused_when_it_is_decoded() {
    let model = std::sync::Arc::new(load("hf-many", Some(&words(N_VOCAB + 1))).expect("a model"));
    let ids = model.tokenizer().expect("a tokenizer").encode("t100 t101", false, false).expect("tokens");
    assert_eq!(ids, [100, 101]);
    let mut context = Context::new(&model, &ContextOptions::default()).expect("a context");
    let error = context.decode(Tokens::next(&ids)).expect_err("no such embedding");
    assert!(matches!(error, Error::InvalidArgument(m) if m.contains("token 1 of the batch is 101")));
}

#[test]
fn a_tokenizer_that_does_not_fit_is_refused() {
    let refused = |name: &str, tokenizer: &str, culprits: &[&str]| match load(name, Some(tokenizer)).err() {
        Some(Error::Format(message)) => {
            for culprit in culprits.iter().chain(&[name]) {
                assert!(message.contains(culprit), "no {culprit:?} in: {message}");
            }
        }
        other => panic!("{other:?} instead of a refusal that names {culprits:?}"),
    };
    refused("hf-damaged", "{\"model\": ", &["tokenizer.json"]);
}
