//! Calls under the schemas of their tools: every text drawn under the grammar of a form parses as calls whose arguments validate,
//! and the grammar allows what templates write.
#![cfg(all(feature = "chat", feature = "constraints"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise, and says what it saw"
)]

use crate::common;

use std::fmt::Write as _;
use std::sync::Arc;

use ember::chat::reply::{
    End, Event, GrammarParts, MOST_CALLS, ReplyFormat, ReplyOptions, ReplyParser, ToolChoice, ToolGrammar,
    ToolUse, Tools,
};
use ember::constrain::{
    Constraint, ConstraintOptions, Grammar, Limits, Mask, Run, Trigger, Vocabulary, expression, read_schema,
};
use ember::error::Result;
use ember::tokenizer::Tokenizer;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The forms of calls: the name, what stands in a template of that form, and the marks of its calls.
const FORMS: &[(&str, &str, &[&str])] = &[
    ("apertus", "<|tools_prefix|>", &["<|tools_prefix|>", "<|tools_suffix|>"]),
    ("apriel", "<tool_calls>", &["<tool_calls>", "</tool_calls>"]),
    ("cohere", "<|START_ACTION|>", &["<|START_ACTION|>", "<|END_ACTION|>"]),
    (
        "deepseek",
        "<｜tool▁call▁begin｜>",
        &[
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ],
    ),
    ("deepseek-dsml", "<｜DSML｜function_calls>", &["｜DSML｜", "</｜DSML｜parameter>\n"]),
    ("deepseek-dsml", "<｜DSML｜tool_calls>", &["｜DSML｜", "</｜DSML｜parameter>\n"]),
    (
        "function-gemma",
        "<start_function_call>",
        &["<start_function_call>", "<end_function_call>", "<escape>"],
    ),
    ("functionary", "<function=", &["<function=", "</function>"]),
    ("functionary-3.2", ">>>all", &[">>>"]),
    ("gemma-4", "<|tool_call>call:", &["<|tool_call>", "<tool_call|>", "<|\"|>"]),
    ("gigachat-3", "function call<|role_sep|>", &["<|message_sep|>", "<|role_sep|>"]),
    ("gigachat-3.1", "<|function_call|>", &["<|function_call|>"]),
    (
        "glm",
        "<arg_key>",
        &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    ),
    ("granite-3", "<|tool_call|>", &["<|tool_call|>", "<tool_call>"]),
    (
        "harmony",
        "<|channel|>commentary<|message|>",
        &["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"],
    ),
    ("hermes", "<tool_call>", &["<tool_call>", "</tool_call>"]),
    (
        "hunyuan-3",
        "<tool_sep:opensource>",
        &[
            "<tool_calls:opensource>",
            "</arg_value:opensource>",
            "<arg_key:opensource>",
            "</tool_call:opensource>",
        ],
    ),
    (
        "kimi",
        "<|tool_call_argument_begin|>",
        &[
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            "<|tool_call_argument_begin|>",
        ],
    ),
    ("kimi-k3", "<|open|>call tool=", &["<|open|>", "<|close|>", "<|sep|>"]),
    ("lfm-2", "<|tool_call_start|>", &["<|tool_call_start|>", "<|tool_call_end|>"]),
    ("llama3", "<|python_tag|> \"parameters\"", &["<|python_tag|>"]),
    (
        "minicpm5",
        "<function name=\"<param name=\"",
        &["<function name=\"", "</function>", "<param name=\"", "</param>", "<![CDATA[", "]]>"],
    ),
    (
        "minimax",
        "<minimax:tool_call>",
        &["<minimax:tool_call>", "</minimax:tool_call>", "</invoke>", "<parameter name=\"", "</parameter>\n"],
    ),
    ("minimax-m3", "]<]minimax[>[", &["]<]minimax[>["]),
    ("mistral", "[TOOL_CALLS][ARGS]", &["[TOOL_CALLS]", "[ARGS]"]),
    ("mistral-array", "[TOOL_CALLS]", &["[TOOL_CALLS]"]),
    ("nemotron", "<TOOLCALL>", &["<TOOLCALL>", "</TOOLCALL>"]),
    ("phi4", "<|/tool_call|>", &["<|tool_call|>", "<|/tool_call|>"]),
    (
        "qwen-coder",
        "<tool_call><function=<parameter=",
        &[
            "<tool_call>",
            "</tool_call>",
            "<function=",
            "</function>",
            "<parameter=",
            "</parameter>",
            "\n</parameter>\n",
        ],
    ),
    (
        "seed",
        "<seed:tool_call>",
        &["<seed:tool_call>", "</seed:tool_call>", "</function>", "<parameter=", "</parameter>\n"],
    ),
    (
        "solar",
        "<|tool_call:begin|>",
        &[
            "<|tool_calls|>",
            "<|calls|>",
            "<|tool_call:begin|>",
            "<|tool_call:name|>",
            "<|tool_call:args|>",
            "<|tool_call:end|>",
        ],
    ),
];

