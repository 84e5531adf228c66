//! Tokenizers without a model, and prompts to fill a gap (`tests/oracle/fim_golden.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::collections::BTreeMap;

use common::{TempFolder, bundled_model, fixture, load, real_model};
use ember::error::Error;
use ember::generate::{FimOptions, FimOrder, fim_prompt};
use ember::gguf::writer::Writer;
use ember::gguf::{StringArray, Value};
use ember::model::{open_tokenizer, tokenizer_from_bytes};
use ember::tokenizer::{FillIn, Tokenizer};

const TEXT: &str = "Once upon a time, 3 cats' naïve\n friend.";

#[test]
fn a_models_file_a_vocabulary_and_bytes_give_the_same_tokenizer() {
    let model = load(&bundled_model());
    let wanted = model.tokenizer().unwrap().encode(TEXT, true, false).unwrap();
    let bytes = std::fs::read(bundled_model()).unwrap();
    for tokenizer in
        [open_tokenizer(&bundled_model()).unwrap(), tokenizer_from_bytes(&bytes, "<buffer>").unwrap()]
    {
        assert_eq!(tokenizer.encode(TEXT, true, false).unwrap(), wanted);
        assert_eq!(tokenizer.decode(&wanted, false).unwrap(), TEXT.as_bytes());
    }
    let vocab = open_tokenizer(&real_model("vocabs/ggml-vocab-qwen2.gguf")).unwrap();
    assert_eq!(vocab.decode(&vocab.encode(TEXT, false, false).unwrap(), false).unwrap(), TEXT.as_bytes());
}

#[cfg(feature = "hf")]
#[test]
fn a_folder_and_its_file_give_the_same_tokenizer_and_a_file_of_another_name_is_alone() {
    let folder = TempFolder::new("tokenizer-alone");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        folder.write(name, std::fs::read(real_model("tokenizers/qwen3").join(name)).unwrap());
    }
    folder.write("config.json", r#"{"model_type": "no-such-model", "eos_token_id": 7}"#);
    let json = folder.write("other.json", std::fs::read(folder.0.join("tokenizer.json")).unwrap());
    let (whole, file) =
        (open_tokenizer(&folder.0).unwrap(), open_tokenizer(&folder.0.join("tokenizer.json")).unwrap());
    let (alone, bytes) =
        (open_tokenizer(&json).unwrap(), tokenizer_from_bytes(&std::fs::read(&json).unwrap(), "b").unwrap());
    let ids = whole.encode(TEXT, true, false).unwrap();
    for other in [&file, &alone, &bytes] {
        assert_eq!(other.encode(TEXT, true, false).unwrap(), ids);
    }
    // What stands beside it counts: the chat template, and the ends that config.json names.
    assert!(whole.chat_template().is_some() && whole.is_eog(7) && file.is_eog(7));
    assert!(alone.chat_template().is_none() && !alone.is_eog(7));
}

#[test]
fn what_holds_no_tokenizer_is_refused_by_a_sentence_with_its_path() {
    let refused = |path: &std::path::Path| {
        let error = open_tokenizer(path).err().unwrap();
        assert!(error.message().starts_with(path.to_str().unwrap()), "{error}");
        error
    };
    let folder = TempFolder::new("no-tokenizer");
    assert!(matches!(refused(&folder.0.join("absent.gguf")), Error::Io(_)));
    if cfg!(feature = "hf") {
        assert!(matches!(refused(&folder.0), Error::Io(sentence) if sentence.contains("tokenizer.json")));
        assert!(matches!(refused(&folder.write("broken.json", "{\"model\":")), Error::Format(_)));
    }
    assert!(matches!(refused(&folder.write("noise.gguf", "no model at all")), Error::Format(_)));
    assert!(matches!(refused(&fixture("models/llama-window.gguf")), Error::Unsupported(_)));
    for bytes in [&b""[..], b"{", b"GGUF", b"   ", b"[1]"] {
        assert!(tokenizer_from_bytes(bytes, "<buffer>").err().unwrap().message().starts_with("<buffer>"));
    }
}

