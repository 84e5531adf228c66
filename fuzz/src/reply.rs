//! Any reply in any form, cut into any chunks: the events make sense, are the same however the reply is cut, and lose no text.
//!
//! The input: the number of a form, an option, where to cut, and the reply.

use std::sync::OnceLock;

use ember::chat::reply::{End, Event, ReplyFormat, ReplyOptions, ReplyParser, Tools};

/// Templates that write one call in each form, or say how a call is written, and the mark of thoughts.
const TEMPLATES: [&str; 29] = [
    "<tool_call>{{ think }}",
    "{\"name\": \"get_weather\", \"parameters\"",
    "[TOOL_CALLS] [ARGS] [THINK][/THINK]",
    "[TOOL_CALLS]",
    "<｜tool▁call▁begin｜></think>",
    "<|tool_call_argument_begin|></think>",
    "<|channel|> <|message|> commentary",
    "<|tool_call_start|>",
    "<|tool_call>call: <channel|>",
    "<start_function_call>",
    "<function=<parameter=</think>",
    "<seed:tool_call></seed:think>",
    "<arg_key></think>",
    "<function name=\"<param name=\"</think>",
    "<minimax:tool_call></think>",
    "<｜DSML｜</think>",
    "<TOOLCALL></think>",
    "<|START_ACTION|><|END_THINKING|>",
    "<|/tool|>",
    "<|tool_call|></think>",
    "<｜DSML｜tool_calls></think>",
    "<|tools_prefix|><|inner_suffix|>",
    "function call<|role_sep|>",
    "<|function_call|>",
    "<tool_sep:opensource></think:opensource>",
    "<|open|>call tool=<|close|>",
    "]<]minimax[>[</mm:think>",
    ">>>all",
    "<|tool_call:begin|><|think|><|end|>",
];

const TOOLS: &str = r#"[{"name":"f","parameters":{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{}}}},{"name":"g"}]"#;

fn formats() -> &'static Vec<ReplyFormat> {
    static FORMATS: OnceLock<Vec<ReplyFormat>> = OnceLock::new();
    FORMATS.get_or_init(|| {
        let of = |text: &&str| {
            // A template that has the text but never writes it.
            let source = format!("{{% if false %}}{{% raw %}}{text}{{% endraw %}}{{% endif %}}");
            let format = ReplyFormat::of_template(&source).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert!(format.name().is_some(), "{text}");
            format
        };
        TEMPLATES.iter().map(of).collect()
    })
}

/// The events of a reply in these chunks. Events of the same kind that follow each other are joined.
fn events(format: &ReplyFormat, options: &ReplyOptions, pieces: &[&str], end: End) -> Vec<Event> {
    let mut parser = ReplyParser::new(format, options.clone());
    let mut all: Vec<Event> = Vec::new();
    let mut take = |events: Vec<Event>| {
        for event in events {
            match (all.last_mut(), event) {
                (Some(Event::Text(a)), Event::Text(b)) | (Some(Event::Thinking(a)), Event::Thinking(b)) => {
                    *a += &b
                }
                (Some(Event::CallArguments { delta: a, .. }), Event::CallArguments { delta: b, .. }) => {
                    *a += &b
                }
                (_, event) => all.push(event),
            }
        }
    };
    for piece in pieces {
        take(parser.push(piece));
    }
    take(parser.finish(end));
    assert!(parser.push("more").is_empty() && parser.finish(end).is_empty());
    all
}

/// What must hold for any reply.
fn check(events: &[Event], reply: &str) {
    let mut open: Option<(usize, String)> = None;
    let (mut next, mut n_text) = (0, 0);
    for event in events {
        match event {
            Event::Text(text) | Event::Thinking(text) => {
                assert!(!text.is_empty() && open.is_none());
                n_text += text.len();
            }
            Event::CallBegin { index, id, name } => {
                assert!(open.is_none() && *index == next && !id.is_empty() && !name.is_empty());
                open = Some((*index, String::new()));
            }
            Event::CallArguments { index, delta } => {
                let (of, text) = open.as_mut().expect("a call has begun");
                assert_eq!(index, of);
                text.push_str(delta);
            }
            Event::CallDone { index, arguments, .. } => {
                let (of, text) = open.take().expect("a call has begun");
                assert!(*index == of && text == *arguments);
                // The number may be one that JSON has and this reader does not have: 1e999.
                match serde_json::from_str::<serde_json::Value>(arguments) {
                    Ok(value) => assert!(value.is_object(), "{arguments}"),
                    Err(e) => assert!(e.to_string().contains("number out of range"), "{arguments}: {e}"),
                }
                next += 1;
            }
            Event::CallBroken { index, text, reason, .. } => {
                assert!(*index == next && !reason.is_empty());
                n_text += text.len();
                open = None;
                next += 1;
            }
        }
    }
    assert!(open.is_none() && n_text <= reply.len(), "{events:?}");
}

/// Reads the reply whole, in two pieces, and character by character.
pub fn run(bytes: &[u8]) {
    let [form, options, cut, reply @ ..] = bytes else { return };
    let Some(reply) = super::text(reply) else { return };
    let format = &formats()[usize::from(*form) % TEMPLATES.len()];
    let options = ReplyOptions {
        tools: if options & 1 == 0 { Tools::default() } else { Tools::parse(TOOLS).expect("tools") },
        parallel: options & 2 == 0,
        prompt: (options & 4 == 0).then(String::new),
        ..ReplyOptions::default()
    };
    for end in [End::Stop, End::Cut] {
        let whole = events(format, &options, &[reply], end);
        check(&whole, reply);
        let mut at = usize::from(*cut) % (reply.len() + 1);
        while !reply.is_char_boundary(at) {
            at -= 1;
        }
        let (a, b) = reply.split_at(at);
        assert_eq!(events(format, &options, &[a, b], end), whole, "{a:?} {b:?}");
        let each: Vec<&str> = reply.split_inclusive(|_| true).collect();
        assert_eq!(events(format, &options, &each, end), whole, "{reply:?}");
    }
}
