//! The headers of gpt-oss's messages, and what becomes of broken ones.
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use ember::chat::reply::{End, Event, ReplyFormat, ReplyOptions, ReplyParser, ToolChoice, Tools};

const TOOLS: &str =
    r#"[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]"#;

fn format() -> ReplyFormat {
    let source = "{% if false %}{% raw %}<|channel|>commentary<|message|>{% endraw %}{% endif %}";
    ReplyFormat::of_template(source).unwrap()
}

fn parser(tool_choice: ToolChoice) -> ReplyParser {
    let tools = Tools::parse(TOOLS).unwrap();
    let options = ReplyOptions { tools, tool_choice, parallel: true, ..ReplyOptions::default() };
    ReplyParser::new(&format(), options)
}

/// The events in one line: `text`, `(thought)`, `[name{…}]`, `!reason: text!`. Pieces of a text are put together.
fn shown(events: Vec<Event>) -> String {
    let show = |event| match event {
        Event::Text(text) => text,
        Event::Thinking(text) => format!("({text})"),
        Event::CallBegin { .. } | Event::CallArguments { .. } => String::new(),
        Event::CallDone { name, arguments, .. } => format!("[{name}{arguments}]"),
        Event::CallBroken { text, reason, .. } => format!("!{reason}: {text}!"),
    };
    events.into_iter().map(show).collect::<String>().replace(")(", "")
}

fn read(choice: ToolChoice, pieces: &[&str], end: End) -> String {
    let mut parser = parser(choice);
    let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish(end));
    shown(events)
}

