//! Replies written by the templates of many models, parsed: every call, thought and text comes back, however the reply is cut
//! into chunks.
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::collections::BTreeMap;

use ember::chat::reply::{End, Event, ReplyFormat, ReplyOptions, ReplyParser, Tools};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The form of the calls of each template of the cache; the others have none, or one that is not known.
const FORMS: &[(&str, &[&str])] = &[
    ("apertus", &["Apertus-8B-Instruct"]),
    ("apriel", &["Apriel-1.6-15b-Thinker-fixed", "MiniMax-M1", "unsloth-Apriel-1.5"]),
    ("cohere", &["Cohere2MoE", "CohereForAI-c4ai-command-r7b-12-2024-tool_use"]),
    (
        "deepseek",
        &[
            "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
            "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
            "deepseek-ai-DeepSeek-V3.1",
            "llama-cpp-deepseek-r1",
        ],
    ),
    (
        "deepseek-dsml",
        &["deepseek-ai-DeepSeek-V3.2", "deepseek-ai-DeepSeek-V4", "deepseek-ai-DeepSeek-V4-Flash-0731"],
    ),
    ("functionary", &["meetkai-functionary-medium-v3.1"]),
    ("functionary-3.2", &["meetkai-functionary-medium-v3.2"]),
    ("gemma-4", &["google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved"]),
    ("gigachat-3", &["GigaChat3-10B-A1.8B"]),
    ("gigachat-3.1", &["GigaChat3.1-10B-A1.8B"]),
    (
        "glm",
        &[
            "GLM-4.6",
            "GLM-4.7-Flash",
            "Spark2.5",
            "inclusionai-ling-3.0-flash",
            "poolside-Laguna-S-2.1",
            "poolside-Laguna-XS-2.1",
            "poolside-Laguna-XS.2",
        ],
    ),
    ("granite-3", &["ibm-granite-granite-3.3-2B-Instruct"]),
    ("harmony", &["openai-gpt-oss-120b"]),
    (
        "hermes",
        &[
            "Bielik-11B-v3.0-Instruct",
            "MiMo-VL",
            "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
            "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
            "Qwen-QwQ-32B",
            "Qwen-Qwen2.5-7B-Instruct",
            "Qwen-Qwen3-0.6B",
            "Reka-Edge",
            "ibm-granite-granite-4.0",
            "ibm-granite-granite-4.1",
        ],
    ),
    ("hunyuan-3", &["tencent-Hy3"]),
    ("kimi", &["Kimi-K2-Instruct", "Kimi-K2-Thinking", "moonshotai-Kimi-K2"]),
    ("kimi-k3", &["Kimi-K3"]),
    ("lfm-2", &["LFM2-8B-A1B", "LFM2.5-8B-A1B"]),
    (
        "llama3",
        &[
            "meta-llama-Llama-3.1-8B-Instruct",
            "meta-llama-Llama-3.2-3B-Instruct",
            "meta-llama-Llama-3.3-70B-Instruct",
        ],
    ),
    ("minicpm5", &["openbmb-MiniCPM5-1B"]),
    ("minimax", &["MiniMax-M2"]),
    ("minimax-m3", &["MiniMax-M3"]),
    (
        "mistral",
        &[
            "Mistral-Small-3.2-24B-Instruct-2506",
            "mistralai-Ministral-3-14B-Reasoning-2512",
            "unsloth-mistral-Devstral-Small-2507",
        ],
    ),
    ("mistral-array", &["mistralai-Mistral-Nemo-Instruct-2407"]),
    ("nemotron", &["NVIDIA-Nemotron-Nano-v2"]),
    ("qwen-coder", &["NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Qwen3-Coder", "Qwen3.5-4B", "StepFun3.5-Flash"]),
    ("seed", &["ByteDance-Seed-OSS"]),
    ("solar", &["upstage-Solar-Open-100B"]),
];

/// Calls that a form cannot write down: the form, and the case.
const CANNOT: &[(&str, &str)] = &[
    // Strings in quotation marks without escapes: a backslash that belongs to one looks like an escape.
    ("lfm-2", "quotes"),
    // Text before a call goes into the channel of thoughts.
    ("harmony", "text_call"),
    ("harmony", "three_calls"),
    // The template writes the first of several calls alone.
    ("gigachat-3", "three_calls"),
    ("gigachat-3.1", "three_calls"),
    // Without types in the schema an empty list is an empty text, and a number in a string a number.
    ("minimax-m3", "nested"),
    ("minimax-m3", "numbers_in_strings"),
];