const TOOLS: &str = r##"[
{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {
    "text": {"type": "string", "maxLength": 40},
    "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{1,3}$"},
    "word": {"type": "string", "minLength": 2, "maxLength": 5},
    "day": {"type": "string", "format": "date"},
    "where": {"type": "string", "format": "uri", "maxLength": 30},
    "kind": {"type": "string", "enum": ["one", "two words", "x,y}"]},
    "n": {"type": "integer", "minimum": -3, "maximum": 12},
    "share": {"type": "number"},
    "exact": {"type": "boolean"},
    "maybe": {"type": ["string", "null"], "maxLength": 6},
    "mixed": {"enum": ["a", 1, null, true, "b c"]},
    "either": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^q+$"}]},
    "list": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 3},
    "deep": {"type": "object", "properties": {"to": {"$ref": "#/$defs/place"}, "by": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
        "required": ["to"], "additionalProperties": false}},
    "required": ["text", "kind"], "additionalProperties": false,
    "$defs": {"place": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 4}, "on": {"type": "boolean"}},
        "required": ["name", "on"], "additionalProperties": false}}}}},
{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}},
{"type": "function", "function": {"name": "plain"}},
{"type": "function", "function": {"name": "free", "parameters": {"type": "object", "properties": {"any": {}}, "required": ["any"]}}}]"##;

