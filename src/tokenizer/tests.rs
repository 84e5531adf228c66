//! Both kinds of vocabulary on small made-up models: round trips, special tokens at every boundary, hostile files.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::gguf::writer::Writer;
use crate::gguf::{Gguf, StringArray, Value};

const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// The metadata of a model under construction.
#[derive(Clone)]
pub(super) struct Keys(pub(super) Vec<(String, Value)>);

impl Keys {
    /// Sets `tokenizer.ggml.` + `key`, or replaces its value.
    pub(super) fn set(mut self, key: &str, value: impl Into<Value>) -> Keys {
        self = self.without(key);
        self.0.push((format!("tokenizer.ggml.{key}"), value.into()));
        self
    }

    pub(super) fn without(mut self, key: &str) -> Keys {
        self.0.retain(|(k, _)| k.strip_prefix("tokenizer.ggml.") != Some(key));
        self
    }

    pub(super) fn strings<S: AsRef<[u8]>>(self, key: &str, strings: &[S]) -> Keys {
        self.set(key, StringArray::copy(strings).unwrap())
    }

    pub(super) fn build(&self) -> Result<Tokenizer> {
        let mut file = Writer::new();
        for (key, value) in &self.0 {
            file.set(key, value.clone());
        }
        Tokenizer::from_gguf(Gguf::from_bytes(&file.to_bytes().unwrap(), "test").unwrap().metadata())
    }
}

/// Byte-level BPE with all 256 bytes, the merges "he", "ll", "hell", "Ġhell" and six special tokens.
fn bpe() -> Keys {
    let mut texts: Vec<String> =
        ["<|begin|>", "<|im_end|>", "<tool>", "<tool>s", "\t\t", "<pad>"].map(String::from).into();
    let mut types = vec![CONTROL, CONTROL, CONTROL, CONTROL, USER_DEFINED, CONTROL];
    let alphabet = ('!'..='~').chain('¡'..='¬').chain('®'..='ÿ').chain('Ā'..='Ń');
    texts.extend(alphabet.map(String::from));
    texts.extend(["he", "ll", "hell", "Ġhell"].map(String::from));
    types.resize(texts.len(), 1);
    Keys(vec![])
        .set("model", "gpt2")
        .set("pre", "gpt-2")
        .strings("tokens", &texts)
        .set("token_type", types)
        .strings("merges", &["h e", "l l", "he ll", "Ġ hell"])
        .set("bos_token_id", 0u32)
        .set("eos_token_id", 1u32)
        .set("padding_token_id", 5u32)
}

/// Unigram: `<unk>`, `</s>`, "▁", "a" and "▁a".
fn unigram() -> Keys {
    Keys(vec![])
        .set("model", "t5")
        .strings("tokens", &["<unk>", "</s>", "▁", "a", "▁a"])
        .set("token_type", vec![2, CONTROL, 1, 1, 1])
        .set("scores", vec![0f32, 0.0, -3.0, -2.0, -1.0])
        .set("unknown_token_id", 0u32)
        .set("eos_token_id", 1u32)
}

/// The token of a text in [`bpe`].
fn bpe_id(text: &str) -> u32 {
    let tokens = bpe().build().unwrap();
    (0..tokens.n_vocab() as u32).find(|&t| tokens.token_bytes(t).unwrap() == text.as_bytes()).unwrap()
}

/// SentencePiece-style: `<unk>`, `<s>`, `</s>`, 256 bytes and a few pieces, the better the longer.
fn spm() -> Keys {
    let mut texts: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    let mut types = vec![2, CONTROL, CONTROL];
    texts.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    types.resize(texts.len(), 6);
    let pieces = [
        "▁", "h", "e", "l", "o", "s", "<", ">", "/", "s>", "</", "ll", "he", "hell", "hello", "▁hello", "éé",
    ];
    texts.extend(pieces.map(String::from));
    types.resize(texts.len(), 1);
    texts.push("  ".into());
    types.push(USER_DEFINED);
    let scores: Vec<f32> = texts.iter().map(|t| t.chars().count() as f32).collect();
    Keys(vec![])
        .set("model", "llama")
        .strings("tokens", &texts)
        .set("token_type", types)
        .set("scores", scores)
}

