//! Chat templates against the `transformers` package (see `tests/oracle/chat_templates.py`).
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::collections::HashMap;

use ember::chat::{ChatInput, ChatTemplate};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What the fixtures' clock shows: 2024-12-31 12:30:45.
const NOW: i64 = 1_735_648_245;

/// Cases that differ on purpose: the template, and the conversations.
///
/// This template marks its own words as safe HTML and adds the description of a tool, which Jinja2 then escapes: the model
/// would read `&#34;` for a quotation mark. Ember knows no HTML and writes the description as it is.
const DIFFERENT: [(&str, &str); 2] = [
    ("templates/meetkai-functionary-medium-v3.1", "tool"),
    ("templates/meetkai-functionary-medium-v3.1", "two_calls"),
];

#[derive(Deserialize)]
struct Conversation {
    messages: Box<RawValue>,
    tools: Box<RawValue>,
    variables: Box<RawValue>,
}

#[derive(Deserialize)]
struct Golden {
    template: String,
    cases: Vec<(String, bool, Option<usize>, String)>,
}

fn text(value: &RawValue) -> Option<String> {
    (value.get() != "null").then(|| value.get().to_owned())
}

fn input(conversation: &Conversation, add_generation_prompt: bool) -> ChatInput {
    let tokens =
        [("bos_token", "<s>"), ("eos_token", "</s>"), ("pad_token", "<pad>"), ("unk_token", "<unk>")];
    ChatInput {
        tools: text(&conversation.tools),
        variables: text(&conversation.variables),
        add_generation_prompt,
        special_tokens: tokens.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        now: Some(NOW),
    }
}

/// The text of a template in the cache: `templates/NAME` or `tokenizers/FAMILY`, the latter maybe with a name.
fn template(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    if parts[0] == "templates" {
        return std::fs::read_to_string(common::real_model(&format!("{name}.jinja"))).unwrap();
    }
    let config = common::real_model(&format!("tokenizers/{}/tokenizer_config.json", parts[1]));
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(config).unwrap()).unwrap();
    match &config["chat_template"] {
        serde_json::Value::String(text) => text.clone(),
        named => {
            let all = named.as_array().unwrap();
            all.iter().find(|t| t["name"] == parts[2]).unwrap()["template"].as_str().unwrap().to_owned()
        }
    }
}

#[test]
fn conversations_are_written_as_transformers_does() {
    let folder = common::fixture("chat");
    let read = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    let conversations: HashMap<String, Conversation> =
        serde_json::from_str(&read(&folder.join("conversations.json"))).unwrap();
    let (mut n_same, mut n_refused, mut n_different, mut wrong) = (0, 0, 0, Vec::new());
    for file in std::fs::read_dir(&folder).unwrap() {
        let file = file.unwrap().path();
        if file.ends_with("conversations.json") || file.ends_with("snippets.json") {
            continue;
        }
        let golden: Golden = serde_json::from_str(&read(&file)).unwrap();
        let template = ChatTemplate::parse(&template(&golden.template));
        let template = template.unwrap_or_else(|e| panic!("{}: {e}", golden.template));
        let mut before = String::new();
        for (name, prompt, shared, rest) in &golden.cases {
            let conversation = &conversations[name];
            let got = template.render(conversation.messages.get(), &input(conversation, *prompt));
            let wanted = shared.map(|n| before.chars().take(n).chain(rest.chars()).collect::<String>());
            match (got, &wanted) {
                (Ok(got), Some(wanted)) if got == *wanted => n_same += 1,
                (Err(_), None) => n_refused += 1,
                (Ok(_), Some(_))
                    if DIFFERENT.iter().any(|(t, c)| golden.template == *t && name.starts_with(c)) =>
                {
                    n_different += 1;
                }
                (got, wanted) => wrong.push(format!(
                    "{}, {name}, add_generation_prompt = {prompt}:\n  {got:?}\n  {wanted:?} {rest}",
                    golden.template
                )),
            }
            before = wanted.unwrap_or(before);
        }
    }
    println!("{n_same} texts are the same, {n_refused} refused by both, {n_different} different on purpose");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(n_same > 2500 && n_refused > 100 && n_different < 20);
}

#[derive(Deserialize)]
struct Snippets {
    variables: Box<RawValue>,
    snippets: Vec<(String, Option<String>, Option<String>)>,
}