#[derive(serde::Deserialize)]
struct Marks {
    fim_pre: Option<u32>,
    fim_suf: Option<u32>,
    fim_mid: Option<u32>,
    fim_rep: Option<u32>,
    fim_sep: Option<u32>,
}

#[derive(serde::Deserialize)]
struct Vocabulary {
    marks: Marks,
    bos: Option<u32>,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    repository: Vec<u32>,
}

#[test]
fn gaps_are_asked_for_in_the_marks_that_llama_cpp_finds() {
    #[derive(serde::Deserialize)]
    struct Golden {
        prefix: String,
        suffix: String,
        vocabularies: BTreeMap<String, Vocabulary>,
    }
    let golden: Golden = serde_json::from_slice(&std::fs::read(fixture("fim.json")).unwrap()).unwrap();
    let mut n_with = 0;
    for (name, wanted) in &golden.vocabularies {
        let tokenizer = open_tokenizer(&real_model(&format!("vocabs/ggml-vocab-{name}.gguf"))).unwrap();
        let Marks { fim_pre, fim_suf, fim_mid, fim_rep, fim_sep } = wanted.marks;
        let found = tokenizer.fill_in();
        assert_eq!((found.prefix, found.suffix, found.middle), (fim_pre, fim_suf, fim_mid), "{name}");
        assert!(fim_rep.is_none() || found.repository == fim_rep, "{name}");
        assert!(fim_sep.is_none() || found.file == fim_sep, "{name}");
        let prompt = |options: &FimOptions| fim_prompt(&tokenizer, &golden.prefix, &golden.suffix, options);
        let [Some(before), Some(after), Some(middle)] = [fim_pre, fim_suf, fim_mid] else {
            let error = prompt(&FimOptions::default()).unwrap_err();
            assert!(
                matches!(error, Error::Unsupported(_)) && error.message().contains("before the gap"),
                "{error}"
            );
            continue;
        };
        n_with += 1;
        let bos: Vec<u32> = wanted.bos.into_iter().collect();
        let (prefix, suffix) = (&wanted.prefix[..], &wanted.suffix[..]);
        let psm = [&bos[..], &[before], prefix, &[after], suffix, &[middle]].concat();
        let spm = [&bos[..], &[after], suffix, &[before], prefix, &[middle]].concat();
        let joined = [&bos[..], &[before, after], suffix, &[middle], prefix].concat();
        for (order, wanted) in
            [(FimOrder::Auto, &psm), (FimOrder::Psm, &psm), (FimOrder::Spm, &spm), (FimOrder::Spm2, &joined)]
        {
            assert_eq!(
                &prompt(&FimOptions { order, ..FimOptions::default() }).unwrap(),
                wanted,
                "{name}, {order:?}"
            );
        }
        if let Some(mark) = found.repository {
            let options = FimOptions { repository: "calculator".into(), ..FimOptions::default() };
            let expected = [&bos[..], &[mark], &wanted.repository, &psm[bos.len()..]].concat();
            assert_eq!(prompt(&options).unwrap(), expected, "{name}");
        }
    }
    assert_eq!(n_with, 3, "deepseek-coder, refact, starcoder");
}

/// A byte-level vocabulary with these control tokens after the letters.
fn vocabulary(controls: &[&str], keys: &[(&str, Value)]) -> Tokenizer {
    let letters: Vec<String> = ('!'..='~').map(String::from).collect();
    let texts: Vec<&str> =
        letters.iter().map(String::as_str).chain(["Ċ", "Ġ"]).chain(controls.iter().copied()).collect();
    let types: Vec<i32> =
        (0..texts.len()).map(|i| if i < texts.len() - controls.len() { 1 } else { 3 }).collect();
    let mut writer = Writer::new();
    writer.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2");
    let strings = |texts: &[&str]| StringArray::copy(texts).unwrap();
    writer.set("tokenizer.ggml.tokens", strings(&texts)).set("tokenizer.ggml.token_type", types);
    writer.set("tokenizer.ggml.merges", strings(&[]));
    for (key, value) in keys {
        writer.set(key, value.clone());
    }
    tokenizer_from_bytes(&writer.to_bytes().unwrap(), "made").unwrap()
}

