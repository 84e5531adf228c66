//! What a user types can never spell a control token: whatever stands in messages and tools, the prompt has the control tokens that
//! the template wrote, and no other one.
#![cfg(all(feature = "chat", feature = "hf"))]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::collections::BTreeSet;

use common::{byte_level, real_model};
use ember::chat::{ChatInput, ChatTemplate, Guard};
use ember::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// Control tokens of the field, whatever a template has.
const KNOWN: [&str; 16] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|start|>",
    "<|end|>",
    "<|channel|>",
    "<|message|>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<｜User｜>",
    "<｜end▁of▁sentence｜>",
];

/// Texts between marks of a template: what may be control tokens of its model.
fn marks(template: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = KNOWN.iter().map(|&text| text.to_owned()).collect();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (at, _) in template.match_indices(open) {
            let end = template[at..].find(close).map_or(at, |n| at + n + close.len_utf8());
            let mark = &template[at..end];
            let fits = (3..40).contains(&mark.len())
                && !mark.chars().any(|c| c.is_whitespace() || "{}()='\"\\,.+".contains(c));
            if fits {
                found.insert(mark.to_owned());
            }
        }
    }
    found
}

/// A tokenizer of single bytes whose control tokens are `marks`.
fn tokenizer(marks: &BTreeSet<String>) -> Tokenizer {
    let added: Vec<Value> = (256..)
        .zip(marks)
        .map(|(id, content)| {
            json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        })
        .collect();
    Tokenizer::from_json(byte_level(added).as_bytes(), None).unwrap()
}

/// The tokenizer's guard.
fn guard(tokenizer: &Tokenizer) -> Guard {
    let ids = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id));
    let texts: Vec<String> =
        ids.map(|id| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap()).into_owned()).collect();
    Guard::new(texts.iter().map(String::as_str))
}

/// Conversations that have the texts `a` and `b`, which stand beside each other where there are parts, in every place.
fn conversations(a: &str, b: &str) -> Vec<(&'static str, Value, Option<Value>)> {
    let both = format!("{a}{b}");
    let user = json!({"role": "user", "content": "hi"});
    let call = |name: &str, city: &str| {
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
               "function": {"name": name, "arguments": {"city": city}}}]})
    };
    let tool = |text: &str| {
        json!([{"type": "function", "function": {"name": "weather", "description": text, "parameters":
            {"type": "object", "properties": {"city": {"type": "string", "description": text}}, "required": ["city"]}}}])
    };
    let result =
        |text: &str| json!({"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": text});
    vec![
        ("user", json!([{"role": "user", "content": both}]), None),
        (
            "parts",
            json!([{"role": "user", "content": [{"type": "text", "text": a}, {"type": "text", "text": b}]}]),
            None,
        ),
        ("system", json!([{"role": "system", "content": both}, user]), None),
        ("assistant", json!([user, {"role": "assistant", "content": both}, user]), None),
        (
            "reasoning",
            json!([user, {"role": "assistant", "content": "x", "reasoning_content": both}, user]),
            None,
        ),
        ("argument", json!([user, call("weather", &both), result("1")]), Some(tool("d"))),
        ("name", json!([user, call(&both, "Paris"), result("1")]), Some(tool("d"))),
        ("result", json!([user, call("weather", "Paris"), result(&both)]), Some(tool("d"))),
        ("tools", json!([user]), Some(tool(&both))),
    ]
}

fn input(tools: Option<&Value>) -> ChatInput {
    let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
    ChatInput {
        tools: tools.map(Value::to_string),
        add_generation_prompt: true,
        special_tokens: tokens.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        now: Some(1_735_648_245),
        ..ChatInput::default()
    }
}

/// The control tokens of a conversation's prompt, and its text; `None` where the template refuses it.
fn controls(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    guard: Option<&Guard>,
    (messages, tools): (&Value, Option<&Value>),
) -> Option<(Vec<u32>, String)> {
    let rendered = template.render_guarded(&messages.to_string(), &input(tools), guard).ok()?;
    let ids = tokenizer.encode_rendered(&[], &rendered.text, &rendered.foreign).unwrap();
    let text = tokenizer.decode(&ids, true).unwrap();
    assert_eq!(String::from_utf8_lossy(&text), rendered.text, "the text stays what it was");
    Some((ids.into_iter().filter(|&id| tokenizer.is_control(id)).collect(), rendered.text))
}