/// A tokenizer of bytes and of `marks`, which may be control tokens; `</s>` ends a text.
fn tokenizer(marks: &[&str], are_controls: bool) -> Arc<Tokenizer> {
    let added: Vec<Value> = (256..)
        .zip(marks.iter().chain(&["</s>"]))
        .map(|(id, content)| {
            let is_special = *content == "</s>"
                || are_controls && !content.contains(['\n', '"'])
                || content.starts_with("<|\"");
            json!({"id": id, "content": content, "special": is_special, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        })
        .collect();
    let config = br#"{"eos_token": "</s>"}"#;
    Arc::new(Tokenizer::from_json(common::byte_level(added).as_bytes(), Some(config)).unwrap())
}

fn format(marks: &str) -> ReplyFormat {
    let source = format!("{{% if false %}}{{% raw %}}{marks}{{% endraw %}}{{% endif %}}");
    ReplyFormat::of_template(&source).unwrap()
}

fn grammar(format: &ReplyFormat, tokenizer: &Tokenizer, asked: ToolUse<'_>) -> Result<Option<ToolGrammar>> {
    let controls = |text: &str| ember::conversation::controls(tokenizer, text);
    let options = ConstraintOptions { whitespace: 4, ..ConstraintOptions::default() };
    let schema = |text: &str| read_schema(text, &options);
    format
        .tool_grammar(asked, &GrammarParts { controls: &controls, schema: &schema, expression: &expression })
}

fn constraint(grammar: &ToolGrammar, vocabulary: &Arc<Vocabulary>, is_free: bool) -> Constraint {
    let options = ConstraintOptions {
        repeat: is_free && !grammar.triggers.is_empty(),
        triggers: grammar.triggers.iter().cloned().map(Trigger::Text).collect(),
        never: grammar.never.clone(),
        must_begin: !is_free,
        most_parts: grammar.most_parts,
        limits: Limits { mask: 1_000_000, ..Limits::default() },
        ..ConstraintOptions::default()
    };
    Constraint::new(vocabulary, Grammar::Lark(&grammar.lark), &options)
        .unwrap_or_else(|e| panic!("{e}\n{}", grammar.lark))
}

/// The tokens that may be next, without those that may not begin a text of a control token.
fn allowed(run: &mut Run, n: usize) -> Vec<u32> {
    match run.mask().unwrap() {
        Mask::Free => (0..n as u32).collect(),
        Mask::Deny(ids) => {
            let ids = ids.to_vec();
            (0..n as u32).filter(|id| !ids.contains(id)).collect()
        }
        Mask::Allow(words) => (0..n as u32)
            .filter(|&id| words.get(id as usize / 32).is_some_and(|w| w >> (id % 32) & 1 == 1))
            .collect(),
    }
}

/// Draws a text: `triggers` are put in where it is free. Ends where it may, and sooner when it is long.
fn draw(run: &mut Run, tokenizer: &Tokenizer, triggers: &[String], is_free: bool, seed: u64) -> String {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut text, mut queue): (Vec<u8>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut n_triggers = random.random_range(0..5);
    for n in 0..40_000 {
        if let Err(error) = run.mask() {
            panic!("{error}: {:?}", String::from_utf8_lossy(&text[text.len().saturating_sub(300)..]));
        }
        let choices = allowed(run, tokenizer.n_vocab());
        assert!(!choices.is_empty());
        let waits = matches!(run.progress(), ember::constrain::Progress::Waiting);
        let is_waiting = is_free && waits;
        let id = if let Some(id) = queue.pop() {
            // What was begun is kept from its end where no more calls are allowed.
            if !choices.contains(&id) {
                queue.clear();
                continue;
            }
            id
        } else if is_waiting && n_triggers > 0 && !triggers.is_empty() && random.random_range(0..6) == 0 {
            n_triggers -= 1;
            let trigger = &triggers[random.random_range(0..triggers.len())];
            queue = tokenizer.encode(trigger, false, true).unwrap();
            queue.reverse();
            continue;
        } else if n > 1500 && !is_waiting && text.starts_with(b"<|open|>") && random.random_range(0..20) == 0
        {
            // A value of Kimi K3 ends with a mark, a word and a mark, which hardly any draw spells.
            queue = tokenizer.encode("<|close|>argument<|sep|>", false, true).unwrap();
            queue.reverse();
            continue;
        } else {
            // Marks are rare among all bytes where a reply may begin with a text or with a mark.
            let wants_mark =
                is_free && triggers.is_empty() && text.is_empty() && random.random_range(0..4) > 0;
            // A header names a recipient seldom: half of those that may do it here.
            let may_name = is_free && triggers.is_empty() && text.trim_ascii_end().ends_with(b"commentary");
            let names = may_name && random.random_range(0..2) > 0;
            let weight = |id: u32| -> u32 {
                let bytes = tokenizer.token_bytes(id).unwrap();
                match bytes {
                    _ if tokenizer.is_eog(id) => {
                        if is_waiting && n_triggers > 0 {
                            0
                        } else {
                            40
                        }
                    }
                    // In free text only triggers begin a constraint.
                    _ if is_waiting => u32::from(bytes.len() == 1 && bytes[0].is_ascii_alphanumeric()),
                    [b' ' | b't'] if names => 2000,
                    [byte] if waits => u32::from(byte.is_ascii_alphanumeric()),
                    [b'"' | b'}' | b']' | b',' | b'<' | b'\n' | b'\\' | b' '] => 4 + 60 * u32::from(n > 1500),
                    [_] => 1,
                    _ => 8 + 300 * u32::from(n > 1500) + 2000 * u32::from(wants_mark),
                }
            };
            let total: u32 = choices.iter().map(|&id| weight(id)).sum();
            assert!(total > 0, "{:?}: {choices:?}", String::from_utf8_lossy(&text));
            let mut at = random.random_range(0..total);
            *choices
                .iter()
                .find(|&&id| {
                    let w = weight(id);
                    let hit = at < w;
                    at = at.saturating_sub(w);
                    hit
                })
                .unwrap()
        };
        run.accept(id);
        if tokenizer.is_eog(id) {
            return String::from_utf8(text).unwrap();
        }
        text.extend(tokenizer.token_bytes(id).unwrap());
    }
    panic!("a text does not end: {:?}", String::from_utf8_lossy(&text[text.len().saturating_sub(300)..]));
}

/// Why a value does not fit a schema, as far as the tools above use schemas.
fn check(value: &Value, schema: &Value, root: &Value) -> std::result::Result<(), String> {
    let fail = |what: &str| Err(format!("{value} does not fit {what} of {schema}"));
    if let Some(target) = schema["$ref"].as_str() {
        return check(value, root.pointer(&target[1..]).unwrap(), root);
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        return match parts.iter().any(|part| check(value, part, root).is_ok()) {
            true => Ok(()),
            false => fail("anyOf"),
        };
    }
    let is_type = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap()).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_type(name)) {
        return fail("type");
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return fail("enum");
    }
    if let Some(text) = value.as_str() {
        let n = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| n < least)
            || schema["maxLength"].as_u64().is_some_and(|most| n > most)
        {
            return fail("length");
        }
        let date = (schema["format"] == "date").then_some(r"^\d{4}-\d{2}-\d{2}$");
        if let Some(pattern) = schema["pattern"].as_str().or(date)
            && !regex::Regex::new(pattern).unwrap().is_match(text)
        {
            return fail("pattern");
        }
    }
    if let Some(n) = value.as_f64()
        && (schema["minimum"].as_f64().is_some_and(|least| n < least)
            || schema["maximum"].as_f64().is_some_and(|most| n > most))
    {
        return fail("range");
    }
    if let Some(items) = value.as_array() {
        let n = items.len() as u64;
        if schema["minItems"].as_u64().is_some_and(|least| n < least)
            || schema["maxItems"].as_u64().is_some_and(|most| n > most)
        {
            return fail("items");
        }
        items.iter().try_for_each(|item| check(item, &schema["items"], root))?;
    }
    if let Some(members) = value.as_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        if let Some(name) =
            required.map(|name| name.as_str().unwrap()).find(|name| !members.contains_key(*name))
        {
            return fail(name);
        }
        for (name, value) in members {
            match schema["properties"].get(name) {
                Some(schema) => check(value, schema, root)?,
                None if schema["additionalProperties"] == false => return fail(name),
                None => {}
            }
        }
    }
    Ok(())
}

