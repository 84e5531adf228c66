//! Replies whose calls are broken or cut off, in each form: the text comes back with a reason, and the rest of the reply is
//! parsed.
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use ember::chat::reply::{End, Event, ReplyFormat, ReplyOptions, ReplyParser, ToolChoice, Tools};

const TOOLS: &str = r#"[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
{"a":{"type":"string"},"n":{"type":"integer"}}}}},{"type":"function","function":{"name":"g"}}]"#;

/// A template that has this text but writes none of it.
fn format(marks: &str) -> ReplyFormat {
    let source = format!("{{% if false %}}{{% raw %}}{marks}{{% endraw %}}{{% endif %}}");
    ReplyFormat::of_template(&source).unwrap()
}

fn options() -> ReplyOptions {
    ReplyOptions { tools: Tools::parse(TOOLS).unwrap(), parallel: true, ..ReplyOptions::default() }
}

/// The events in one line: `text`, `(thought)`, `name{…}`, `!reason:text!`.
fn shown(format: &ReplyFormat, options: ReplyOptions, reply: &str, end: End) -> String {
    let mut parser = ReplyParser::new(format, options);
    let mut events = parser.push(reply);
    events.extend(parser.finish(end));
    let mut out = String::new();
    for event in events {
        out += &match event {
            Event::Text(text) => text,
            Event::Thinking(text) => format!("({text})"),
            Event::CallBegin { .. } | Event::CallArguments { .. } => String::new(),
            Event::CallDone { name, arguments, .. } => format!("[{name}{arguments}]"),
            Event::CallBroken { text, reason, .. } => format!("!{reason}: {text}!"),
        };
    }
    out
}

/// The text of the answer, that of broken calls included.
fn text_of(format: &ReplyFormat, reply: &str) -> String {
    let mut parser = ReplyParser::new(format, options());
    let mut events = parser.push(reply);
    events.extend(parser.finish(End::Cut));
    let text = |event| match event {
        Event::Text(text) | Event::CallBroken { text, .. } => text,
        _ => String::new(),
    };
    events.into_iter().map(text).collect()
}

/// What tells a template of the form, a whole call of `f`, a broken one with a word of the reason, and what a call may be cut
/// down to (its last characters gone) and still be one.
const FORMS: [(&str, &str, &str, &str, &str, &str); 20] = [
    (
        "hermes",
        "<tool_call>",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": x}}</tool_call>",
        "JSON",
        "\n</tool_call>",
    ),
    (
        "llama3",
        "<|python_tag|> \"parameters\"",
        "{\"name\": \"f\", \"parameters\": {\"a\": \"x\"}}",
        "<|python_tag|>f(a=1)",
        "no JSON",
        "",
    ),
    (
        "mistral",
        "[TOOL_CALLS] [ARGS]",
        "[TOOL_CALLS]f[ARGS]{\"a\": \"x\"}",
        "[TOOL_CALLS]f[ARGS]x",
        "JSON object",
        "",
    ),
    (
        "mistral-array",
        "[TOOL_CALLS]",
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}, \"id\": \"123456789\"}]",
        "[TOOL_CALLS] {\"name\": \"f\"}",
        "no JSON",
        "]",
    ),
    (
        "gemma-4",
        "<|tool_call>call:",
        "<|tool_call>call:f{a:<|\"|>x<|\"|>}<tool_call|>",
        "<|tool_call>call:f{n:<|\"|>}<|\"|>x}",
        "follows",
        "<tool_call|>",
    ),
    (
        "function-gemma",
        "<start_function_call>",
        "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>",
        "<start_function_call>f{}",
        "\"call:\"",
        "<end_function_call>",
    ),
    (
        "harmony",
        "<|channel|> <|message|> commentary",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"x\"}<|call|>",
        "<|channel|>commentary to=functions.f<|message|>hello<|call|>",
        "JSON object",
        "<|call|>",
    ),
    (
        "lfm-2",
        "<|tool_call_start|>",
        "<|tool_call_start|>[f(a='x')]<|tool_call_end|>",
        "<|tool_call_start|>[f(a=x)]",
        "no value",
        "]<|tool_call_end|>",
    ),
    (
        "deepseek",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>[]",
        "JSON object",
        "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "deepseek-dsml",
        "<｜DSML｜",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "<｜DSML｜function_calls>\nf",
        "is missing",
        "\n</｜DSML｜function_calls>",
    ),
    (
        "glm",
        "<arg_key>",
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        "\"n\"",
        "",
    ),
    (
        "granite-3",
        "<|tool_call|>",
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}]",
        "<|tool_call|>f",
        "no JSON",
        "]",
    ),
    (
        "phi4",
        "<|tool|><|/tool|>",
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}]<|/tool_call|>",
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": 7}]<|/tool_call|>",
        "JSON object",
        "]<|/tool_call|>",
    ),
    (
        "minicpm5",
        "<function name=\"<param name=\"",
        "<function name=\"f\"><param name=\"a\">x</param></function>",
        "<function name=\"f\"><param name=\"n\"><![CDATA[<]]></param></function>",
        "\"n\"",
        "",
    ),
    (
        "nemotron",
        "<TOOLCALL>",
        "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}]</TOOLCALL>",
        "<TOOLCALL>[1]",
        "not expected",
        "]</TOOLCALL>",
    ),
    (
        "qwen-coder",
        "<function=<parameter=",
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=n>\nx\n</parameter>\n</function>\n</tool_call>",
        "\"n\"",
        "\n</tool_call>",
    ),
    (
        "seed",
        "<seed:tool_call>",
        "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>",
        "<seed:tool_call>{}",
        "is missing",
        "\n</seed:tool_call>",
    ),
    (
        "minimax",
        "<minimax:tool_call>",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n</invoke>\n</minimax:tool_call>",
        "<minimax:tool_call><invoke name=\"f\">x",
        "is missing",
        "\n</minimax:tool_call>",
    ),
    (
        "kimi",
        "<|tool_call_argument_begin|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"x\"}<|tool_call_end|><|tool_calls_section_end|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>x",
        "JSON object",
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "functionary",
        "<function=",
        "<function=f>{\"a\": \"x\"}</function>",
        "<function=f>x",
        "JSON object",
        "</function>",
    ),
];