/// Replies that llama.cpp parses differently: the template, the cases, and why.
const OTHERWISE: &[(&str, &[&str], &str)] = &[
    (
        "meetkai-functionary-medium-v3.2",
        &["text_call", "thought_text_call", "three_calls"],
        "it reads no call after a text",
    ),
    ("LFM2.5-8B-A1B", &["lines"], "it leaves line breaks in JSON as they are"),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", &["values", "false"], "it reads no calls with True and False"),
    ("Qwen3-Coder", &["values", "false"], "the same"),
    ("Qwen3.5-4B", &["values", "false"], "the same"),
    ("StepFun3.5-Flash", &["values", "false"], "the same"),
    (
        "NVIDIA-Nemotron-Nano-v2",
        &["text", "text_call", "thought", "thought_text_call", "three_calls"],
        "the template leaves out the end of the thought that it opens, and all is one then",
    ),
    (
        "google-gemma-4-31B-it",
        &["text_call", "thought_text_call", "three_calls"],
        "it drops text after calls",
    ),
    ("google-gemma-4-31B-it-interleaved", &["text_call", "thought_text_call", "three_calls"], "the same"),
    ("inclusionai-ling-3.0-flash", &["marks"], "it takes any mark for the end of a value"),
];

/// The ends of turns that two templates write inside a message.
const TURNS: [&str; 2] = ["<｜end▁of▁sentence｜><｜Assistant｜>", "<SPECIAL_12>\n<SPECIAL_11>Assistant\n"];

/// A whole reply, as a program puts it together from events.
#[derive(Debug, Clone, PartialEq, Default)]
struct Reply {
    text: String,
    thinking: String,
    calls: Vec<(String, String, String)>,
    broken: Vec<(String, String)>,
}

fn put_together(events: &[Event]) -> Reply {
    let mut reply = Reply::default();
    let mut open: BTreeMap<usize, (String, String, String)> = BTreeMap::new();
    let mut next = 0;
    for event in events {
        match event {
            Event::Text(text) => reply.text += text,
            Event::Thinking(text) => reply.thinking += text,
            Event::CallBegin { index, id, name } => {
                assert_eq!((*index, open.len()), (next, 0));
                open.insert(*index, (id.clone(), name.clone(), String::new()));
            }
            Event::CallArguments { index, delta } => open.get_mut(index).unwrap().2 += delta,
            Event::CallDone { index, id, name, arguments } => {
                let call = open.remove(index).unwrap();
                assert_eq!(call, (id.clone(), name.clone(), arguments.clone()), "deltas make the whole");
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{arguments}");
                reply.calls.push(call);
                next += 1;
            }
            Event::CallBroken { index, text, reason, .. } => {
                assert_eq!(*index, next);
                assert!(!reason.is_empty());
                open.remove(index);
                reply.text += text;
                reply.broken.push((text.clone(), reason.clone()));
                next += 1;
            }
        }
    }
    assert!(open.is_empty(), "every call ends: {events:?}");
    reply
}

fn read(format: &ReplyFormat, options: &ReplyOptions, pieces: &[&str], end: End) -> Reply {
    let mut parser = ReplyParser::new(format, options.clone());
    let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish(end));
    put_together(&events)
}