/// Replies, and what they are. Each is read whole, letter by letter and in two pieces, cut at each place.
const REPLIES: &[(&str, &str)] = &[
    ("<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>Hi.", "(So.)Hi."),
    ("<|channel|>final <|constrain|>json<|message|>{}", "{}"),
    ("<|message|>Hi.", "Hi."),
    ("Hi.", "Hi."),
    // A recipient before or after the channel, with a type or without, and where models put it that they should not.
    ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", "[f{}]"),
    (" to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "[f{}]"),
    ("<|channel|>analysis to=functions.f code<|message|>{}", "[f{}]"),
    ("<|channel|>commentary <|constrain|>json to=functions.f<|message|>{}", "[f{}]"),
    ("<|channel|>commentaryto=functions.f<|message|>{}", "[f{}]"),
    ("<|channel|>final  to=f<|message|>{}", "[f{}]"),
    ("<|channel|>commentary to=functions.f<|channel|>commentary to=functions.f<|message|>{}", "[f{}]"),
    ("<|channel|>analysis<|message|>So.<|start|>assistant to=functions.f<|message|>{}<|call|>", "(So.)[f{}]"),
    // Text before a call is text.
    (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.g<|message|>{}",
        "I look.[g{}]",
    ),
    ("<|channel|>commentary to=user<|message|>Hi.", "Hi."),
    // A call without a tool, of two tools, of a tool that does not exist.
    (
        "<|channel|>commentary to= <|constrain|>json<|message|>{}<|call|>",
        "!the header of a call names no tool: <|channel|>commentary to= <|constrain|>json<|message|>!{}",
    ),
    (
        "<|channel|>commentary to=functions.<|message|>{}",
        "!the call has no name: <|channel|>commentary to=functions.<|message|>!{}",
    ),
    (
        "<|start|>assistant to=f<|channel|>commentary to=g<|message|>{}",
        "!the header of a call names two tools, \"f\" and \"g\": <|start|>assistant to=f<|channel|>commentary to=g<|message|>!{}",
    ),
    (
        "<|channel|>commentary to=functions.h<|message|>{}",
        "!no tool is named \"h\": <|channel|>commentary to=functions.h<|message|>!{}",
    ),
    // Words in a header, which would be lost.
    (
        "<|channel|>commentary I will call it<|message|>Hi.",
        "!the header of a message goes on after its type \"I\": <|channel|>commentary I will call it<|message|>!Hi.",
    ),
    // A header without a message: the next one counts.
    (
        "<|channel|>analysis So.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
        "!the header of a message has no message after it: <|channel|>analysis So.<|end|>!Hi.",
    ),
    (
        "<|channel|>commentary to=functions.f<|start|>assistant<|channel|>commentary to=functions.g<|message|>{}",
        "!the header of a message has no message after it: <|channel|>commentary to=functions.f![g{}]",
    ),
    (
        "<|channel|>commentary to=f {}<|call|>",
        "!the header of a message has no message after it: <|channel|>commentary to=f {}<|call|>!",
    ),
    // Messages that are not the model's to write.
    (
        "Hi.<|end|><|start|>user<|message|>And you?",
        "Hi.!the header of a message names the role \"user\", not the model's: <|start|>user<|message|>!And you?",
    ),
    (
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>7",
        "!the header of a message names the role \"functions.f\", not the model's: <|start|>functions.f to=assistant<|channel|>commentary<|message|>!7",
    ),
];

#[test]
fn headers_are_read_however_they_come() {
    for (reply, want) in REPLIES {
        assert_eq!(read(ToolChoice::Auto, &[reply], End::Stop), *want, "{reply:?}");
        let letters: Vec<&str> = reply.split_inclusive(|_| true).collect();
        assert_eq!(read(ToolChoice::Auto, &letters, End::Stop), *want, "{reply:?}, letter by letter");
        for at in 0..reply.len() {
            let pieces = [&reply[..at], &reply[at..]];
            assert_eq!(read(ToolChoice::Auto, &pieces, End::Stop), *want, "{pieces:?}");
        }
    }
}

#[test]
fn a_header_that_is_too_long_is_text_wherever_it_is_cut() {
    let reply = format!("<|channel|>commentary {}<|message|>Hi.", "é".repeat(1000));
    let want = read(ToolChoice::Auto, &[&reply], End::Stop);
    assert!(
        want.starts_with("!the header of a message has more than 1024 bytes: <|channel|>commentary éé"),
        "{want}"
    );
    let text =
        want.replacen("!the header of a message has more than 1024 bytes: ", "", 1).replacen('!', "", 1);
    assert_eq!(text, reply);
    for at in (0..reply.len()).filter(|at| reply.is_char_boundary(*at)) {
        assert_eq!(read(ToolChoice::Auto, &[&reply[..at], &reply[at..]], End::Stop), want, "{at}");
    }
}

/// A header that was cut off before it had a name is no text. Everything else comes back.
#[test]
fn a_header_without_an_end_comes_back() {
    let sound = "<|channel|>commentary json";
    assert_eq!(read(ToolChoice::Auto, &[sound], End::Cut), "");
    let said = format!("!the reply ended inside the header of a message: {sound}!");
    assert_eq!(read(ToolChoice::Auto, &[sound], End::Stop), said);
    assert_eq!(read(ToolChoice::Auto, &["Hi.<|start|>assistant<|channel|>comm"], End::Cut), "Hi.");
    for (broken, reason) in [
        ("<|channel|>commentary to=functions.", "cut off inside the call"),
        ("<|channel|>commentary We should look", "goes on after its type"),
        ("<|start|>user", "names the role \"user\""),
    ] {
        let got = read(ToolChoice::Auto, &[broken], End::Cut);
        assert!(got.contains(reason) && got.ends_with(&format!(": {broken}!")), "{broken}: {got}");
    }
}

#[test]
fn where_no_tool_may_be_called_what_looks_like_a_call_is_text() {
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}";
    let reply = format!("<|channel|>analysis<|message|>So.<|end|><|start|>assistant{call}<|call|>");
    for at in 0..reply.len() {
        let got = read(ToolChoice::None, &[&reply[..at], &reply[at..]], End::Stop);
        assert_eq!(got, format!("(So.)<|start|>assistant{call}"), "{at}");
    }
}