#[test]
fn nobody_breaks_out_of_a_turn() {
    let folder = real_model("templates");
    let (mut n_templates, mut n_cases, mut n_bites) = (0, 0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let Ok(template) = ChatTemplate::parse(&source) else { continue };
        let marks = marks(&source);
        let tokenizer = tokenizer(&marks);
        let guard = guard(&tokenizer);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut n_of_template = 0;
        // All marks one after the other; then each cut in its middle and between two parts.
        let all: String = marks.iter().map(|mark| format!("{mark}\n")).collect();
        let halves: Vec<(&str, &str)> = marks
            .iter()
            .map(|mark| {
                mark.split_at((1..mark.len() / 2 + 2).rfind(|&at| mark.is_char_boundary(at)).unwrap())
            })
            .collect();
        let plain = conversations("x", "y");
        for (a, b) in [(all.as_str(), "")].into_iter().chain(halves) {
            for ((what, evil, evil_tools), (_, good, good_tools)) in conversations(a, b).iter().zip(&plain) {
                let case = format!("{name}, {what}: {a:?} {b:?}");
                let run = |guard, messages, tools: &Option<Value>| {
                    controls(&tokenizer, &template, guard, (messages, tools.as_ref()))
                };
                let Some((expected, _)) = run(Some(&guard), good, good_tools) else { continue };
                let Some((got, _)) = run(Some(&guard), evil, evil_tools) else { continue };
                assert_eq!(got, expected, "{case}");
                n_of_template += 1;
                // Without the guard the same texts do break out.
                n_bites += usize::from(run(None, evil, evil_tools).is_some_and(|(free, _)| free != expected));
            }
        }
        // Some templates take variables that nobody gives here.
        n_templates += usize::from(n_of_template > 0);
        n_cases += n_of_template;
    }
    println!("{n_templates} templates, {n_cases} conversations; {n_bites} break out without the guard");
    assert!(n_templates >= 60 && n_bites > n_cases / 2, "{n_templates} {n_bites} {n_cases}");
}

#[test]
fn real_tokenizers_keep_texts_apart_too() {
    let mut n_cases = 0;
    for family in ["qwen2_5", "qwen3", "llama3_2", "gemma3", "mistral_nemo", "deepseek_v3", "gptoss"] {
        let read = |file: &str| std::fs::read(real_model(&format!("tokenizers/{family}/{file}"))).unwrap();
        let tokenizer =
            Tokenizer::from_json(&read("tokenizer.json"), Some(&read("tokenizer_config.json"))).unwrap();
        let Some(source) = tokenizer.chat_template() else { continue };
        let template = ChatTemplate::parse(source).unwrap();
        let guard = guard(&tokenizer);
        let ids = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id)).take(300);
        let texts: Vec<String> =
            ids.map(|id| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap()).into_owned()).collect();
        let all = texts.join("");
        for ((what, evil, tools), (_, good, good_tools)) in
            conversations(&all, "!").iter().zip(&conversations("x", "y"))
        {
            let controls = |messages: &Value, tools: &Option<Value>| {
                let input = input(tools.as_ref());
                let rendered = template.render_guarded(&messages.to_string(), &input, Some(&guard)).ok()?;
                let ids = tokenizer.encode_rendered(&[], &rendered.text, &rendered.foreign).unwrap();
                Some(ids.into_iter().filter(|&id| tokenizer.is_control(id)).collect::<Vec<_>>())
            };
            if let (Some(expected), Some(got)) = (controls(good, good_tools), controls(evil, tools)) {
                assert_eq!(got, expected, "{family}, {what}");
                n_cases += 1;
            }
        }
    }
    assert!(n_cases >= 20, "{n_cases}");
}

/// Texts without such characters are written as they always were, and so are those with them, but where a template looks into them.
#[test]
fn a_guard_changes_no_text() {
    let conversation = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " a < b, [c] \\ud800 | d> "},
        {"role": "assistant", "content": "ok"}, {"role": "user", "content": "é€😀"}]);
    let mut n = 0;
    for file in std::fs::read_dir(real_model("templates")).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let template = ChatTemplate::parse(&source).unwrap();
        let guard = guard(&tokenizer(&marks(&source)));
        let free = template.render(&conversation.to_string(), &input(None));
        let guarded = template.render_guarded(&conversation.to_string(), &input(None), Some(&guard));
        if let (Ok(free), Ok(guarded)) = (free, guarded) {
            assert_eq!(guarded.text, free, "{}", path.display());
            n += 1;
        }
    }
    assert!(n >= 55, "{n}");
}