/// Parses a reply. Every call has to be complete and to validate. Returns the number of calls.
fn read_back(
    format: &ReplyFormat,
    tools: &Tools,
    choice: &ToolChoice,
    parallel: bool,
    text: &str,
    out: &mut String,
) -> usize {
    let options = ReplyOptions {
        tools: tools.clone(),
        tool_choice: choice.clone(),
        parallel,
        prompt: Some(String::new()),
    };
    let mut parser = ReplyParser::new(format, options);
    let mut events = parser.push(text);
    events.extend(parser.finish(End::Stop));
    let mut n = 0;
    for event in &events {
        match event {
            Event::CallBroken { reason, text: broken, .. } => panic!("{reason}\n{broken:?}\n{text:?}"),
            Event::CallDone { name, arguments, .. } => {
                n += 1;
                // Some numbers of JSON have no value in Rust's.
                let arguments: Value = match serde_json::from_str(arguments) {
                    Ok(arguments) => arguments,
                    Err(e) if e.to_string().contains("out of range") => continue,
                    Err(e) => panic!("{e}: {arguments}"),
                };
                let schema: Value = serde_json::from_str(&tools.find(name).unwrap().schema).unwrap();
                check(&arguments, &schema, &schema).unwrap_or_else(|e| panic!("{e}\n{text:?}"));
                writeln!(out, "{}", json!({"form": format.name(), "schema": schema, "arguments": arguments}))
                    .unwrap();
            }
            _ => {}
        }
    }
    n
}

/// Draws `n_seeds` replies of each kind for each form. Gives the calls, a JSON line each.
fn draw_all(only: Option<&str>, n_seeds: u64) -> String {
    let tools = Tools::parse(TOOLS).unwrap();
    let mut out = String::new();
    for (name, marks, all) in FORMS.iter().filter(|(name, ..)| only.is_none_or(|only| only == *name)) {
        let format = format(marks);
        assert_eq!(format.name(), Some(*name));
        for are_controls in [true, false] {
            let tokenizer = tokenizer(all, are_controls);
            let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
            for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Named("find".into())] {
                for parallel in [true, false] {
                    let asked = ToolUse { tools: &tools, choice: &choice, parallel, in_thought: false };
                    let grammar =
                        grammar(&format, &tokenizer, asked).unwrap_or_else(|e| panic!("{name}: {e}"));
                    let is_free = choice == ToolChoice::Auto;
                    let Some(grammar) = grammar else {
                        assert!(is_free && *name == "llama3");
                        continue;
                    };
                    let constraint = constraint(&grammar, &vocabulary, is_free);
                    let (mut n_calls, mut n_empty, mut most) = (0, 0, 0);
                    // A reply that is held to the grammar from its first letter seldom comes to a call at random.
                    let is_rare = is_free && grammar.triggers.is_empty();
                    for seed in 0..if is_rare { n_seeds.max(150) } else { n_seeds } {
                        let mut run = constraint.start();
                        let text = draw(&mut run, &tokenizer, &grammar.triggers, is_free, seed);
                        let n = read_back(&format, &tools, &choice, parallel, &text, &mut out);
                        assert!(n <= MOST_CALLS && (parallel || n <= 1), "{name}: {n} calls in {text:?}");
                        assert!(is_free || n > 0, "{name}: no call in {text:?}");
                        (n_calls, most) = (n_calls + n, most.max(n));
                        n_empty += usize::from(n == 0);
                    }
                    println!(
                        "{name}, {choice:?}, parallel {parallel}, controls {are_controls}: {n_calls} calls, {most} at most, {n_empty} without"
                    );
                    assert!(n_calls > 0, "{name}, {choice:?}");
                }
            }
        }
    }
    out
}

