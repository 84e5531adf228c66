//! The tokenizer of a Hugging Face folder is the model's: found, checked against the model's vocabulary, and given the tokens that
//! end a generation.
#![cfg(feature = "hf")]

use crate::common;

use common::{TempFolder, fixture};
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::{Error, Result};
use ember::model::{LoadOptions, LoadedModel};

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

/// As `AutoTokenizer` reads them: files count more than what `tokenizer_config.json` has.
#[test]
fn templates_in_files_of_their_own_are_read() {
    let templates = |files: &[(&str, &str)]| {
        let folder = TempFolder::new("hf-templates");
        for file in ["config.json", "model.safetensors"] {
            folder.write(file, std::fs::read(fixture(&format!("{MODEL}/{file}"))).expect("a fixture"));
        }
        folder.write("tokenizer.json", words(N_VOCAB));
        std::fs::create_dir_all(folder.0.join("additional_chat_templates")).expect("a folder");
        let config = r#"{"tokenizer_class": "PreTrainedTokenizerFast", "chat_template":
            [{"name": "default", "template": "in the config"}, {"name": "rag", "template": "rag in the config"}]}"#;
        folder.write("tokenizer_config.json", config);
        for (file, text) in files {
            folder.write(file, text);
        }
        let has_template = ember::hf::look_beside(&folder.0).1;
        let options = LoadOptions { use_mmap: false, ..LoadOptions::default() };
        let model = LoadedModel::open(&folder.0, &options).expect("a model");
        let tokenizer = model.tokenizer().expect("a tokenizer");
        let named = |name| tokenizer.named_chat_template(name).map(str::to_owned);
        assert!(has_template);
        [tokenizer.chat_template().map(str::to_owned), named("tool_use"), named("rag")]
    };
    let some = |text: &str| Some(text.to_owned());
    let (file, tools) = ("chat_template.jinja", "additional_chat_templates/tool_use.jinja");
    assert_eq!(templates(&[]), [some("in the config"), None, some("rag in the config")]);
    assert_eq!(templates(&[(file, "in a file")]), [some("in a file"), None, None]);
    assert_eq!(templates(&[(file, "in a file"), (tools, "tools")]), [some("in a file"), some("tools"), None]);
    assert_eq!(templates(&[(tools, "tools")]), [some("in the config"), some("tools"), None]);
    let others = [("additional_chat_templates/notes.txt", "no template"), (tools, "tools")];
    assert_eq!(templates(&others), [some("in the config"), some("tools"), None]);
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