/// Random text: every plane of Unicode, with a liking for white space and the pieces of the vocabularies above.
fn random_text(random: &mut Xoshiro256PlusPlus) -> String {
    let mut text = String::new();
    for _ in 0..random.random_range(0..24) {
        match random.random_range(0..6) {
            0 => text.push_str([" ", "  ", "\n", "\t\t", "\u{3000}"][random.random_range(0..5)]),
            1 => text.push_str(["hell", "hello", "he", "<s>", "<tool>"][random.random_range(0..5)]),
            2 => text.push(random.random_range(' '..='~')),
            3 => text.push(random.random_range('\0'..='\u{7ff}')),
            4 => text.push(random.random_range('\u{e000}'..='\u{ffff}')),
            _ => text.push(random.random_range('\u{10000}'..='\u{10ffff}')),
        }
    }
    text
}

fn text_of(tokens: &Tokenizer, ids: &[u32], special: bool) -> String {
    String::from_utf8(tokens.decode(ids, special).unwrap()).unwrap()
}

#[test]
fn every_text_comes_back_from_bpe() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for pre in ["gpt-2", "smollm", "llama-bpe", "stablelm2", "default", "falcon", "deepseek-v3"] {
        let tokens = bpe().set("pre", pre).build().unwrap();
        for _ in 0..2000 {
            let text = random_text(&mut random);
            let ids = tokens.encode(&text, false, false).unwrap();
            assert_eq!(text_of(&tokens, &ids, false), text);
            assert!(!ids.iter().any(|&t| tokens.is_control(t)), "{text:?}");
            let ids = tokens.encode(&text, true, true).unwrap();
            assert_eq!(text_of(&tokens, &ids, true).trim_start_matches("<|begin|>"), text);
        }
    }
}

#[test]
fn every_character_comes_back() {
    let (bpe, spm) = (bpe().build().unwrap(), spm().build().unwrap());
    for c in ('\0'..=char::MAX).filter(|&c| c != '▁') {
        let text = String::from(c);
        for tokens in [&bpe, &spm] {
            assert_eq!(text_of(tokens, &tokens.encode(&text, false, false).unwrap(), false), text);
        }
    }
}

#[test]
fn every_text_comes_back_from_spm() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for prefix in [true, false] {
        let tokens = spm().set("add_space_prefix", prefix).build().unwrap();
        for _ in 0..5000 {
            // The stand-in for the space comes back as a space; after a user-defined token a space is put.
            let text = random_text(&mut random).replace('▁', " ").replace("  ", "-");
            let ids = tokens.encode(&text, true, false).unwrap();
            assert_eq!(text_of(&tokens, &ids, false), text);
            assert!(!ids[1..].iter().any(|&t| tokens.is_control(t)), "{text:?}");
        }
    }
}

#[test]
fn merging_follows_ranks_and_scores() {
    let tokens = bpe().build().unwrap();
    assert_eq!(tokens.encode("hell hell", false, false).unwrap(), [bpe_id("hell"), bpe_id(" hell")]);
    assert_eq!(tokens.encode("hel", false, false).unwrap(), [bpe_id("he"), bpe_id("l")]);

    let tokens = spm().build().unwrap();
    let pieces = |text: &str| -> Vec<String> {
        let ids = tokens.encode(text, false, false).unwrap();
        ids.iter().map(|&t| String::from_utf8_lossy(tokens.token_bytes(t).unwrap()).into_owned()).collect()
    };
    assert_eq!(pieces("hello"), [" hello"]);
    assert_eq!(pieces("hello hello"), [" hello", " hello"]);
    // "é" is no piece, but "éé" is: characters join before the rest falls back to bytes.
    assert_eq!(pieces("éééé"), [" ", "éé", "éé"]);
    assert_eq!(tokens.encode("é", false, false).unwrap().len(), 3);
}

#[test]
fn spaces_are_prefixed_at_the_start_and_after_special_tokens() {
    let tokens = spm().build().unwrap();
    let hello = tokens.encode("hello", false, false).unwrap();
    assert_eq!(tokens.encode("", true, false).unwrap(), [1]);
    assert_eq!(tokens.encode("hello", true, false).unwrap(), [&[1], &hello[..]].concat());
    let ids = tokens.encode("hello</s>hello", false, true).unwrap();
    assert_eq!(ids, [&hello[..], &[2], &hello[..]].concat());
    // The space at the start of the sequence is not the text's; later ones stay.
    assert_eq!(text_of(&tokens, &ids, true), "hello</s> hello");
    assert_eq!(text_of(&tokens, &[&[1], &hello[..]].concat(), false), "hello");
    assert_eq!(tokens.token_bytes(hello[0]).unwrap(), b" hello");

    // A user-defined token at the start had no space put before it.
    let ids = tokens.encode("  ", false, false).unwrap();
    assert_eq!((ids.len(), &*text_of(&tokens, &ids, false)), (1, "  "));

    let bare = spm().set("add_space_prefix", false).build().unwrap();
    let ids = bare.encode("hello hello", true, false).unwrap();
    assert_eq!(text_of(&bare, &ids, false), "hello hello");
    assert_ne!(ids[1], hello[0]);
}

