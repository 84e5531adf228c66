//! `tokenizer.json` on small made-up models: every kind of model, strip rules, roles, hostile files.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use serde_json::{Value, json};

use super::*;

fn build(file: &Value, config: Option<&Value>) -> Result<Tokenizer> {
    let config = config.map(|config| config.to_string());
    Tokenizer::from_json(file.to_string().as_bytes(), config.as_deref().map(str::as_bytes))
}

fn added(id: u32, content: &str) -> Value {
    json!({ "id": id, "content": content, "special": true, "normalized": false })
}

/// Byte-level BPE: "a", "b", "c", "Ġ", "ab", "Ġa" and the special tokens `<s>`, `<m>`.
fn bpe() -> Value {
    json!({
        "added_tokens": [added(6, "<s>"), added(7, "<m>")],
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false },
        "decoder": { "type": "ByteLevel" },
        "model": {
            "type": "BPE",
            "vocab": { "a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "Ġa": 5 },
            "merges": ["a b", ["Ġ", "a"]],
        },
    })
}

/// WordPiece with "hug", "##s", "!" and BERT's parts around it.
fn wordpiece() -> Value {
    json!({
        "added_tokens": [added(0, "[UNK]"), added(1, "[CLS]"), added(2, "[SEP]")],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "TemplateProcessing", "pair": [],
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                       { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "special_tokens": { "[CLS]": { "id": "[CLS]", "ids": [1], "tokens": ["[CLS]"] },
                                "[SEP]": { "id": "[SEP]", "ids": [2], "tokens": ["[SEP]"] } } },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 10,
                   "vocab": { "[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "hug": 3, "##s": 4, "!": 5, "一": 6 } },
    })
}

/// Unigram with the scores of the example in SentencePiece's tests.
fn unigram() -> Value {
    json!({
        "added_tokens": [added(0, "<unk>")],
        "pre_tokenizer": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true },
        "decoder": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true },
        "model": { "type": "Unigram", "unk_id": 0, "vocab": [
            ["<unk>", 0.0], ["▁", -2.0], ["a", -1.0], ["b", -1.0], ["c", -1.0], ["d", -1.0], ["cd", 1.0], ["ab", 2.0],
            ["abc", 5.0], ["abcd", 10.0], ["▁a", -0.5]] },
    })
}

fn encode(file: &Value, text: &str) -> Vec<u32> {
    build(file, None).unwrap().encode(text, false, true).unwrap()
}

#[test]
fn byte_level_bpe() {
    assert_eq!(encode(&bpe(), "ab abc<s>a"), [4, 3, 4, 2, 6, 0]);
    let tokens = build(&bpe(), None).unwrap();
    assert_eq!(tokens.decode(&[4, 5, 1, 6], false).unwrap(), b"ab ab");
    assert_eq!(tokens.decode(&[6, 0], true).unwrap(), b"<s>a");
    // Control tokens are not spelled by plain text, whose "<", "s" and ">" have no tokens here.
    assert_eq!(tokens.encode("a<s>b", false, false).unwrap(), [0, 1]);
    assert!(tokens.is_hidden(6) && tokens.is_control(6) && !tokens.is_hidden(5));
    assert_eq!(tokens.encode_bytes(b"a\xffb", false, false).unwrap(), [0, 1]);
}

#[test]
fn wordpiece_takes_the_longest_first_and_frames() {
    let tokens = build(&wordpiece(), None).unwrap();
    assert_eq!(tokens.encode("Húgs  HUG!\n", false, false).unwrap(), [3, 4, 3, 5]);
    assert_eq!(tokens.encode("hugss hux hug一hugs", true, false).unwrap(), [1, 3, 4, 4, 0, 3, 6, 3, 4, 2]);
    assert_eq!(tokens.encode(&["hug", &"s".repeat(8)].concat(), false, false).unwrap(), [0]); // too long
    assert_eq!((tokens.bos(), tokens.eos(), tokens.unk()), (Some(1), Some(2), Some(0)));
    assert_eq!((tokens.add_bos(), tokens.add_eos()), (true, true));
    assert_eq!(tokens.decode(&[3, 4, 3, 5], false).unwrap(), b"hugs hug !");
    assert_eq!(tokens.encode_bytes(b"hug\xff\xfe\xff hug", false, false).unwrap(), [3, 0, 3]);
}

