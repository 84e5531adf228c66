//! `tokenizer.json` files that try to crash, hang or fill the memory of the program that loads them. No test reads the clock:
//! quadratic time would take hours here.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use serde_json::{Value, json};

use super::*;

/// Byte-level BPE of "a", "b" and the space, with `field` set to `value`.
fn with(field: &str, value: Value) -> Result<Tokenizer> {
    let mut file = json!({
        "decoder": { "type": "ByteLevel" },
        "model": { "type": "BPE", "vocab": { "a": 0, "b": 1, "Ġ": 2 }, "merges": [] },
    });
    file[field] = value;
    Tokenizer::from_json(file.to_string().as_bytes(), None)
}

/// The sentence that refuses the file, or else the text.
#[track_caller]
fn refusal(tokens: Result<Tokenizer>, text: &str) -> String {
    let outcome = tokens.and_then(|tokens| tokens.encode(text, true, true));
    match outcome {
        Ok(ids) => panic!("not refused: {} ids", ids.len()),
        Err(e) => e.message().to_owned(),
    }
}

#[test]
fn steps_that_multiply_a_text_are_stopped() {
    let double = [
        json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" }),
        json!({ "type": "Replace", "pattern": { "Regex": "a" }, "content": "aa" }),
        json!({ "type": "Replace", "pattern": { "Regex": "" }, "content": "aa" }),
        json!({ "type": "ByteLevel" }),
        json!({ "type": "Prepend", "prepend": "a".repeat(300) }),
    ];
    for step in double {
        let steps = json!({ "type": "Sequence", "normalizers": vec![step; 64] });
        let sentence = refusal(with("normalizer", steps), "éa");
        assert!(sentence.starts_with("the normalizer makes "), "{sentence}");
    }
    // The size of a replacement is known before it is made.
    let huge = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "b".repeat(1 << 20) });
    let sentence = refusal(with("normalizer", huge), &"a".repeat(1 << 20));
    // Sizes are limited by their type.
    let makes = usize::try_from(1u64 << 40).unwrap_or(usize::MAX);
    assert_eq!(
        sentence,
        format!("the normalizer makes {makes} bytes of a text that may become 33555456 bytes at most")
    );
    let token = json!([{ "id": 3, "content": "a", "normalized": true }]);
    let mut file = json!({ "added_tokens": token, "normalizer": { "type": "Prepend", "prepend": "b".repeat(5000) },
                           "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] } });
    assert!(Tokenizer::from_json(file.to_string().as_bytes(), None).is_err());
    file["normalizer"]["prepend"] = json!("b");
    assert!(Tokenizer::from_json(file.to_string().as_bytes(), None).is_ok());
}

#[test]
fn expressions_of_normalizers_replace() {
    let step = json!({ "type": "Replace", "pattern": { "Regex": " {2,}|b(?=a)" }, "content": "b" });
    assert_eq!(
        with("normalizer", step).unwrap().encode("a   a a ba", false, false).unwrap(),
        [0, 1, 0, 2, 0, 2, 1, 0]
    );
    let step = json!({ "type": "Replace", "pattern": { "Regex": "(" }, "content": "" });
    assert!(
        refusal(with("normalizer", step), "a").starts_with("the expression \"(\" of the normalizer Replace")
    );
    let step = json!({ "type": "Replace", "pattern": { "Regex": "a" } });
    assert!(
        refusal(with("normalizer", step), "a")
            .starts_with("the normalizer \"Replace\" is not known, or malformed")
    );
}

/// A table whose trie leads in circles and whose replacements are long.
#[test]
fn normalization_tables_take_linear_time() {
    // The unit of "a" refers to itself and says that each of "a", "aa", … is a key.
    let table = |replacement: &str| {
        let mut units: Vec<u32> = (0..128).collect();
        units[97] = 97 | 1 << 8 | 97 << 10;
        units[0] = 0;
        let mut blob = 512u32.to_le_bytes().to_vec();
        units.iter().for_each(|unit| blob.extend(unit.to_le_bytes()));
        blob.extend(replacement.as_bytes());
        charsmap::Charsmap::new(&blob, "test")
    };
    let map = table("bc\0").unwrap();
    let text = "a".repeat(1 << 20);
    assert_eq!(map.replace("aaaab", 100), "bcb");
    assert!(map.replace(&text, usize::MAX).len() < text.len());
    let e = table(&"b".repeat(1025)).err().unwrap();
    assert!(e.message().contains("has a replacement of 1025 bytes"), "{e}");
    let map = table(&"b".repeat(1024)).unwrap();
    assert!(map.replace(&text, 5000).len() <= 5000 + 1024);
    assert!(map.replace_graphemes(&text, 5000).len() <= 5000 + 1024);
}

/// Expressions that read the rest of the text for every character of it.
#[test]
fn slow_expressions_are_stopped() {
    let text = "a".repeat(1 << 17);
    for (expression, behavior, invert) in [("a*b|a", "Isolated", false), ("(?=.*b)a|.", "Removed", true)] {
        let split = json!({ "type": "Split", "pattern": { "Regex": expression }, "behavior": behavior, "invert": invert });
        let sentence = refusal(with("pre_tokenizer", split), &text);
        assert!(sentence.contains("takes too long on this text"), "{sentence}");
    }
    let step = json!({ "type": "Replace", "pattern": { "Regex": "a*b|a" }, "content": "a" });
    let sentence = refusal(with("normalizer", step), &text);
    assert!(sentence.contains("takes too long on this text"), "{sentence}");
}

/// Expressions that in one search read the rest of the text at each place, or try ever more at one place.
const QUADRATIC: &str = r"(?=[^\x00]*\x00)c";
const EXPONENTIAL: &str = r"(?=(?:(?=.).|(?=.)){0,14}\x00|).";

fn split(expression: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": expression }, "behavior": "Isolated", "invert": false })
}

#[test]
fn searches_that_take_long_are_stopped() {
    let text = "ab ".repeat(1 << 17);
    let in_pieces = json!({ "type": "Sequence", "pretokenizers": [{ "type": "FixedLength", "length": 200 }, split(EXPONENTIAL)] });
    for stage in [split(QUADRATIC), split(EXPONENTIAL), in_pieces] {
        let sentence = refusal(with("pre_tokenizer", stage), &text);
        assert!(sentence.contains("takes too long on this text"), "{sentence}");
    }
    let step = json!({ "type": "Replace", "pattern": { "Regex": EXPONENTIAL }, "content": "a" });
    let steps = json!({ "type": "Sequence", "normalizers": vec![step; 10_000] });
    let sentence = refusal(with("normalizer", steps), &"ab ".repeat(100));
    assert!(sentence.contains("takes too long on this text"), "{sentence}");
    // One attempt backtracks a limited number of times.
    let sentence = refusal(with("pre_tokenizer", split(r"(?=(?:(?=.).|(?=.)){0,40}\x00|).")), &text);
    assert!(sentence.contains("takes too long on this text: an expression gives up at byte 0"), "{sentence}");
}

#[test]
fn many_steps_take_their_time_together() {
    let step = |kind: &str| json!({ "type": kind });
    let steps =
        json!({ "type": "Sequence", "normalizers": vec![[step("NFKD"), step("NFKC")]; 10_000].concat() });
    let sentence = refusal(with("normalizer", steps), &"é".repeat(1 << 15));
    assert!(sentence.contains("takes too long on this text"), "{sentence}");
    // Each special token begins a text, but a long prefix comes one time.
    let token = json!([{ "id": 3, "content": "x", "normalized": false }]);
    let file = json!({ "added_tokens": token, "normalizer": { "type": "Prepend", "prepend": "a".repeat(1000) },
                       "model": { "type": "BPE", "vocab": { "a": 0, "b": 1 }, "merges": [] } });
    let tokens = Tokenizer::from_json(file.to_string().as_bytes(), None);
    assert!(tokens.as_ref().unwrap().encode("xa", true, true).is_ok());
    let sentence = refusal(tokens, &"xa".repeat(1 << 12));
    assert!(sentence.starts_with("the normalizer makes "), "{sentence}");
}

#[test]
fn expressions_take_so_much_memory_only() {
    let many = |expressions: Vec<String>| {
        let stages = expressions.iter().map(|e| split(e)).collect::<Vec<_>>();
        with("pre_tokenizer", json!({ "type": "Sequence", "pretokenizers": stages }))
    };
    let sentence = refusal(many((50..150).map(|i| format!(r"[\pL\pM\pN]{{{i}}}")).collect()), "a");
    assert!(sentence.contains("it is too large: "), "{sentence}");
    let sentence = refusal(many((50..250).map(|i| format!(r"a(?!b)c{{{i}}}")).collect()), "a");
    assert!(sentence.contains("it is too large: "), "{sentence}");
    let sentence = refusal(many(vec![format!("(?!b){}", "a".repeat(1 << 13))]), "a");
    assert!(sentence.contains("it is too large: "), "{sentence}");
    // Repeating the same expression adds none.
    let tokens = many(vec![r"[\pL\pM\pN]{50}".to_owned(); 100]).unwrap();
    assert_eq!(tokens.encode("ab", true, true).unwrap(), [0, 1]);
}

#[test]
fn special_tokens_take_so_much_memory_only() {
    let tokens = |n: u32| {
        let token = |id: u32| json!({ "id": 3 + id, "content": format!("{id:0>512}"), "normalized": false });
        with("added_tokens", (0..n).map(token).collect())
    };
    assert!(tokens(1000).is_ok());
    let sentence = refusal(tokens(10_000), "a");
    assert_eq!(sentence, "the texts of 10000 special tokens have 5120000 bytes, more than 4194304");
}

/// Vocabularies with the most possible pieces at each place of a text.
#[test]
fn vocabularies_that_take_long_are_stopped() {
    let pieces = (1..=512).map(|n| json!(["a".repeat(n), -1.0])).collect::<Vec<_>>();
    let vocab = [vec![json!(["?", 0.0])], pieces].concat();
    let file = json!({ "model": { "type": "Unigram", "unk_id": 0, "vocab": vocab } });
    let tokens = Tokenizer::from_json(file.to_string().as_bytes(), None);
    let sentence = refusal(tokens, &"a".repeat(1 << 20));
    assert!(sentence.contains("takes too long on this text"), "{sentence}");
    let file = json!({ "model": { "type": "WordPiece", "unk_token": "?", "max_input_chars_per_word": 1000,
        "vocab": { "?": 0, "a": 1, "##a": 2, "x".repeat(1200): 3 } },
        "pre_tokenizer": { "type": "BertPreTokenizer" } });
    let tokens = Tokenizer::from_json(file.to_string().as_bytes(), None);
    let text = ["a".repeat(1000), " ".into()].concat().repeat(1 << 11);
    let sentence = refusal(tokens, &text);
    assert!(sentence.contains("takes too long on this text"), "{sentence}");
}

#[test]
fn assertions_see_what_was_matched_before() {
    let with_c = |stage: Value| {
        let file = json!({ "pre_tokenizer": stage, "decoder": { "type": "ByteLevel" }, "model": { "type": "BPE",
            "vocab": { "a": 0, "b": 1, "c": 2, "bc": 3 }, "merges": ["b c"] } });
        Tokenizer::from_json(file.to_string().as_bytes(), None)
    };
    let tokens = with_c(split(r"a|(?<=a)b|[bc]+")).unwrap();
    assert_eq!(tokens.encode("abc bc", false, false).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn splits_remove_what_their_options_say() {
    let literal = |invert: bool| {
        let stage =
            json!({ "type": "Split", "pattern": { "String": "b" }, "behavior": "Removed", "invert": invert });
        let tokens = with("pre_tokenizer", stage).unwrap();
        ["aa", "aba"].map(|text| tokens.encode(text, false, false).unwrap())
    };
    assert_eq!(literal(false), [vec![0, 0], vec![0, 0]]);
    assert_eq!(literal(true), [vec![], vec![1]]);
    let split = |behavior: &str, invert: bool| {
        let stage =
            json!({ "type": "Split", "pattern": { "Regex": "b+" }, "behavior": behavior, "invert": invert });
        with("pre_tokenizer", stage).and_then(|tokens| tokens.encode("bab ba", false, false))
    };
    assert_eq!(split("Removed", false).unwrap(), [0, 2, 0]);
    assert_eq!(split("Removed", true).unwrap(), [1, 1, 1]);
    assert_eq!(split("Isolated", true).unwrap(), [1, 0, 1, 2, 1, 0]);
    assert!(split("Contiguous", false).is_err());
}

#[test]
fn names_and_sizes_that_the_library_would_panic_at() {
    for name in [json!({ "Precompiled": null }), json!(null), json!(["NFC"])] {
        let sentence = refusal(with("normalizer", json!({ "type": name })), "a");
        assert!(sentence.starts_with("the normalizer \"\" is not known"), "{sentence}");
        let sentence = refusal(with("pre_tokenizer", json!({ "type": name })), "a");
        assert!(sentence.starts_with("the pre-tokenizer \"\" is not known"), "{sentence}");
    }
    // The library would run a sequence under another name as it is.
    let table =
        json!({ "type": "Precompiled", "precompiled_charsmap": "EAAAAAAEAABhAQAAYQEAAGEBAABhAGJjAGRlZgA=" });
    let sequence = json!({ "type": "BertNormalizer", "normalizers": [table] });
    let sentence = refusal(with("normalizer", sequence.clone()), "abc");
    assert_eq!(sentence, "the normalizer \"BertNormalizer\" has the fields of another");
    let sequence = json!({ "type": "Digits", "normalizers": sequence["normalizers"] });
    let sentence = refusal(with("normalizer", sequence), "abc");
    assert!(sentence.starts_with("the normalizer \"Digits\" is not known"), "{sentence}");
    let sequence =
        json!({ "type": "CharDelimiterSplit", "pretokenizers": [{ "type": "FixedLength", "length": 0 }] });
    let sentence = refusal(with("pre_tokenizer", sequence), "abc");
    assert!(sentence.starts_with("the pre-tokenizer \"CharDelimiterSplit\" is not known"), "{sentence}");
    let sequence = json!({ "type": "Magic", "pretokenizers": [{ "type": "FixedLength", "length": 0 }] });
    let sentence = refusal(with("pre_tokenizer", sequence), "abc");
    assert!(sentence.starts_with("the pre-tokenizer \"Magic\" is not known"), "{sentence}");
    let sentence = refusal(with("pre_tokenizer", json!({ "type": "FixedLength", "length": 0 })), "a");
    assert_eq!(sentence, "the field \"length\" of the pre-tokenizer FixedLength is 0, expected at least 1");
}

#[test]
fn a_small_file_asks_for_no_large_frame() {
    let single = vec![json!({ "SpecialToken": { "id": "x", "type_id": 0 } }); 1000];
    let tokens = json!({ "x": { "id": "x", "ids": vec![0; 1000], "tokens": [] } });
    let frame = json!({ "type": "TemplateProcessing", "single": single, "special_tokens": tokens });
    let sentence = refusal(with("post_processor", frame), "a");
    assert_eq!(sentence, "the post-processor puts more than 256 tokens around a text");
}

#[test]
fn tokens_that_take_white_space_along_take_linear_time() {
    let token = json!([{ "id": 3, "content": " ", "lstrip": true }]);
    let tokens = with("added_tokens", token).unwrap();
    assert_eq!(tokens.encode(&" ".repeat(1 << 20), true, true).unwrap().len(), 1 << 20);
}

#[test]
fn parts_and_texts_that_no_file_has_are_refused() {
    let sentence = refusal(with("decoder", json!(vec!["x".repeat(1000); 5000])), "a");
    assert_eq!(
        sentence,
        "the field \"decoder\" of the tokenizer.json has 5015001 bytes, Ember reads at most 4194304"
    );
    for text in ["\"x".repeat(3 << 20), format!("\\{}", "x".repeat(5 << 20))] {
        let sentence = refusal(with("x", json!(text)), "a");
        assert!(sentence.ends_with(" or is nested as deeply; Ember reads at most 4194304"), "{sentence}");
    }
    assert!(with("x", json!(vec!["\\\""; 2 << 20])).is_ok());
    let nested = format!("{{\"x\":{}", "[".repeat(5 << 20));
    let sentence = refusal(Tokenizer::from_json(nested.as_bytes(), None), "a");
    assert!(
        sentence.starts_with("the tokenizer.json has a text of 4194305 bytes, or is nested as deeply"),
        "{sentence}"
    );
    let split =
        json!({ "type": "Split", "pattern": { "String": "a" }, "behavior": "Isolated", "invert": false });
    let stages = json!({ "type": "Sequence", "pretokenizers": vec![split; 1001] });
    let sentence = refusal(with("pre_tokenizer", stages), "a");
    assert_eq!(sentence, "the pre-tokenizer has more than 1000 stages, the most Ember reads");
}

/// The library's private names have no meaning in a file: a text is never read as JSON.
#[test]
fn texts_in_parts_are_no_json() {
    let raw = |text: &str| json!({ "$serde_json::private::RawValue": text });
    let sentence = refusal(with("normalizer", raw(r#"{"type":"Lowercase"}"#)), "a");
    assert!(sentence.starts_with("the normalizer \"\" is not known"), "{sentence}");
    // Here the tokenizers crate makes trees of unknown fields.
    for text in ["not JSON", "[[[0]]]"] {
        let lower = json!({ "type": "Lowercase", "x": raw(text), "y": [raw(text)] });
        assert_eq!(with("normalizer", lower).unwrap().encode("AB", false, false).unwrap(), [0, 1]);
    }
}

/// The memory of a part is estimated from its objects and lists, not from its texts.
#[test]
fn braces_in_texts_are_no_objects() {
    let memory_needed = json_file::memory_needed;
    for text in ["{", "[", ",", r#"\"{"#, r"\\", r#"\\\"[,"#] {
        let (many, other) = (text.repeat(1000), "x".repeat(1000 * text.len()));
        let part = |text: &str| format!("{{\"type\": \"{text}\", \"{text}\": [{{}}]}}");
        assert_eq!(memory_needed(&part(&many)), memory_needed(&part(&other)), "{text}");
        let string = json!({ "type": "Replace", "pattern": { "String": many }, "content": "b" });
        assert_eq!(with("normalizer", string).unwrap().encode("a", false, false).unwrap(), [0]);
    }
    let (one, list, element) = (memory_needed("{}"), memory_needed("[]"), memory_needed("[1,1]"));
    assert_eq!((one, list, element), (4096 + 8, 1024 + 8, 1024 + 512 + 3 * 8));
}

/// Fields that the model's settings do not need are dropped, whatever they are.
#[test]
fn unknown_settings_of_the_model_are_passed_over() {
    let model = json!({ "type": "BPE", "vocab": { "a": 0, "b": 1 }, "merges": null, "dropout": null, "x": [{ "y": [] }] });
    assert_eq!(with("model", model).unwrap().encode("ab", false, false).unwrap(), [0, 1]);
    let sentence = refusal(with("model", json!({ "vocab": {}, "unk_id": "a" })), "a");
    assert!(
        sentence.starts_with("the tokenizer.json cannot be read: invalid type: string \"a\""),
        "{sentence}"
    );
}