/// Text that is encoded in two pieces has the tokens of one text, spaces included, after special tokens too.
#[test]
fn text_after_other_text_gets_no_space() {
    for keys in [spm(), spm().set("add_space_prefix", false), bpe()] {
        let tokens = keys.build().unwrap();
        for (first, then) in [("he", "llo"), ("hell", " hell"), ("</s>", "he"), ("a", " a"), ("a", "")] {
            let whole = tokens.encode(&format!("{first}{then}"), false, true).unwrap();
            let begin = tokens.encode(first, false, true).unwrap();
            let after = tokens.encode_after(&begin, then, true).unwrap();
            assert_eq!(text_of(&tokens, &[begin, after].concat(), true), text_of(&tokens, &whole, true));
        }
    }
}

#[test]
fn plain_text_spells_no_control_token() {
    let tokens = spm().build().unwrap();
    let ids = tokens.encode("</s><s><0x41>", false, false).unwrap();
    assert!(ids.iter().all(|&t| !tokens.is_control(t)));
    assert_eq!(text_of(&tokens, &ids, false), "</s><s><0x41>");
    assert_eq!(tokens.encode("</s><s>", false, true).unwrap(), [2, 1]);

    // Even where merges lead there, and where whole words are looked up.
    let texts = ["<", "s", ">", "<s", "<s>"];
    let tokens = Keys(vec![])
        .set("model", "gpt2")
        .set("pre", "llama-bpe")
        .strings("tokens", &texts)
        .set("token_type", vec![1, 1, 1, 1, CONTROL])
        .strings("merges", &["< s", "<s >"])
        .build()
        .unwrap();
    assert!(!tokens.encode("<s><s>", false, false).unwrap().contains(&4));
    assert_eq!(tokens.encode("<s>", false, true).unwrap(), [4]);
}

#[test]
fn special_tokens_are_found_at_every_boundary() {
    let tokens = bpe().build().unwrap();
    let (end, tool, tools, tabs) = (1, 2, 3, 4);
    let (a, l) = (bpe_id("a"), bpe_id("<"));
    let cases: [(&str, &[u32]); 9] = [
        ("<|im_end|>", &[end]),
        ("a<|im_end|>", &[a, end]),
        ("<|im_end|>a", &[end, a]),
        ("<|im_end|><|im_end|>", &[end, end]),
        ("a<|im_end|>a<tool>a", &[a, end, a, tool, a]),
        ("<tool>s<tool>", &[tools, tool]), // the longer one wins
        ("<<tool>", &[l, tool]),
        ("\t\t<tool>\t\t", &[tabs, tool, tabs]),
        ("", &[]),
    ];
    for (text, ids) in cases {
        assert_eq!(tokens.encode(text, false, true).unwrap(), ids, "{text:?}");
        assert_eq!(text_of(&tokens, ids, true), text);
    }
    // User-defined tokens are found either way, control tokens are not.
    assert_eq!(tokens.encode("\t\ta", false, false).unwrap(), [tabs, a]);
    assert!(!tokens.encode("<tool>", false, false).unwrap().contains(&tool));
    assert_eq!(text_of(&tokens, &[0, a, end, tabs], false), "a\t\t");
    assert_eq!(tokens.token_bytes(end).unwrap(), b"<|im_end|>");
}

#[test]
fn bos_and_eos_follow_the_file() {
    let a = bpe_id("a");
    let encode = |keys: Keys| keys.build().unwrap().encode("a", true, false).unwrap();
    assert_eq!(encode(bpe()), [a]);
    assert_eq!(encode(bpe().set("pre", "llama-bpe")), [0, a]);
    assert_eq!(encode(bpe().set("pre", "llama-bpe").set("add_bos_token", false)), [a]);
    assert_eq!(encode(bpe().set("add_bos_token", true).set("add_eos_token", true)), [0, a, 1]);
    let spm = spm().build().unwrap();
    assert_eq!(
        (spm.bos(), spm.eos(), spm.unk(), spm.add_bos(), spm.add_eos()),
        (Some(1), Some(2), Some(0), true, false)
    );
}