fn templates() -> Vec<(String, String)> {
    let folder = common::real_model("templates");
    let mut all: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "jinja"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn the_form_is_that_of_the_template() {
    let mut n = 0;
    for (name, source) in templates() {
        let format = ReplyFormat::of_template(&source).unwrap();
        let want =
            FORMS.iter().find(|(_, templates)| templates.contains(&name.as_str())).map(|(form, _)| *form);
        assert_eq!(format.name(), want, "{name}");
        n += usize::from(want.is_some());
    }
    assert_eq!(n, FORMS.iter().map(|(_, templates)| templates.len()).sum::<usize>());
}

#[derive(Deserialize)]
struct Messages {
    tools: Box<RawValue>,
    messages: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Golden {
    template: String,
    cases: Vec<(String, Value, String, String, Option<Value>)>,
}

fn messages() -> Messages {
    serde_json::from_slice(&std::fs::read(common::fixture("reply/messages.json")).unwrap()).unwrap()
}

fn goldens() -> Vec<Golden> {
    let mut files: Vec<_> =
        std::fs::read_dir(common::fixture("reply")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| !path.ends_with("messages.json"));
    files.sort();
    files.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{arguments}: {e}"))
}

/// What a message has, as far as the template wrote it down.
fn wanted(message: &Value, reply: &str) -> (String, String, Vec<(String, Value)>) {
    let written = |key: &str| {
        let text = message[key].as_str().unwrap_or_default();
        if reply.contains(text) { text.to_owned() } else { String::new() }
    };
    let calls = message["tool_calls"].as_array().map(|calls| {
        let call = |call: &Value| {
            let function = &call["function"];
            (function["name"].as_str().unwrap().to_owned(), function["arguments"].clone())
        };
        calls.iter().map(call).filter(|(name, _)| reply.contains(name.as_str())).collect()
    });
    (written("content"), written("reasoning_content"), calls.unwrap_or_default())
}

#[test]
fn what_a_template_writes_is_read_back() {
    let known = messages();
    let tools = Tools::parse(known.tools.get()).unwrap();
    let (mut n, mut n_calls, mut wrong) = (0, 0, Vec::new());
    let (mut n_llama, mut n_otherwise) = (0, 0);
    for golden in goldens() {
        let source =
            std::fs::read_to_string(common::real_model(&format!("{}.jinja", golden.template))).unwrap();
        let format = ReplyFormat::of_template(&source).unwrap();
        if format.name().is_none() {
            continue;
        }
        for (name, variables, prompt, reply, llama) in &golden.cases {
            let reply = &TURNS.iter().fold(reply.clone(), |reply, turn| reply.replace(turn, ""));
            // This template writes a space of its own before everything.
            let reply =
                &reply[usize::from(golden.template.ends_with("Reka-Edge") && reply.starts_with(' '))..];
            // Some templates open a thought in the prompt and leave past thoughts out: such a reply is one after no thought.
            let has_end = format.thinking().is_some_and(|marks| reply.contains(&*marks.close));
            let prompt = if has_end || !format.is_thinking_after(prompt) { prompt.as_str() } else { "" };
            let options = ReplyOptions {
                tools: tools.clone(),
                parallel: true,
                prompt: Some(prompt.to_owned()),
                ..ReplyOptions::default()
            };
            let got = read(&format, &options, &[reply], End::Stop);
            let calls: Vec<(String, Value)> =
                got.calls.iter().map(|(_, name, a)| (name.clone(), parsed(a))).collect();
            let want = wanted(&known.messages[name], reply);
            let mine = (got.text.clone(), got.thinking.clone(), calls);
            n += 1;
            n_calls += mine.2.len();
            if mine != want && !CANNOT.contains(&(format.name().unwrap(), name)) {
                wrong.push(format!(
                    "{} {name} {variables}\n  {reply:?}\n  {mine:?}\n  {want:?}\n {:?}",
                    golden.template, got.broken
                ));
            }
            if let Some(llama) = llama {
                let text = |key: &str| llama[key].as_str().unwrap().trim().to_owned();
                let calls = llama["calls"].as_array().unwrap().iter().map(|call| {
                    let arguments = call[1].as_str().unwrap();
                    let arguments =
                        serde_json::from_str(arguments).unwrap_or(Value::String(arguments.into()));
                    (call[0].as_str().unwrap().to_owned(), arguments)
                });
                let theirs = (text("text"), text("thinking"), calls.collect::<Vec<_>>());
                n_llama += 1;
                let is_known = OTHERWISE
                    .iter()
                    .any(|(t, names, _)| golden.template.ends_with(t) && names.contains(&name.as_str()));
                n_otherwise += u32::from(theirs != mine);
                if theirs != mine && !is_known {
                    wrong.push(format!(
                        "{} {name} {variables}, llama.cpp\n  {mine:?}\n  {theirs:?}",
                        golden.template
                    ));
                }
            }
            let is_first = FORMS.iter().any(|(_, templates)| golden.template.ends_with(templates[0]));
            // Every way to cut it in two, and many ways to cut it into many.
            for at in (0..=reply.len()).filter(|at| is_first && reply.is_char_boundary(*at)) {
                let (a, b) = reply.split_at(at);
                assert_eq!(
                    read(&format, &options, &[a, b], End::Stop),
                    got,
                    "{} {name}: {a:?} {b:?}",
                    golden.template
                );
            }
            let mut random = Xoshiro256PlusPlus::seed_from_u64(n);
            for longest in [1, 2, 5, 17] {
                let mut pieces = Vec::new();
                let mut rest = reply;
                while let Some((i, c)) = rest.char_indices().take(random.random_range(1..=longest)).last() {
                    let (piece, more) = rest.split_at(i + c.len_utf8());
                    pieces.push(piece);
                    rest = more;
                }
                assert_eq!(
                    read(&format, &options, &pieces, End::Stop),
                    got,
                    "{} {name}: {pieces:?}",
                    golden.template
                );
            }
            // Cut anywhere: only white space and marks are lost, and no text comes that is not in the reply.
            for at in (0..reply.len()).filter(|at| is_first && reply.is_char_boundary(*at)) {
                let cut = read(&format, &options, &[&reply[..at]], End::Cut);
                let is_mark = |c: char| "<[{｜]>".contains(c);
                let part = |a: &str, b: &str| b.starts_with(a.trim_end()) || a.contains(is_mark);
                // Names that nothing marks are the answer's until they are whole.
                let is_known = !matches!(format.name(), Some("harmony" | "functionary-3.2"));
                if is_known && !part(&cut.text, &got.text) || !part(&cut.thinking, &got.thinking) {
                    wrong.push(format!("{} {name} cut: {:?} {cut:?}", golden.template, &reply[..at]));
                }
                assert!(cut.calls.len() <= got.calls.len());
                assert!(cut.calls.iter().zip(&got.calls).all(|(a, b)| a == b), "{:?}", &reply[..at]);
            }
        }
    }
    println!(
        "{n} replies with {n_calls} calls; {n_llama} were read by llama.cpp, {n_otherwise} of them otherwise"
    );
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n > 900 && n_calls > 900 && n_llama > 600 && n_otherwise < 25);
}
