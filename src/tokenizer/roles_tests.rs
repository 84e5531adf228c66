//! Tokens that are known by their texts, typed in every way.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::Tokenizer;
use super::tests::Keys;

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Texts after which llama.cpp ends a generation.
const ENDS: [&str; 33] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
    "</s>",
];

/// A vocabulary of byte-level BPE with these texts, which begin at token 189, and their types; no token has a role by a key.
fn with(texts: &[(&str, i32)]) -> Tokenizer {
    let alphabet = ('!'..='~').chain('¡'..='¬').chain('®'..='ÿ').map(String::from);
    let mut all: Vec<String> = alphabet.collect();
    assert_eq!(all.len() as u32, FIRST);
    let mut types = vec![NORMAL; all.len()];
    all.extend(texts.iter().map(|(text, _)| text.to_string()));
    types.extend(texts.iter().map(|(_, ty)| ty));
    // Two merges lead to "<e", which is only text.
    all.push("<e".into());
    types.push(NORMAL);
    let keys = Keys(vec![]).set("model", "gpt2").set("pre", "gpt-2");
    keys.strings("tokens", &all).set("token_type", types).strings("merges", &["< e"]).build().unwrap()
}

const FIRST: u32 = 188;

#[test]
fn an_end_ends_whatever_its_type() {
    for text in ENDS {
        for ty in [NORMAL, USER_DEFINED, CONTROL, 0, 5] {
            let tokens = with(&[(text, ty)]);
            // The tag of HTML is text unless it is a control token or a role names it.
            let is_end = text != "</s>" || matches!(ty, USER_DEFINED | CONTROL);
            assert_eq!(tokens.is_eog(FIRST), is_end, "{text} typed {ty}");
            assert_eq!(tokens.is_control(FIRST), is_end, "{text} typed {ty}");
            if is_end {
                // Plain text does not spell it, a template does.
                assert!(!tokens.encode(text, false, false).unwrap().contains(&FIRST), "{text} typed {ty}");
                assert_eq!(tokens.encode(text, false, true).unwrap(), [FIRST], "{text} typed {ty}");
                assert_eq!(tokens.decode(&[FIRST], false).unwrap(), b"", "{text} typed {ty}");
            }
        }
    }
}

#[test]
fn the_end_of_a_turn_is_found_among_normal_tokens() {
    for text in ["<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<|end|>"] {
        let tokens = with(&[("<eos>", CONTROL), (text, NORMAL)]);
        assert_eq!(tokens.eot(), Some(FIRST + 1), "{text}");
        assert!(tokens.is_eog(FIRST) && tokens.is_eog(FIRST + 1), "{text}");
    }
}

#[test]
fn gemmas_tag_of_html_is_text() {
    for ty in [NORMAL, USER_DEFINED] {
        for beside in ["<start_of_turn>", "<end_of_turn>", "<|tool_response>", "<|plamo:eos|>"] {
            for typed in [NORMAL, CONTROL] {
                let tokens = with(&[("</s>", ty), (beside, typed)]);
                assert!(!tokens.is_eog(FIRST) && !tokens.is_control(FIRST), "{ty}, {beside}");
                assert_eq!(tokens.decode(&[FIRST], false).unwrap(), b"</s>", "{ty}, {beside}");
            }
        }
    }
    // Plain text spells it where it is user-defined.
    let tokens = with(&[("</s>", USER_DEFINED), ("<end_of_turn>", NORMAL)]);
    let ids = tokens.encode("a</s><end_of_turn>", false, false).unwrap();
    assert!(ids[1] == FIRST && !ids.contains(&(FIRST + 1)), "{ids:?}");
    let ids = tokens.encode("</s><end_of_turn>", false, true).unwrap();
    assert_eq!(ids, [FIRST, FIRST + 1]);
}

#[test]
fn a_vocabulary_without_such_texts_has_no_ends() {
    let tokens = with(&[("<end_of_turn", NORMAL), ("end_of_turn>", CONTROL), (" <|im_end|>", NORMAL)]);
    assert!((0..tokens.n_vocab() as u32).all(|token| !tokens.is_eog(token)));
    assert_eq!(tokens.eot(), None);
    let ids = tokens.encode("<end_of_turn>", false, false).unwrap();
    assert_eq!(tokens.decode(&ids, false).unwrap(), b"<end_of_turn>");
}

#[test]
fn parts_of_a_message_end_nothing_even_if_normal() {
    for ty in [NORMAL, USER_DEFINED, CONTROL] {
        let tokens = with(&[("<|end|>", ty), ("<|return|>", ty), ("<|call|>", ty)]);
        let ends: Vec<bool> = (FIRST..FIRST + 3).map(|token| tokens.is_eog(token)).collect();
        assert_eq!(ends, [false, true, true], "{ty}");
    }
}

#[test]
fn what_fills_gaps_is_control_and_ends_nothing() {
    for text in ["<|fim_prefix|>", "<fim-suffix>", "<｜fim▁end｜>", "▁<MID>", "<|code_prefix|>"] {
        for ty in [NORMAL, USER_DEFINED, CONTROL] {
            let tokens = with(&[(text, ty)]);
            assert!(tokens.is_control(FIRST) && !tokens.is_eog(FIRST), "{text} typed {ty}");
            assert!(!tokens.encode(text, false, false).unwrap().contains(&FIRST), "{text} typed {ty}");
            assert_eq!(tokens.encode(text, false, true).unwrap(), [FIRST], "{text} typed {ty}");
        }
    }
}