#[test]
fn files_and_families_have_their_own_marks() {
    let qwen = ["<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|repo_name|>", "<|file_sep|>"];
    let tokenizer = vocabulary(&qwen, &[]);
    let id = |text: &str| tokenizer.encode(text, false, true).unwrap()[0];
    let options = FimOptions {
        repository: "r".into(),
        file: "m".into(),
        others: vec![("a".into(), "x<|fim_middle|>".into())],
        ..FimOptions::default()
    };
    let found = fim_prompt(&tokenizer, "p", "s", &options).unwrap();
    let text = tokenizer.decode(&found, true).unwrap();
    let wanted = "<|repo_name|>r\n<|file_sep|>a\nx<|fim_middle|><|file_sep|>m\n<|fim_prefix|>p<|fim_suffix|>s<|fim_middle|>";
    assert_eq!(String::from_utf8(text).unwrap(), wanted);
    // The text of another file spells no mark.
    assert_eq!(found.iter().filter(|&&token| token == id("<|fim_middle|>")).count(), 1);

    // Mistral's have no middle: what follows the gap comes first.
    let mistral = vocabulary(&["[PREFIX]", "[SUFFIX]"], &[]);
    let found = fim_prompt(&mistral, "p", "s", &FimOptions::default()).unwrap();
    assert_eq!(mistral.decode(&found, true).unwrap(), b"[SUFFIX]s[PREFIX]p");
    let refused = |options: &FimOptions| fim_prompt(&mistral, "p", "s", options).unwrap_err().to_string();
    assert!(refused(&FimOptions { order: FimOrder::Psm, ..FimOptions::default() }).contains("the middle"));
    assert!(refused(&FimOptions { file: "a".into(), ..FimOptions::default() }).contains("a file"));
    assert!(
        refused(&FimOptions { repository: "a".into(), ..FimOptions::default() }).contains("a repository")
    );

    // Keys count before texts, newer ones before older.
    let keys = [("fim_pre", 3), ("prefix", 4), ("suffix", 5), ("middle", 6)];
    let keys: Vec<(String, Value)> =
        keys.iter().map(|(name, id)| (format!("tokenizer.ggml.{name}_token_id"), Value::U32(*id))).collect();
    let keys: Vec<(&str, Value)> = keys.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let FillIn { prefix, suffix, middle, .. } = *vocabulary(&qwen, &keys).fill_in();
    assert_eq!((prefix, suffix, middle), (Some(3), Some(5), Some(6)));
}

#[test]
fn pairs_have_what_their_family_puts_in_between() {
    let bert = open_tokenizer(&real_model("vocabs/ggml-vocab-bert-bge.gguf")).unwrap();
    let xlm = open_tokenizer(&real_model("vocabs/ggml-vocab-nomic-bert-moe.gguf")).unwrap();
    // `[CLS]` and `[SEP]`; `<s>` and `</s>`, two of which stand between the texts.
    for (tokenizer, begin, between, end) in [(&bert, 101, &[102][..], 102), (&xlm, 0, &[2, 2], 2)] {
        let plain = |text: &str| tokenizer.encode(text, false, false).unwrap();
        let (query, document) = (plain("the sea"), plain("calm water"));
        let pair = tokenizer.encode_pair("the sea", "calm water", None).unwrap();
        assert_eq!(pair.tokens, [&[begin], &query[..], between, &document, &[end]].concat());
        assert_eq!(pair.second, 1 + query.len() + between.len());
        let cut = tokenizer.encode_pair("the sea", "calm water", Some(pair.tokens.len() - 1)).unwrap();
        assert_eq!(
            cut.tokens,
            [&[begin], &query[..], between, &document[..document.len() - 1], &[end]].concat()
        );
    }
    let refused = open_tokenizer(&bundled_model()).unwrap().encode_pair("a", "b", None).unwrap_err();
    assert!(matches!(refused, Error::Unsupported(_)), "{refused}");
}