#[test]
fn tokens_that_end_a_generation() {
    let tokens = bpe().set("eos_token_id", 2u32).set("eot_token_id", 3u32).build().unwrap();
    let eog: Vec<u32> = (0..tokens.n_vocab() as u32 + 9).filter(|&t| tokens.is_eog(t)).collect();
    assert_eq!(eog, [1, 2, 3]); // 1 is known by its text
    assert_eq!((tokens.eos(), tokens.eot(), tokens.pad()), (Some(2), Some(3), Some(5)));
    assert_eq!(bpe().build().unwrap().eot(), Some(1));
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let base = Keys(vec![]).set("model", "gpt2").strings("tokens", &["a", "b", "ab"]);
    let tokens = base.strings("merges", &["a b"]).build().unwrap();
    assert_eq!(tokens.encode("ab", false, false).unwrap(), [2]);
    assert_eq!(tokens.encode("acb", false, false).unwrap(), [0, 1]); // nothing is merged across the gap

    let base = Keys(vec![]).set("model", "llama").set("add_bos_token", false).set("add_space_prefix", false);
    let base =
        base.strings("tokens", &["?", "a"]).set("scores", vec![0f32, 0.0]).set("token_type", vec![2, 1]);
    assert_eq!(base.build().unwrap().encode("aba", false, false).unwrap(), [1, 0, 1]);
}

/// Does not read the clock: quadratic time would take hours.
#[test]
fn long_runs_take_linear_time() {
    for tokens in
        [bpe().build().unwrap(), bpe().set("pre", "smollm").build().unwrap(), spm().build().unwrap()]
    {
        for unit in [" ", "a", "hello", "hello ", "l", "é", "<", "\n", "<tool>"] {
            let size = if matches!(unit, " " | "a") { 1 << 20 } else { 1 << 17 };
            let text = unit.repeat(size / unit.len());
            let ids = tokens.encode(&text, false, true).unwrap();
            assert!(text_of(&tokens, &ids, true) == text, "{unit:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_come_back() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let bpe = bpe().build().unwrap();
    let spm = spm().set("add_space_prefix", false).build().unwrap();
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.random_range(0..12))
            .map(|_| if random.random_bool(0.5) { random.random_range(0..=255) } else { b'h' })
            .collect();
        for tokens in [&bpe, &spm] {
            let ids = tokens.encode_bytes(&bytes, false, false).unwrap();
            assert_eq!(tokens.decode(&ids, false).unwrap(), bytes);
        }
    }
    // Text after a gap does not start the sequence: no space is put before it.
    let prefixed = self::spm().build().unwrap();
    let ids = prefixed.encode_bytes(b"hello\xff\xffhello", false, false).unwrap();
    assert_eq!(prefixed.decode(&ids, false).unwrap(), b"hello\xff\xffhello");
}

#[test]
fn ids_that_are_no_tokens_are_ignored_until_they_are_needed() {
    let tokens = bpe().set("padding_token_id", 266u32).set("eos_token_id", -1i32).build().unwrap();
    assert_eq!((tokens.pad(), tokens.eos()), (None, None));
    let e = bpe().set("bos_token_id", u32::MAX).set("add_bos_token", true).build().err().unwrap();
    assert!(e.message().contains("\"tokenizer.ggml.bos_token_id\" names no token"), "{e}");
}

#[test]
fn unigram_folds_spaces_when_the_file_says_so() {
    let encode = |keys: Keys, text| keys.build().unwrap().encode(text, true, false).unwrap();
    assert_eq!(encode(unigram(), "a  a"), [4, 2, 4, 1]);
    assert_eq!(encode(unigram().set("remove_extra_whitespaces", true), "  a  a "), [4, 4, 1]);
    assert_eq!(encode(unigram().set("add_space_prefix", false), "aé"), [3, 0, 1]);
}

#[cfg(not(target_family = "wasm"))]
#[test]
fn many_threads_share_one_tokenizer() {
    let tokens = bpe().build().unwrap();
    let expected = tokens.encode("hell hello", true, true).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..500).for_each(|_| assert_eq!(tokens.encode("hell hello", true, true).unwrap(), expected))
            });
        }
    });
}

#[test]
fn tokens_of_the_same_text_are_legal() {
    let keys = Keys(vec![]).set("model", "gpt2").strings("tokens", &["a", "b", "a", "", ""]);
    let tokens = keys.strings("merges", &[] as &[&str]).build().unwrap();
    assert_eq!(tokens.encode("ab", false, false).unwrap(), [0, 1]);
    assert_eq!(tokens.decode(&[0, 2, 3, 4, 1], true).unwrap(), b"aab");
}