/// `tests/oracle/tool_calls.py` calls this with more seeds, and has the calls validated by the Python package `jsonschema`.
#[test]
fn whatever_is_drawn_is_read_back_as_calls_that_validate() {
    let only = std::env::var("EMBER_FORM").ok();
    let n = std::env::var("EMBER_SEEDS").map_or(4, |n| n.parse().unwrap());
    let calls = draw_all(only.as_deref(), n);
    println!("{} calls", calls.lines().count());
    if let Ok(path) = std::env::var("EMBER_CALLS_OUT") {
        std::fs::write(path, calls).unwrap();
    }
}

/// A reply that begins inside a thought: where a call has to be made it comes after the thought, which no end of the text cuts short.
#[test]
fn a_call_is_drawn_after_a_thought() {
    let tools = Tools::parse(TOOLS).unwrap();
    let only = std::env::var("EMBER_FORM").ok();
    let n_seeds = std::env::var("EMBER_SEEDS").map_or(2, |n| n.parse().unwrap());
    for (name, marks, all) in FORMS.iter().filter(|(name, ..)| only.as_ref().is_none_or(|o| o == name)) {
        let format = format(&format!("{marks}<think></think>"));
        assert_eq!(format.name(), Some(*name));
        let open = &format.thinking().unwrap().open;
        let tokenizer = tokenizer(&[all, &["<think>", "</think>"][..]].concat(), true);
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
        for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Named("find".into())] {
            let is_free = choice == ToolChoice::Auto;
            if is_free && *name != "harmony" {
                continue;
            }
            let asked = ToolUse { tools: &tools, choice: &choice, parallel: true, in_thought: true };
            let grammar = grammar(&format, &tokenizer, asked).unwrap().unwrap();
            let constraint = constraint(&grammar, &vocabulary, is_free);
            for seed in 0..n_seeds {
                let text = draw(&mut constraint.start(), &tokenizer, &grammar.triggers, is_free, seed);
                let n =
                    read_back(&format, &tools, &choice, true, &format!("{open}{text}"), &mut String::new());
                assert!(is_free || n > 0, "{name}: no call in {text:?}");
            }
        }
    }
}