#[test]
fn unigram_takes_the_best_sum() {
    assert_eq!(encode(&unigram(), "abcdacdxx"), [1, 9, 2, 6, 0]);
    assert_eq!(encode(&unigram(), "a xé b"), [10, 1, 0, 1, 3]);
    let tokens = build(&unigram(), None).unwrap();
    assert_eq!(tokens.decode(&[10, 1, 3], false).unwrap(), b"a b");
    let mut bytes = unigram();
    bytes["model"]["byte_fallback"] = true.into();
    let list = bytes["model"]["vocab"].as_array_mut().unwrap();
    list.extend((0..256).map(|b| json!([format!("<0x{b:02X}>"), -20.0])));
    assert_eq!(encode(&bytes, "aé"), [10, 11 + 0xC3, 11 + 0xA9]);
}

#[test]
fn characters_fall_back_to_bytes_or_fuse() {
    let file = json!({
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" }] },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 }] },
        "model": { "type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true,
                   "vocab": { "?": 0, "▁": 1, "a": 2, "▁a": 3, "<0xC3>": 4, "<0xA9>": 5 }, "merges": ["▁ a"] },
    });
    assert_eq!(encode(&file, "aé a"), [3, 4, 5, 3]);
    assert_eq!(encode(&file, "xya"), [1, 0, 2]);
    assert_eq!(build(&file, None).unwrap().decode(&[3, 4, 5, 3], false).unwrap(), "aé a".as_bytes());
    assert!(encode(&file, "").is_empty());
}

#[test]
fn added_tokens_follow_their_strip_rules() {
    let token = |rule: &str| {
        let mut file = bpe();
        let mut added = added(7, "<m>");
        added[rule] = true.into();
        file["added_tokens"][1] = added;
        file
    };
    assert_eq!(encode(&token("lstrip"), "a \n <m> a"), [0, 7, 5]);
    assert_eq!(encode(&token("rstrip"), "a <m> \n a"), [0, 3, 7, 0]);
    assert_eq!(encode(&token("rstrip"), "<m> <m>"), [7, 7]);
    assert_eq!(encode(&token("single_word"), "a<m> <m>b <m>"), [0, 3, 1, 3, 7]);
    // A normalized token is searched for in the normalized text, and is normalized itself.
    let mut file = token("normalized");
    file["normalizer"] = json!({ "type": "Lowercase" });
    file["added_tokens"][1]["content"] = "<M>".into();
    assert_eq!(encode(&file, "A<m>B<M>"), [0, 7, 1, 7]);
}

/// BPE of "h", "e", "l", "o" and `▁` for spaces, which the parts put before texts, with `<s>` and `?` for the unknown.
fn pieces(pre_tokenizer: Value) -> Value {
    json!({
        "added_tokens": [added(9, "<s>")],
        "pre_tokenizer": pre_tokenizer,
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }] },
        "model": { "type": "BPE", "unk_token": "?", "merges": ["▁ h", "l l", "ll o"],
                   "vocab": { "▁": 0, "h": 1, "e": 2, "l": 3, "o": 4, "▁h": 5, "ll": 6, "llo": 7, "?": 8 } },
    })
}

/// The bytes of a text that is decoded in two pieces, which are those of the whole.
#[track_caller]
fn in_two_pieces(file: &Value, first: &str, then: &str) -> String {
    let tokens = build(file, None).unwrap();
    let bytes = |ids: &[u32]| ids.iter().flat_map(|&id| tokens.token_bytes(id).unwrap()).copied().collect();
    let whole = tokens.encode(&[first, then].concat(), false, true).unwrap();
    let mut ids = tokens.encode(first, false, true).unwrap();
    ids.extend(tokens.encode_after(&ids, then, true).unwrap());
    let (whole, both) = (String::from_utf8(bytes(&whole)).unwrap(), String::from_utf8(bytes(&ids)).unwrap());
    assert_eq!(both, whole, "{first:?} and {then:?}");
    both
}