#[test]
fn a_broken_call_is_text_and_a_reason_and_the_next_one_is_read() {
    for (name, marks, good, broken, reason, _) in FORMS {
        let format = format(marks);
        assert_eq!(format.name(), Some(name));
        assert_eq!(shown(&format, options(), good, End::Stop), "[f{\"a\": \"x\"}]", "{name}");
        let got = shown(&format, options(), broken, End::Stop);
        assert!(got.starts_with('!') && got.contains(reason), "{name}: {got}");
        let lost: Vec<char> = broken.chars().filter(|c| !got.contains(*c)).collect();
        assert!(lost.is_empty(), "{name}: {got}");
        if name != "harmony" && name != "llama3" {
            let both = format!("{broken}\nand {good}");
            let got = shown(&format, options(), &both, End::Stop);
            assert!(got.ends_with("\nand[f{\"a\": \"x\"}]"), "{name}: {got}");
        }
        // A tool that was not given.
        let got = shown(
            &format,
            options(),
            &good.replacen('f', "h", if name == "harmony" { 2 } else { 1 }),
            End::Stop,
        );
        assert!(!got.contains("[f{"), "{name}: {got}");
    }
}

#[test]
fn a_call_that_is_cut_off_is_broken_unless_only_its_end_is_missing() {
    let cut = shown(&format("<tool_call>"), options(), "<tool_call>{", End::Cut);
    assert_eq!(cut, "!the reply was cut off inside the call: <tool_call>{!");
    let ended = shown(&format("<tool_call>"), options(), "<tool_call>{", End::Stop);
    assert_eq!(ended, "!the reply ended inside the call: <tool_call>{!");
    for (name, marks, good, _, _, end) in FORMS {
        let format = format(marks);
        let body = good.strip_suffix(end).unwrap();
        for at in (1..good.len()).filter(|at| good.is_char_boundary(*at)) {
            let got = shown(&format, options(), &good[..at], End::Cut);
            if at >= body.len() {
                assert!(got.starts_with("[f{\"a\": \"x\"}]"), "{name}: {:?} gives {got}", &good[..at]);
                continue;
            }
            assert!(!got.contains("[f{"), "{name}: {:?} gives {got}", &good[..at]);
            // The text is there again, in a broken call or as text.
            let is_header = name == "harmony" && !good[..at].contains("to=");
            let text = text_of(&format, &good[..at]);
            assert!(
                is_header || text.trim() == good[..at].trim(),
                "{name}: {:?} gives {text:?}",
                &good[..at]
            );
        }
    }
}

#[test]
fn the_choice_of_tools_is_kept_to() {
    let format = format("<tool_call>");
    let call = |name: &str| format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {{}}}}</tool_call>");
    let with = |choice, parallel| ReplyOptions { tool_choice: choice, parallel, ..options() };
    let both = format!("{}{}", call("f"), call("g"));
    let show = |choice, parallel| shown(&format, with(choice, parallel), &both, End::Stop);
    assert_eq!(show(ToolChoice::Auto, true), "[f{}][g{}]");
    assert_eq!(show(ToolChoice::None, true), both);
    assert!(show(ToolChoice::Required, false).starts_with("[f{}]!only one call was allowed: <tool_call>"));
    assert!(
        show(ToolChoice::Named("g".into()), true)
            .starts_with("!the call must be one of \"g\", not of \"f\": ")
    );
    let anything = ReplyOptions { parallel: true, ..ReplyOptions::default() };
    assert_eq!(shown(&format, anything, &call("whatever"), End::Stop), "[whatever{}]");
}