/// The grammars of tools allow what templates write, token by token; with a tokenizer of bytes, whose marks are plain text.
#[test]
fn what_templates_write_is_let_through() {
    let known: Value = common::read_json(&common::fixture("reply/messages.json"));
    let tools = Tools::parse(&known["tools"].to_string()).unwrap();
    let tokenizer = tokenizer(&[], false);
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
    let (mut n, mut wrong, mut forms) = (0, Vec::new(), std::collections::BTreeMap::<&str, usize>::new());
    let mut files: Vec<_> =
        std::fs::read_dir(common::fixture("reply")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| !path.ends_with("messages.json"));
    files.sort();
    let only = std::env::var("EMBER_FORM").ok();
    for path in files {
        let golden = common::read_json(&path);
        let name = golden["template"].as_str().unwrap();
        let source = std::fs::read_to_string(common::real_model(&format!("{name}.jinja"))).unwrap();
        let format = ReplyFormat::of_template(&source).unwrap();
        // It writes letters as escapes of JSON, which grammars do not.
        if name.ends_with("Reka-Edge") {
            continue;
        }
        let Some(form) = format.name().filter(|form| only.as_deref().is_none_or(|only| only == *form)) else {
            continue;
        };
        let constraints = [ToolChoice::Auto, ToolChoice::Required].map(|choice| {
            let asked = ToolUse { tools: &tools, choice: &choice, parallel: true, in_thought: false };
            let grammar = grammar(&format, &tokenizer, asked).unwrap_or_else(|e| panic!("{name}: {e}"));
            grammar.map(|grammar| constraint(&grammar, &vocabulary, choice == ToolChoice::Auto))
        });
        for case in golden["cases"].as_array().unwrap() {
            let case_name = case[0].as_str().unwrap();
            // Two templates write the end of the turn inside a message.
            let turns = ["<｜end▁of▁sentence｜><｜Assistant｜>", "<SPECIAL_12>\n<SPECIAL_11>Assistant\n"];
            let reply = turns
                .iter()
                .fold(case[3].as_str().unwrap().to_owned(), |reply, turn| reply.replace(turn, ""));
            let reply = reply.as_str();
            let mut parser = ReplyParser::new(
                &format,
                ReplyOptions {
                    tools: tools.clone(),
                    parallel: true,
                    prompt: Some(case[2].as_str().unwrap().to_owned()),
                    ..ReplyOptions::default()
                },
            );
            let mut events = parser.push(reply);
            events.extend(parser.finish(End::Stop));
            let calls = events.iter().filter(|event| matches!(event, Event::CallDone { .. })).count();
            if calls == 0 || CANNOT.contains(&(form, case_name)) {
                continue;
            }
            // The text before the first call is free; a call that has to be made is the first there is.
            let first = format_first(form).iter().filter_map(|mark| reply.find(mark)).min();
            for (constraint, is_free) in constraints.iter().zip([true, false]) {
                let Some(constraint) = constraint else { continue };
                if !is_free && form == "functionary-3.2" && reply.starts_with("all") {
                    continue;
                }
                let text = match (is_free, first) {
                    (false, Some(at)) => &reply[at..],
                    _ => reply,
                };
                let mut run = constraint.start();
                let mut at = 0;
                let fits = text.bytes().all(|byte| {
                    let fits = allowed(&mut run, tokenizer.n_vocab()).contains(&u32::from(byte));
                    if fits {
                        run.accept(u32::from(byte));
                    }
                    at += usize::from(fits);
                    fits
                });
                n += 1;
                *forms.entry(form).or_default() += 1;
                // After the calls that had to be made a reply ends.
                let fits = fits || !is_free && run.progress() == ember::constrain::Progress::Complete;
                let is_whole = !fits || run.progress() != ember::constrain::Progress::Unfinished;
                if !fits || !is_whole {
                    let before = String::from_utf8_lossy(&text.as_bytes()[..at]).into_owned();
                    wrong.push(format!(
                        "{name} {case_name} {is_free}: {before:?}, not {:?}",
                        &text[before.len().min(text.len())..]
                    ));
                }
            }
        }
    }
    println!("{n} texts: {forms:?}");
    assert!(wrong.is_empty(), "{} are refused:\n{}", wrong.len(), wrong.join("\n"));
    assert!(only.is_some() || n > 1000, "{n}");
}

/// Calls that templates write and a form's grammar does not have: the form, and the case.
const CANNOT: &[(&str, &str)] = &[
    // Strings in quotation marks with escapes: the template writes none.
    ("lfm-2", "quotes"),
    ("lfm-2", "lines"),
    // Strings that are wrapped as in XML.
    ("minicpm5", "lines"),
    ("minicpm5", "marks"),
    // A value ends with its mark, whatever follows.
    ("glm", "marks"),
    // Tags whose names are not known beforehand.
    ("minimax-m3", "nested"),
];

/// The marks of which one stands before the first call.
fn format_first(form: &str) -> &'static [&'static str] {
    match form {
        "deepseek-dsml" => &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
        "kimi-k3" => &["<|open|>tools<|sep|>"],
        "harmony" => &[],
        "functionary-3.2" => &[],
        "llama3" => &["{\"name\""],
        "mistral" | "mistral-array" => &["[TOOL_CALLS]"],
        "granite-3" => &["<|tool_call|>"],
        "qwen-coder" | "glm" | "hermes" => &["<tool_call>"],
        form => FORMS.iter().find(|(name, ..)| *name == form).map_or(&[], |(_, _, marks)| &marks[..1]),
    }
}