/// Whatever texts get a space, one that continues another text gets none.
#[test]
fn metaspace_puts_no_space_after_text() {
    for scheme in ["always", "first", "never"] {
        let metaspace = |split: bool| json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split });
        let words =
            json!({ "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, metaspace(true)] });
        for pre_tokenizer in [metaspace(false), metaspace(true), words] {
            let file = pieces(pre_tokenizer);
            for (first, then) in [("he", "llo"), ("he", " llo"), ("he", "llo hello"), ("he", ""), ("he", " ")]
            {
                in_two_pieces(&file, first, then);
            }
            for (first, then) in [("<s>", "hello"), ("he", "<s>llo"), ("he", "llo<s>llo")] {
                in_two_pieces(&file, first, then);
            }
        }
    }
    let old = pieces(json!({ "type": "Metaspace", "replacement": "▁", "add_prefix_space": true }));
    assert_eq!(in_two_pieces(&old, "he", "llo"), " hello");
    // After bytes that are not text a new text begins.
    assert_eq!(build(&old, None).unwrap().encode_bytes(b"he\xffllo", false, false).unwrap(), [5, 2, 8, 0, 7]);
}

/// Tokens made from text do not end it: the unknown one, and those found in the normalized text.
#[test]
fn special_is_what_is_found_in_the_text_as_it_is() {
    let normalizer = json!({ "type": "Sequence", "normalizers": [
        { "type": "Prepend", "prepend": "▁" },
        { "type": "Replace", "pattern": { "String": " " }, "content": "▁" }] });
    let mut file = pieces(json!(null));
    file["normalizer"] = normalizer;
    file["added_tokens"].as_array_mut().unwrap().push(added(8, "?"));
    assert_eq!(in_two_pieces(&file, "heé", "llo"), " he?llo");
    assert_eq!(in_two_pieces(&file, "he<s>", "hello"), " he<s> hello");
    let mut normalized = added(10, "lo");
    normalized["normalized"] = true.into();
    file["added_tokens"].as_array_mut().unwrap().push(normalized);
    let tokens = build(&file, None).unwrap();
    assert_eq!(tokens.encode(" lohello", false, true).unwrap().get(..2), Some(&[0, 10][..]));
    assert_eq!(tokens.encode_after(&[0, 10], "he", true).unwrap(), [1, 2]);
}

