//! Every pre-tokenizer that llama.cpp knows by name, on vocabularies that exist: the tokens of texts with digits, letters of many
//! scripts, contractions, white space and emoji (`tests/oracle/tokenizer_pre.py` says whose they are).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use common::{fixture, ids, read_json, real_model};
use ember::gguf::{Gguf, Value};
use ember::tokenizer::Tokenizer;

#[test]
fn every_name_cuts_texts_as_its_model_was_trained() {
    let json = read_json(&fixture("tokenizer/pre.json"));
    let list = |texts: &serde_json::Value| -> Vec<String> {
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let all = list(&json["texts"]);
    let (mut wrong, mut n_names) = (Vec::new(), 0);
    for group in json["groups"].as_array().unwrap() {
        let vocab = group["vocab"].as_str().unwrap();
        let path = match vocab {
            "rwkv" | "plamo2" | "hybriddna" => fixture(&format!("tokenizer/{vocab}.gguf")),
            other => real_model(&format!("vocabs/ggml-vocab-{other}.gguf")),
        };
        let mut file = Gguf::open(&path).unwrap();
        if let Some(model) = group["model"].as_str() {
            file.set_metadata(&[("tokenizer.ggml.model".into(), Value::from(model))]).unwrap();
        }
        let names = group["names"].as_array().unwrap().iter().map(|name| Some(name.as_str().unwrap()));
        let alone = ["rwkv", "plamo2", "hybriddna"].contains(&vocab);
        let texts = if group["texts"].is_array() { list(&group["texts"]) } else { all.clone() };
        let names: Vec<Option<&str>> = if alone { vec![None] } else { names.collect() };
        for name in names {
            n_names += 1;
            if let Some(name) = name {
                file.set_metadata(&[("tokenizer.ggml.pre".into(), Value::from(name))]).unwrap();
            }
            let tokens = Tokenizer::from_gguf(file.metadata()).unwrap_or_else(|e| panic!("{name:?}: {e}"));
            for (text, expected) in texts.iter().zip(group["tokens"].as_array().unwrap()) {
                let (found, expected) = (tokens.encode(text, false, false).unwrap(), ids(expected));
                if found != expected {
                    wrong.push(format!("{name:?}: {text:?}\n   gives {found:?}\nexpected {expected:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_names > 90, "only {n_names} names were tried");
}

/// RWKV's tokens are bytes, which need not be text: each longest one that is there.
#[test]
fn the_tokens_of_rwkv_are_bytes() {
    let file = Gguf::open(&fixture("tokenizer/rwkv.gguf")).unwrap();
    let tokens = Tokenizer::from_gguf(file.metadata()).unwrap();
    let cases: [(&[u8], &[u32]); 3] = [
        (b"\xff\xfe\x80 world", &[280, 128, 276]),
        ("\u{65e5}\u{672c}\u{8a9e} the\t\tabcde".as_bytes(), &[268, 232, 170, 158, 259, 277, 266]),
        (b"\x01\x7f", &[1, 127]),
    ];
    for (text, expected) in cases {
        let ids = tokens.encode_bytes(text, false, false).unwrap();
        assert_eq!(ids, expected);
        assert_eq!(tokens.decode(&ids, false).unwrap(), text);
    }
}

/// Tokens of six letters are written without the mark that their texts have in the file.
#[test]
fn sequences_of_dna_come_back_as_they_were() {
    let file = Gguf::open(&fixture("tokenizer/hybriddna.gguf")).unwrap();
    let tokens = Tokenizer::from_gguf(file.metadata()).unwrap();
    let ids = tokens.encode("<dna>ACGTACgattac</dna>", false, false).unwrap();
    assert_eq!(tokens.decode(&ids, false).unwrap(), b"<dna>ACGTACGATTAC</dna>");
    assert_eq!(ids.len(), 4);
}