#[test]
fn hostile_files_are_refused_with_a_sentence() {
    let cases: Vec<(Keys, &str)> = vec![
        (bpe().without("model"), "\"tokenizer.ggml.model\""),
        (bpe().set("model", "plamo9"), "the kind of vocabulary \"plamo9\""),
        (bpe().set("model", 1u32), "\"tokenizer.ggml.model\""),
        (bpe().set("pre", "gpt-17"), "the pre-tokenizer \"gpt-17\""),
        (bpe().without("tokens"), "\"tokenizer.ggml.tokens\""),
        (bpe().set("tokens", vec![1u32]), "\"tokenizer.ggml.tokens\""),
        (bpe().strings("tokens", &[] as &[&str]), "\"tokenizer.ggml.tokens\" is empty"),
        (bpe().strings("tokens", &["a"]), "\"tokenizer.ggml.token_type\" has 266 elements"),
        (
            bpe().without("token_type").strings("tokens", &[&b"a\xff"[..]]),
            "token 0 in \"tokenizer.ggml.tokens\" is not UTF-8",
        ),
        (bpe().set("token_type", "x"), "\"tokenizer.ggml.token_type\""),
        (bpe().set("token_type", vec![1i32; 3]), "\"tokenizer.ggml.token_type\" has 3 elements"),
        (bpe().without("merges"), "\"tokenizer.ggml.merges\""),
        (bpe().strings("merges", &["h e", "he"]), "merge 1 in \"tokenizer.ggml.merges\" is \"he\""),
        (
            bpe().strings("merges", &["h xyz"]),
            "merge 0 in \"tokenizer.ggml.merges\" is \"h xyz\", but \"xyz\"",
        ),
        (bpe().strings("merges", &["h h"]), "but \"hh\" is not a token"),
        (bpe().strings("merges", &[" "]), "merge 0"),
        (bpe().strings("merges", &["é "]), "merge 0"),
        (bpe().strings("merges", &[&b"h \xff"[..]]), "merge 0 in \"tokenizer.ggml.merges\" is not UTF-8"),
        (bpe().set("bos_token_id", "0"), "\"tokenizer.ggml.bos_token_id\" is a string"),
        (bpe().set("add_bos_token", 1u32), "\"tokenizer.ggml.add_bos_token\""),
        (
            bpe().set("add_eos_token", true).without("eos_token_id"),
            "\"tokenizer.ggml.eos_token_id\" names no token",
        ),
        (spm().without("scores"), "\"tokenizer.ggml.scores\""),
        (spm().set("scores", vec![0f32]), "\"tokenizer.ggml.scores\" has 1 elements"),
        (spm().set("scores", vec![f32::NAN; 277]), "the score of token 0 in \"tokenizer.ggml.scores\""),
        (spm().set("token_type", vec![6i32; 277]), "token 0 is a byte token, but its text is \"<unk>\""),
        (spm().set("add_space_prefix", "yes"), "\"tokenizer.ggml.add_space_prefix\""),
        (unigram().set("unknown_token_id", 99u32), "a Unigram vocabulary needs an unknown token"),
        (unigram().set("scores", vec![f32::NAN; 5]), "the score of token 0"),
        (
            unigram().set("precompiled_charsmap", "x"),
            "\"tokenizer.ggml.precompiled_charsmap\" is not an array of bytes",
        ),
        (unigram().set("precompiled_charsmap", vec![9u8; 8]), "says that its trie has 151587081 bytes"),
        (unigram().set("remove_extra_whitespaces", 1u32), "\"tokenizer.ggml.remove_extra_whitespaces\""),
    ];
    for (keys, sentence) in cases {
        match keys.build() {
            Ok(_) => panic!("not refused: {sentence}"),
            Err(e) => assert!(e.message().contains(sentence), "{e}\nlacks: {sentence}"),
        }
    }
}

#[test]
fn tokens_that_do_not_exist_are_refused() {
    let tokens = bpe().build().unwrap();
    let n = tokens.n_vocab() as u32;
    for token in [n, u32::MAX] {
        assert!(tokens.token_bytes(token).unwrap_err().message().contains("266 tokens"));
        assert!(tokens.decode(&[0, token], false).is_err());
        assert!(!tokens.is_control(token) && !tokens.is_eog(token));
    }
}