#[test]
fn json_that_is_no_call_is_an_answer() {
    let format = format("<|python_tag|> \"parameters\"");
    for answer in [
        "{\"x\": 1}",
        "{\"name\": \"Bob\", \"parameters\": {}}",
        "{ not json",
        "{\"name\": \"f\"}",
        "{",
        "{\"name\": \"f\", \"age\": 3}",
    ] {
        assert_eq!(shown(&format, options(), answer, End::Stop), answer);
    }
    let two = "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}";
    assert_eq!(shown(&format, options(), two, End::Stop), "[f{}][g{}]");
}

#[test]
fn thoughts_are_kept_apart() {
    let template = "{% for m in messages %}<u>{{ m.content }}</u>{% endfor %}{% if add_generation_prompt %}<a>{% if enable_thinking is \
                    defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}";
    let format = ReplyFormat::of_template(template).unwrap();
    let switch = format.thinking_switch().unwrap();
    assert_eq!(
        (switch.variable.as_str(), switch.on.as_str(), switch.off.as_deref()),
        ("enable_thinking", "true", Some("false"))
    );
    let show = |prompt: Option<&str>, reply: &str| {
        let prompt = prompt.map(str::to_owned);
        shown(&format, ReplyOptions { prompt, ..ReplyOptions::default() }, reply, End::Stop)
    };
    assert_eq!(show(None, "So.\n</think>\n\nYes."), "(So.)Yes.");
    assert_eq!(show(Some("<u>x</u><a><think>\n"), "So.</think>Yes."), "(So.)Yes.");
    assert_eq!(show(Some("<u>x</u><a><think>\nFirst, "), "so.</think>Yes."), "(so.)Yes.");
    assert_eq!(show(Some("<u>x</u><a><think>\n\n</think>\n\n"), "Yes."), "Yes.");
    assert_eq!(show(Some("<u>What is <think>?</u><a>"), "A tag."), "A tag.");
    assert_eq!(
        show(Some("<u>x</u><a>"), "<think>So.</think>\nYes, <think> is a tag."),
        "(So.)Yes, <think> is a tag."
    );
    assert_eq!(show(Some("<u>x</u><a>"), " \n<think>\nSo.\n\nAnd so"), "(So.\n\nAnd so)");
    assert!(format.is_thinking_after("<a><think>\n") && !format.is_thinking_after("<a>"));
    assert_eq!(format.thinking().unwrap().close, "</think>");
}

#[test]
fn text_is_not_held_longer_than_it_must_be() {
    let format = format("<tool_call>");
    let mut parser = ReplyParser::new(&format, options());
    let mut push = |text: &str| match parser.push(text).as_slice() {
        [] => String::new(),
        [Event::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(push("a"), "a");
    assert_eq!(push(" <"), "");
    assert_eq!(push("to"), "");
    assert_eq!(push("wn"), " <town");
    assert_eq!(push("> \n"), ">");
    assert_eq!(push("b"), " \nb");
    assert_eq!(parser.finish(End::Stop), []);
}

#[test]
fn ids_are_the_formats_own_or_made() {
    let ids = |marks: &str, reply: &str, prompt: &str| -> Vec<String> {
        let options = ReplyOptions { prompt: Some(prompt.into()), ..options() };
        let events = ReplyParser::new(&format(marks), options).push(reply);
        events
            .into_iter()
            .filter_map(|e| if let Event::CallBegin { id, .. } = e { Some(id) } else { None })
            .collect()
    };
    assert_eq!(ids("[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]f[CALL_ID]abcdefgh1[ARGS]{}", ""), ["abcdefgh1"]);
    assert_eq!(
        ids(
            "<|tool_call_argument_begin|>",
            "<|tool_call_begin|>functions.g:12<|tool_call_argument_begin|>{}",
            ""
        ),
        ["functions.g:12"]
    );
    let two = "<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"f\"}</tool_call>";
    let (one, again, other) =
        (ids("<tool_call>", two, "p"), ids("<tool_call>", two, "p"), ids("<tool_call>", two, "q"));
    assert_eq!(one, again);
    let all: std::collections::BTreeSet<_> = one.iter().chain(&other).collect();
    assert!(
        all.len() == 4 && all.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()))
    );
}

#[test]
fn long_replies_take_linear_work() {
    // If each pair of characters needed work, these would take minutes.
    for (marks, unit) in [
        ("<tool_call>", "<tool_cal"),
        ("<tool_call>", " "),
        ("<function=<parameter=", "</parameter>"),
        ("<|tool_call_start|>", "'"),
    ] {
        let start = format(marks);
        let reply = match marks {
            "<tool_call>" => unit.repeat(300_000),
            "<|tool_call_start|>" => format!("<|tool_call_start|>[f(a='{}", unit.repeat(1_000_000)),
            _ => format!("<function=f><parameter=a>{}", unit.repeat(200_000)),
        };
        for size in [1000, 1_000_000_000] {
            let mut parser = ReplyParser::new(&start, options());
            let mut n = 0;
            for piece in reply.as_bytes().chunks(size) {
                n += parser.push(std::str::from_utf8(piece).unwrap()).len();
            }
            n += parser.finish(End::Cut).len();
            assert!(n > 0);
        }
    }
}
