//! Grammars for calls: what they let through is what the parser reads.
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use ember::chat::reply::{ReplyFormat, ToolChoice, ToolGrammar, Tools};

const TOOLS: &str = r#"[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
{"a":{"type":"string"},"n":{"type":"integer"},"e":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}}},
{"type":"function","function":{"name":"g"}}]"#;

fn format(marks: &str) -> ReplyFormat {
    let source = format!("{{% if false %}}{{% raw %}}{marks}{{% endraw %}}{{% endif %}}");
    ReplyFormat::of_template(&source).unwrap()
}

fn grammar(marks: &str, choice: &ToolChoice, parallel: bool) -> ToolGrammar {
    format(marks).tool_grammar(&Tools::parse(TOOLS).unwrap(), choice, parallel, &|_| None).unwrap().unwrap()
}

#[test]
fn the_text_of_a_grammar() {
    let hermes = grammar("<tool_call>", &ToolChoice::Auto, true);
    assert_eq!(hermes.triggers, ["<tool_call>"]);
    let schema = &TOOLS[TOOLS.find("{\"type\":\"object\"").unwrap()..TOOLS.find("}},\n{").unwrap()];
    let schema = &schema[1..];
    let space = r#""x-guidance": {"whitespace_flexible": true, "whitespace_pattern": "[\\x20\\x0A]{1,8}"}"#;
    let want = format!(
        "start: \"\\n\" rest (/\\s{{0,8}}/ \"<tool_call>\\n\" rest)*\n\
         arguments_0: %json {{{space}, {schema}\n\
         call_0: \"{{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \" arguments_0 \"}}\"\n\
         arguments_1: %json {{{space}, \"type\": \"object\", \"properties\": {{}}, \"additionalProperties\": false}}\n\
         call_1: \"{{\\\"name\\\": \\\"g\\\", \\\"arguments\\\": \" arguments_1 \"}}\"\n\
         call: call_0 | call_1\n\
         rest: call \"\\n</tool_call>\"\n"
    );
    assert_eq!(hermes.lark, want);
    let named = grammar("[TOOL_CALLS] [ARGS]", &ToolChoice::Named("g".into()), false);
    assert!(named.triggers.is_empty() && named.lark.starts_with("start: \"[TOOL_CALLS]\" rest\n"));
    assert!(named.lark.contains("call_0: \"g\" \"[ARGS]\" arguments_0\n"), "{}", named.lark);
    let tools = Tools::parse(TOOLS).unwrap();
    let token = |text: &str| (text == "<|tool_call_start|>").then_some(7);
    let lfm2 = format("<|tool_call_start|>")
        .tool_grammar(&tools, &ToolChoice::Required, true, &token)
        .unwrap()
        .unwrap();
    assert!(
        lfm2.lark.starts_with("start: <[7]> \"[\" call (\", \" call)* \"]<|tool_call_end|>\"\n"),
        "{}",
        lfm2.lark
    );
    assert!(
        lfm2.lark.contains("list_0: argument_0_0 (\", \" argument_0_1)? (\", \" argument_0_2)?\n"),
        "{}",
        lfm2.lark
    );
}

#[test]
fn choices_that_cannot_be_kept_are_refused() {
    let tools = Tools::parse(TOOLS).unwrap();
    let ask = |marks: &str, tools: &Tools, choice: ToolChoice| {
        format(marks).tool_grammar(tools, &choice, true, &|_| None)
    };
    assert_eq!(ask("<tool_call>", &tools, ToolChoice::None), Ok(None));
    assert_eq!(ask("<tool_call>", &Tools::default(), ToolChoice::Auto), Ok(None));
    assert_eq!(ask("<|python_tag|> \"parameters\"", &tools, ToolChoice::Auto), Ok(None));
    let words =
        |result: Result<Option<ToolGrammar>, ember::error::Error>| result.unwrap_err().message().to_owned();
    assert!(words(ask("<tool_call>", &tools, ToolChoice::Named("h".into()))).contains("\"h\""));
    assert!(words(ask("<tool_call>", &Tools::default(), ToolChoice::Required)).contains("no tools"));
    assert!(words(ask("<|START_ACTION|>", &tools, ToolChoice::Required)).contains("cohere"));
}