#[test]
fn the_language_is_that_of_jinja2() {
    let json = std::fs::read_to_string(common::fixture("chat").join("snippets.json")).unwrap();
    let golden: Snippets = serde_json::from_str(&json).unwrap();
    let input = ChatInput { variables: text(&golden.variables), now: Some(NOW), ..ChatInput::default() };
    assert!(golden.snippets.len() > 300);
    for (source, wanted, error) in &golden.snippets {
        let got = ChatTemplate::parse(source).and_then(|template| template.render("[]", &input));
        assert_eq!(got.as_ref().ok(), wanted.as_ref(), "{source}\n{got:?} {error:?}");
    }
}

#[test]
fn arguments_that_are_wrong_are_named() {
    let template = ChatTemplate::parse("{{ messages | length }}{{ tools }}").unwrap();
    let fails = |messages: &str, input: ChatInput, word: &str| {
        let error = template.render(messages, &input).unwrap_err();
        assert_eq!(error.status() as i32, 1);
        assert!(error.message().contains(word), "{error}");
    };
    fails("", ChatInput::default(), "messages");
    fails("{}", ChatInput::default(), "messages");
    fails("[1]", ChatInput::default(), "messages[0]");
    fails("[] x", ChatInput::default(), "messages");
    fails(&"[".repeat(100_000), ChatInput::default(), "messages");
    fails("[]", ChatInput { tools: Some("{}".into()), ..ChatInput::default() }, "tools");
    fails("[]", ChatInput { tools: Some("[".into()), ..ChatInput::default() }, "tools");
    fails("[]", ChatInput { variables: Some("[]".into()), ..ChatInput::default() }, "variables");
    fails(
        "[]",
        ChatInput { variables: Some("{\"messages\":1}".into()), ..ChatInput::default() },
        "\"messages\"",
    );
    let large = r#"[{"content":"\"11111111111111111111111","a":-9223372036854775809}]"#;
    fails(large, ChatInput::default(), "messages has the integer -9223372036854775809, which is too large");
    fails(&format!("[{}]", "1".repeat(1000)), ChatInput::default(), "too large");
    fails(
        "[]",
        ChatInput { variables: Some("{\"a\":18446744073709551616}".into()), ..ChatInput::default() },
        "too large",
    );
    assert_eq!(template.render("[]", &ChatInput::default()).unwrap(), "0None");
    let numbers = r#"[{"a":[18446744073709551615,-9223372036854775808,10000000000000000000.0,1e25]}]"#;
    let template = ChatTemplate::parse("{{ messages[0].a | tojson }}").unwrap();
    let wanted = "[18446744073709551615, -9223372036854775808, 1e+19, 1e+25]";
    assert_eq!(template.render(numbers, &ChatInput::default()).unwrap(), wanted);
}

/// What Jinja2 has and Ember has not is refused by its name, even where it would not be reached.
#[test]
fn what_is_left_out_is_refused_by_name() {
    for name in ["pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"] {
        for source in [
            format!("{{{{ 'a' | {name} }}}}"),
            format!("{{% if false %}}{{{{ 'a' | {name}(1) }}}}{{% endif %}}"),
            format!("{{% filter upper | {name} %}}a{{% endfilter %}}"),
            format!("{{% set x | {name} %}}a{{% endset %}}"),
        ] {
            let error = ChatTemplate::parse(&source).unwrap_err();
            assert!(error.message().contains(&format!("the filter \"{name}\" is not supported")), "{error}");
        }
        let late = ChatTemplate::parse(&format!("{{{{ ['a'] | map('{name}') | list }}}}")).unwrap();
        let error = late.render("[]", &ChatInput::default()).unwrap_err();
        assert!(error.message().contains(&format!("\"{name}\"")), "{error}");
    }
    let late = ChatTemplate::parse("{{ lipsum() }}").unwrap();
    let error = late.render("[]", &ChatInput::default()).unwrap_err();
    assert!(error.message().contains("the function \"lipsum\" is not supported"), "{error}");
    for (source, words) in [
        ("{% autoescape true %}{% endautoescape %}", "\"autoescape\" is supported with \"false\" only"),
        ("{% include 'a' %}", "\"include\" needs another template"),
        ("{% extends 'a' %}", "\"extends\" needs another template"),
        ("{% from 'a' import b %}", "\"from\" needs another template"),
        ("{% import 'a' as b %}", "\"import\" needs another template"),
        ("{% do x %}", "unknown tag \"do\""),
        ("{% block a %}{% endblock %}{% block a %}{% endblock %}", "the block \"a\" is there twice"),
        ("{% block a required %}x{% endblock %}", "the block \"a\" is required"),
    ] {
        let error = ChatTemplate::parse(source).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }
}
