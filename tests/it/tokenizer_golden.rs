//! Tokens of real models against llama.cpp's (see `tests/oracle/tokenizer_golden.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use ember::gguf::Gguf;
use ember::tokenizer::Tokenizer;
use serde_json::Value;

/// Checks every case of a fixture, both ways.
fn check(fixture: &str) {
    let json = std::fs::read(common::fixture("tokenizer").join(fixture)).unwrap();
    let golden: Value = serde_json::from_slice(&json).unwrap();
    let model = Gguf::open(&common::real_model(golden["model"].as_str().unwrap())).unwrap();
    let tokens = Tokenizer::from_gguf(model.metadata()).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() >= 200);
    for case in cases {
        let (text, parse_special) = (case[0].as_str().unwrap(), case[1].as_bool().unwrap());
        let expected: Vec<u32> =
            case[2].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let ids = tokens.encode(text, false, parse_special).unwrap();
        assert_eq!(ids, expected, "{text:?}, parse_special = {parse_special}");
        check_round_trip(&tokens, text, &ids);
    }
}

/// The tokens decode to the text, but for what the vocabulary cannot express.
fn check_round_trip(tokens: &Tokenizer, text: &str, ids: &[u32]) {
    let decoded = String::from_utf8_lossy(&tokens.decode(ids, true).unwrap()).into_owned();
    // SmolLM2 has no tokens for some control characters; SentencePiece writes the space as `▁`, and one is put
    // before the text and after each special token.
    let kept = |c: &char| !c.is_control() && !matches!(c, ' ' | '▁');
    let same = |a: &str, b: &str| a.chars().filter(kept).eq(b.chars().filter(kept));
    assert!(same(&decoded, text), "{text:?} came back as {decoded:?}");
    let plain = !text.contains(['<', '▁']) && !text.chars().any(char::is_control);
    assert!(!plain || decoded == text, "{text:?} came back as {decoded:?}");
}

#[test]
fn smollm2_tokens_are_llama_cpps() {
    check("smollm2.json");
}

#[test]
fn stories15m_tokens_are_llama_cpps() {
    check("stories15m.json");
}