/// After the tokenizer's own prefix of a text, the text is at the start.
#[test]
fn text_after_the_frame_is_at_the_start() {
    let metaspace =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false });
    let mut file = pieces(metaspace);
    file["post_processor"] = json!({ "type": "TemplateProcessing", "pair": [],
        "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "special_tokens": { "<s>": { "id": "<s>", "ids": [9], "tokens": ["<s>"] } } });
    let tokens = build(&file, None).unwrap();
    assert_eq!(tokens.encode("", true, true).unwrap(), [9]);
    assert_eq!(tokens.encode("he", true, true).unwrap(), [9, 5, 2]);
    assert_eq!(tokens.encode_after(&[9], "he", true).unwrap(), [5, 2]);
    // It is the start in no other case.
    assert_eq!(tokens.encode_after(&[5, 9], "he", true).unwrap(), [1, 2]);
    assert_eq!(tokens.encode_after(&[9, 9], "he", true).unwrap(), [1, 2]);
    assert_eq!(tokens.encode("<s>he", true, true).unwrap(), [9, 9, 1, 2]);
}

/// The space that ByteLevel puts before texts is not part of the normalized text, in which tokens are found.
#[test]
fn byte_level_puts_its_space_before_each_text() {
    let mut file = bpe();
    file["pre_tokenizer"]["add_prefix_space"] = true.into();
    file["model"]["vocab"][">"] = 9.into();
    for text in ["ab", " ab"] {
        assert_eq!(encode(&file, text), [3, 4]);
    }
    assert_eq!(build(&file, None).unwrap().encode_bytes(b"a\xffa", false, false).unwrap(), [5, 5]);
    let normalized = |id: u32, content: &str| json!({ "id": id, "content": content, "normalized": true });
    file["added_tokens"] = json!([added(6, "<s>"), normalized(1, "b"), normalized(8, "<a>")]);
    assert_eq!(encode(&file, "ab"), [5, 1]);
    assert_eq!(encode(&file, "<a>>"), [8, 3, 9]);
    assert_eq!(encode(&file, "a<s>a<a>a a"), [5, 6, 5, 8, 5, 5]);
    for (first, then) in [("a", "a"), ("a", "<a>a"), ("<s>", "a"), ("a", " a")] {
        in_two_pieces(&file, first, then);
    }
}

#[test]
fn the_config_names_roles_and_the_template() {
    let config = json!({ "bos_token": { "content": "<s>", "lstrip": false }, "eos_token": "<m>", "pad_token": null,
        "unk_token": "a token of its own", "add_bos_token": true, "add_eos_token": true, "chat_template": "{{ messages }}" });
    let tokens = build(&bpe(), Some(&config)).unwrap();
    // The tokenizer.json frames no text, which flags beside it do not change.
    assert_eq!(tokens.encode("a", true, false).unwrap(), [0]);
    let n_vocab = build(&bpe(), None).unwrap().n_vocab() as u32;
    assert_eq!(
        (tokens.bos(), tokens.eos(), tokens.pad(), tokens.unk()),
        (Some(6), Some(7), None, Some(n_vocab))
    );
    assert!(tokens.is_eog(7) && !tokens.is_eog(6));
    assert_eq!(tokens.chat_template(), Some("{{ messages }}"));
    let named = json!({ "chat_template": [{ "name": "rag", "template": "r" }, { "name": "default", "template": "d" }] });
    assert_eq!(build(&bpe(), Some(&named)).unwrap().chat_template(), Some("d"));
}

#[test]
fn hostile_files_are_refused_with_a_sentence() {
    let with = |file: Value, path: &str, value: Value| {
        let mut file = file;
        *file.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        file
    };
    let extra = |file: Value, field: &str, value: Value| {
        let mut file = file;
        file["model"][field] = value;
        file
    };
    let charsmap = |bytes: &str| {
        let normalizer = json!({ "type": "Precompiled", "precompiled_charsmap": bytes });
        let mut file = unigram();
        file["normalizer"] = normalizer;
        file
    };
    let cases: Vec<(Value, &str)> = vec![
        (json!(null), "the tokenizer.json cannot be read"),
        (json!({}), "missing field `model`"),
        (with(bpe(), "/model/type", json!("WordLevel")), "the model \"WordLevel\""),
        (with(bpe(), "/model/type", json!(7)), "cannot be read"),
        (with(bpe(), "/model/vocab", json!(7)), "tokens with ids, or a list of tokens with scores"),
        (with(bpe(), "/model/vocab", json!([["a", 0.5]])), "has scores, but the model needs ids"),
        (with(unigram(), "/model/vocab", json!({ "a": 0 })), "Unigram needs scores"),
        (with(bpe(), "/model/vocab/a", json!(-1)), "cannot be read"),
        (with(bpe(), "/model/vocab/a", json!(4_000_000_000u32)), "\"a\" has the id 4000000000"),
        (with(bpe(), "/added_tokens/0/id", json!(u32::MAX)), "\"<s>\" has the id 4294967295"),
        (with(bpe(), "/model/merges", json!(["ab"])), "merge 0 in \"model.merges\" is \"ab\""),
        (with(bpe(), "/model/merges", json!([["a", "b", "c"]])), "a merge has two parts"),
        (with(bpe(), "/model/merges", json!(["a c"])), "\"ac\" is not a token"),
        (
            extra(bpe(), "continuing_subword_prefix", json!("##")),
            "\"model.continuing_subword_prefix\" is \"##\"",
        ),
        (extra(bpe(), "end_of_word_suffix", json!("</w>")), "\"model.end_of_word_suffix\" is \"</w>\""),
        (extra(bpe(), "unk_token", json!("<unk>")), "\"model.unk_token\" is \"<unk>\", which is not a token"),
        (extra(unigram(), "unk_id", json!(99)), "\"model.unk_id\" is 99"),
        (extra(unigram(), "unk_id", json!(null)), "needs an unknown token"),
        (with(wordpiece(), "/model/continuing_subword_prefix", json!("@@")), "only \"##\" is supported"),
        (with(wordpiece(), "/normalizer", json!({ "type": "Magic" })), "the normalizer \"Magic\""),
        (with(wordpiece(), "/normalizer", json!(7)), "the normalizer \"\""),
        (with(wordpiece(), "/pre_tokenizer/type", json!("Magic")), "the pre-tokenizer \"Magic\""),
        (with(wordpiece(), "/post_processor/type", json!("Magic")), "the post-processor \"Magic\""),
        (with(wordpiece(), "/post_processor/single", json!(7)), "no list \"single\""),
        (with(wordpiece(), "/post_processor/special_tokens", json!({})), "\"[CLS]\", but no ids"),
        (
            with(wordpiece(), "/post_processor/special_tokens/[CLS]/ids", json!([99])),
            "the post-processor names the token 99",
        ),
        (charsmap("!"), "is not base64"),
        (charsmap("AAA="), "has 2 bytes, fewer than 4"),
        (charsmap("/////w=="), "says that its trie has 4294967295 bytes"),
        (
            with(
                bpe(),
                "/pre_tokenizer",
                json!({ "type": "Split", "pattern": { "Regex": "(" }, "behavior": "Isolated", "invert": false }),
            ),
            "the expression \"(\"",
        ),
    ];
    for (file, sentence) in cases {
        match build(&file, None) {
            Ok(_) => panic!("not refused: {sentence}"),
            Err(e) => assert!(e.message().contains(sentence), "{e}\nlacks: {sentence}"),
        }
    }
    let e = build(&bpe(), Some(&json!("x"))).err().unwrap();
    assert!(e.message().contains("the tokenizer_config.json cannot be read"), "{e}");
}

/// A sentence quotes of a text as much as one can read.
#[test]
fn long_texts_are_cut_in_sentences() {
    /// A file, a place in it, and what is put there.
    type Field = (fn() -> Value, &'static str, Value);
    let long = "\u{1}".repeat(1 << 20);
    let fields: [Field; 11] = [
        (bpe, "/model/type", json!(long)),
        (bpe, "/model/vocab/a", json!(long)),
        (bpe, "/model/merges", json!([long])),
        (bpe, "/model/merges", json!([["a", long]])),
        (
            bpe,
            "/pre_tokenizer",
            json!({ "type": "Split", "pattern": { "Regex": format!("({long}") }, "behavior": "Isolated" }),
        ),
        (bpe, "/pre_tokenizer", json!({ "type": "Split", "pattern": { "String": "a" }, "behavior": long })),
        (wordpiece, "/model/unk_token", json!(long)),
        (wordpiece, "/model/continuing_subword_prefix", json!(long)),
        (wordpiece, "/normalizer/type", json!(long)),
        (wordpiece, "/pre_tokenizer/type", json!(long)),
        (wordpiece, "/post_processor/single/0/SpecialToken/id", json!(long)),
    ];
    for (file, path, value) in fields {
        let mut file = file();
        *file.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        let error = build(&file, None).err().unwrap_or_else(|| panic!("{path} is taken"));
        assert!(error.message().len() < 4000, "{path}: {} bytes", error.message().len());
    }
    let e = build(&bpe(), Some(&json!({ "do_lower_case": long }))).err().unwrap();
    assert!(e.message().len() < 1000 && e.message().contains(" at line 1 column "), "{:.500}", e.message());
}

/// Deeper than any parser should recurse.
#[test]
fn deep_nesting_is_refused() {
    let mut normalizer = r#"{"type":"Sequence","normalizers":["#.repeat(100_000);
    normalizer.push_str(&"]}".repeat(100_000));
    let file =
        format!(r#"{{"normalizer":{normalizer},"model":{{"type":"BPE","vocab":{{"a":0}},"merges":[]}}}}"#);
    assert!(Tokenizer::from_json(file.as_bytes(), None).is_err());
}

/// A table whose trie leads outside it, or in circles, replaces nothing and does not hang.
#[test]
fn broken_normalization_tables_are_harmless() {
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for _ in 0..2000 {
        let mut blob = 64u32.to_le_bytes().to_vec();
        blob.extend((0..64).map(|_| random.random_range(0..=255u8)));
        blob.extend(b"abc\0def");
        let map = charsmap::Charsmap::new(&blob, "test").unwrap();
        let text: String = (0..50).map(|_| random.random_range('\0'..='\u{7ff}')).collect();
        assert!(map.replace(&text, usize::MAX).len() <= text.len() * 8);
        assert!(map.replace_graphemes(&text, usize::MAX).len() <= text.len() * 8);
    }
}

/// Does not read the clock: quadratic time would take hours.
#[test]
fn long_texts_take_linear_time() {
    for file in [bpe(), wordpiece(), unigram()] {
        let tokens = build(&file, None).unwrap();
        for unit in ["a", " ", "abcd", "hugs", "é", "<m", "一"] {
            tokens.encode(&unit.repeat((1 << 20) / unit.len()), true, true).unwrap();
        }
    }
}
